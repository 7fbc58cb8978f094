// Protocol A: what an execution printed, from `start` to `end`, one offset space for both fds; who
// reads it, what may be evicted, and when the program's pipes must not be read. Owned by one
// execution. Pure: time is passed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/guest/core/attempt_book.h"
#include "lib/guest/core/output_budget.h"

namespace sandbroker::guest {

class OutputLog {
 public:
  struct Settings {
    uint64_t capacity = 16 * 1024 * 1024;  // N
    uint64_t window = 1024 * 1024;         // W
    Duration reattach_window = std::chrono::seconds(60);
  };
  static constexpr uint64_t kMaxWindow = 8 * 1024 * 1024;
  static constexpr uint64_t kFrame = 64 * 1024;
  // What a stretch of one fd costs beside its bytes, so that single bytes of alternating fds stay
  // within N as well.
  static constexpr uint64_t kSegmentCost = 64;
  // Less room than this is none, so that a full log is not read byte by byte.
  static constexpr uint64_t kMinRoom = 4096;
  // What a reader has taken is only there for those who come later. All of it is kept while the
  // execution has not printed more than kBulk; beyond that, as long as a reader is attached, no
  // more than kHistory below the floor: a bulk copy stays within the processor's caches.
  static constexpr uint64_t kBulk = 4 * 1024 * 1024;
  static constexpr uint64_t kHistory = 256 * 1024;
  // A reader that moves on is not read ahead of by more than this; one that took nothing for
  // kStall is, up to N.
  static constexpr uint64_t kReadAhead = 256 * 1024;
  static constexpr Duration kStall = std::chrono::milliseconds(100);

  // CAPACITY unless W and one frame fit the sandbox's budget, which outlives the log.
  static absl::StatusOr<std::unique_ptr<OutputLog>> Create(const Settings& settings,
                                                           OutputBudget* budget, Time now);
  ~OutputLog();
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;

  // ---- the program's side
  // Bytes of output that may be read from the pipes now, at most `want`; evicts for them. 0 = let
  // the program wait.
  uint64_t Room(Time now, uint64_t want);
  // The same without regard to the reader's pace, for the last bytes before the log is closed.
  uint64_t FinalRoom(Time now, uint64_t want);
  // When room may come by the passing of time alone; kNever = only by a reader.
  Time RoomChangesAt(Time now) const;
  // At most what Room said.
  void Append(int fd, SharedBytes bytes);
  // The same for small pieces, which are packed together.
  void AppendCopy(int fd, std::string_view bytes);
  // Nothing more will be printed: memory beyond what is stored is given back.
  void Finish();
  // Gives all stored output up; whoever attaches later hears of a gap.
  void DropOutput();

  // ---- the primary reader's side
  struct ReaderRequest {
    std::string holder;
    uint64_t attempt = 0;
    uint64_t offset = 0;
    bool acks = false;
    bool takeover = false;
  };
  struct Attached {
    uint64_t id = 0;         // names this attachment in the calls below
    uint64_t displaced = 0;  // attachment that this one ended; 0 = none
    uint64_t offset = 0;     // where it goes on: the offset asked for, or `start` behind a gap
    uint64_t live_from = 0;
  };
  // ATTEMPT_STALE, HELD_BY_OTHER, OFFSET_BEYOND_END or CAPACITY.
  absl::StatusOr<Attached> Attach(const ReaderRequest& request, Time now);
  // What follows only counts from the current attachment. An ack of what was not sent is refused.
  absl::Status Ack(uint64_t id, uint64_t offset);
  void Detach(uint64_t id, Time now);
  void Lost(uint64_t id, Time now);

  struct Piece {
    uint64_t offset = 0;
    int fd = 1;
    SharedBytes bytes;
  };
  bool HasUnsent(uint64_t id) const { return id != 0 && id == attachment_ && sent_ < end_; }
  // The next bytes for the attachment, at most `max` of them; counts them as sent.
  std::optional<Piece> Next(uint64_t id, uint64_t max, Time now);

  bool held(Time now) const { return attachment_ != 0 || now < hold_until_; }
  // When a log that lost its reader becomes free; kNever while one is attached.
  Time hold_until() const { return attachment_ != 0 ? kNever : hold_until_; }
  uint64_t start() const { return start_; }
  uint64_t end() const { return end_; }
  uint64_t floor() const;
  uint64_t cost() const { return cost_; }
  bool attached() const { return attachment_ != 0; }

 private:
  struct Segment {
    uint64_t offset = 0;
    int fd = 1;
    SharedBytes bytes;
  };

  OutputLog(const Settings& settings, OutputBudget* budget, Time now);
  void Grow(uint64_t cost);
  void Evict(Time now, uint64_t cost);
  void TrimHistory();
  bool Paced(Time now);
  void CutFront(uint64_t bytes);
  void Push(int fd, SharedBytes bytes);
  void Leave(uint64_t id, Time hold_until);

  const Settings settings_;
  OutputBudget* const budget_;
  uint64_t allowance_ = 0;  // taken from the budget
  uint64_t cost_ = 0;
  bool finished_ = false;
  std::deque<Segment> segments_;
  uint64_t start_ = 0;
  uint64_t end_ = 0;
  // Small pieces go behind each other in here.
  std::shared_ptr<char[]> chunk_;
  size_t chunk_size_ = 0;
  size_t chunk_used_ = 0;

  AttemptBook attempts_;
  std::string holder_;  // present or last; empty before the first
  uint64_t last_attachment_ = 0;
  uint64_t attachment_ = 0;  // 0 = nobody is attached
  bool acks_ = false;
  uint64_t sent_ = 0;
  uint64_t acked_ = 0;
  uint64_t highest_sent_ = 0;
  uint64_t mark_ = 0;
  Time hold_until_;
  Time last_progress_{};
  bool paced_ = false;
};

}  // namespace sandbroker::guest
