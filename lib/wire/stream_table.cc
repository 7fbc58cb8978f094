#include "lib/wire/stream_table.h"

#include <algorithm>
#include <limits>

#include "lib/base/check.h"
#include "lib/base/strings.h"

namespace sandbroker::wire {
namespace {

absl::Status Broken(const Frame& frame, std::string_view what) {
  return absl::InvalidArgumentError(
      StrCat(KindName(frame.kind), " on stream ", frame.stream, ": ", what));
}

}  // namespace

absl::Status StreamTable::CheckDirection(const Frame& frame) const {
  const bool from_broker = side_ == Side::kAgent;
  const bool wrong = from_broker ? frame.kind == Kind::kEnd
                                 : frame.kind == Kind::kOpen || frame.kind == Kind::kAck;
  if (wrong) return Broken(frame, "not a frame of that side");
  if (frame.stream == 0) return Broken(frame, "stream 0 carries no execution");
  return absl::OkStatus();
}

absl::Status StreamTable::OnOpen(const Frame& frame) {
  if (frame.stream <= last_opened_) return Broken(frame, "stream ids must grow");
  if (streams_.size() >= max_streams_) {
    return Broken(frame, StrCat("more than ", max_streams_, " streams"));
  }
  last_opened_ = frame.stream;
  streams_.emplace(frame.stream, Stream{});
  return absl::OkStatus();
}

absl::Status StreamTable::OnData(const Frame& frame, Stream& stream) {
  const auto data = ParseData(frame.payload);
  if (!data.ok()) return data.status();
  const uint64_t size = data->bytes.size();
  if (size > stream.receive_limit - stream.received) {
    return Broken(frame, StrCat("credit overrun: ", stream.received, " + ", size, " of ",
                                stream.receive_limit, " bytes"));
  }
  stream.received += size;
  return absl::OkStatus();
}

absl::Status StreamTable::OnCredit(const Frame& frame, Stream& stream) {
  const auto total = ParseNumber(frame.payload);
  if (!total.ok()) return total.status();
  stream.send_limit = std::max(stream.send_limit, *total);
  return absl::OkStatus();
}

absl::StatusOr<StreamTable::Verdict> StreamTable::OnFrame(const Frame& frame) {
  if (absl::Status status = CheckDirection(frame); !status.ok()) return status;
  if (frame.kind == Kind::kOpen) {
    if (absl::Status status = OnOpen(frame); !status.ok()) return status;
    return Verdict::kDeliver;
  }
  const auto it = streams_.find(frame.stream);
  if (it == streams_.end()) {
    if (frame.stream > last_opened_) return Broken(frame, "stream was never opened");
    return Verdict::kIgnore;
  }
  absl::Status status;
  if (frame.kind == Kind::kData) status = OnData(frame, it->second);
  if (frame.kind == Kind::kCredit) status = OnCredit(frame, it->second);
  if (frame.kind == Kind::kAck) status = ParseNumber(frame.payload).status();
  if (!status.ok()) return status;
  if (frame.kind == Kind::kEnd || frame.kind == Kind::kReset) streams_.erase(it);
  return Verdict::kDeliver;
}

uint32_t StreamTable::OpenStream() {
  SANDBROKER_CHECK(side_ == Side::kBroker);
  SANDBROKER_CHECK(last_opened_ < std::numeric_limits<uint32_t>::max());
  streams_.emplace(++last_opened_, Stream{});
  return last_opened_;
}

void StreamTable::CloseStream(uint32_t stream) { streams_.erase(stream); }

uint64_t StreamTable::SendRoom(uint32_t stream) const {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? 0 : it->second.send_limit - it->second.sent;
}

void StreamTable::AllowSending(uint32_t stream, uint64_t total) {
  const auto it = streams_.find(stream);
  if (it != streams_.end()) it->second.send_limit = std::max(it->second.send_limit, total);
}

void StreamTable::OnDataSent(uint32_t stream, uint64_t bytes) {
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  SANDBROKER_CHECK(bytes <= it->second.send_limit - it->second.sent);
  it->second.sent += bytes;
}

bool StreamTable::GrantTotal(uint32_t stream, uint64_t total) {
  const auto it = streams_.find(stream);
  if (it == streams_.end() || total <= it->second.receive_limit) return false;
  it->second.receive_limit = total;
  return true;
}

uint64_t StreamTable::received(uint32_t stream) const {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? 0 : it->second.received;
}

}  // namespace sandbroker::wire
