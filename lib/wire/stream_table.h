// The rules of a link's streams, for either end: which frame may come when, how much DATA the
// credit allows, and when a stream id is used up. It decides; lib/link and lib/guest act. A
// refusal means that the peer broke the protocol and the link must end.
//
// Credit is a running total: "you may have sent this many bytes of DATA (without addresses) on
// this stream since OPEN". Totals only grow, so a repeated CREDIT is harmless.
//
// Owned by one link; that link's thread only. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/wire/frame.h"
#include "lib/wire/handshake.h"

namespace sandbroker::wire {

class StreamTable {
 public:
  // `max_streams` bounds streams open at once (a peer that exceeds it broke the protocol).
  StreamTable(Side side, size_t max_streams) : side_(side), max_streams_(max_streams) {}

  enum class Verdict {
    kDeliver,
    // For a stream that is already over on this side: expected while frames cross; drop it.
    kIgnore,
  };

  // Checks a frame from the peer (stream ids other than 0) and accounts for it.
  absl::StatusOr<Verdict> OnFrame(const Frame& frame);

  // Broker: the next stream id, opened.
  uint32_t OpenStream();
  // This side has sent or acted on END or RESET: frames still under way are ignored.
  void CloseStream(uint32_t stream);
  bool IsOpen(uint32_t stream) const { return streams_.count(stream) != 0; }
  size_t open_streams() const { return streams_.size(); }

  // Bytes of DATA that may be sent on the stream now; 0 when it is not open.
  uint64_t SendRoom(uint32_t stream) const;
  // The peer allows `total` bytes since OPEN, said elsewhere than in a CREDIT.
  void AllowSending(uint32_t stream, uint64_t total);
  void OnDataSent(uint32_t stream, uint64_t bytes);

  // This side now allows the peer `total` bytes since OPEN. Answers false when that is no growth.
  bool GrantTotal(uint32_t stream, uint64_t total);
  uint64_t received(uint32_t stream) const;

 private:
  struct Stream {
    uint64_t sent = 0;
    uint64_t send_limit = 0;
    uint64_t received = 0;
    uint64_t receive_limit = 0;
  };

  absl::Status CheckDirection(const Frame& frame) const;
  absl::Status OnOpen(const Frame& frame);
  absl::Status OnData(const Frame& frame, Stream& stream);
  absl::Status OnCredit(const Frame& frame, Stream& stream);

  const Side side_;
  const size_t max_streams_;
  uint32_t last_opened_ = 0;
  std::map<uint32_t, Stream> streams_;
};

}  // namespace sandbroker::wire
