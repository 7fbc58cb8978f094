#include "lib/guest/core/output_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::guest {
namespace {

constexpr size_t kMinChunk = 1024;
constexpr size_t kMaxChunk = 64 * 1024;

OutputLog::Settings Sane(OutputLog::Settings settings) {
  settings.capacity = std::max(settings.capacity, settings.window + OutputLog::kFrame);
  return settings;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputLog>> OutputLog::Create(const Settings& settings,
                                                             OutputBudget* budget, Time now) {
  const uint64_t needed = settings.window + kFrame;
  if (!budget->Reserve(needed)) {
    return MakeError(Reason::kCapacity,
                     StrCat("output budget of the sandbox: ", needed, " bytes wanted, ",
                            budget->available(), " of ", budget->total(), " left"));
  }
  auto log = std::unique_ptr<OutputLog>(new OutputLog(Sane(settings), budget, now));
  log->allowance_ = needed;
  return log;
}

OutputLog::OutputLog(const Settings& settings, OutputBudget* budget, Time now)
    : settings_(settings),
      budget_(budget),
      hold_until_(SaturatingAdd(now, settings.reattach_window)) {}

OutputLog::~OutputLog() { budget_->GiveBack(allowance_); }

uint64_t OutputLog::floor() const {
  const uint64_t behind = sent_ > settings_.window ? sent_ - settings_.window : 0;
  return std::max(start_, acks_ ? acked_ : std::max(acked_, behind));
}

void OutputLog::Grow(uint64_t cost) {
  const uint64_t wanted = std::min(settings_.capacity, cost_ + cost);
  if (wanted > allowance_) allowance_ += budget_->Grant(wanted - allowance_);
}

// Off the first segment, at most all of it.
void OutputLog::CutFront(uint64_t bytes) {
  Segment& front = segments_.front();
  cost_ -= bytes;
  start_ = front.offset + bytes;
  if (bytes == front.bytes.size()) {
    cost_ -= kSegmentCost;
    segments_.pop_front();
    return;
  }
  front.offset += bytes;
  front.bytes = front.bytes.Slice(bytes, front.bytes.size() - bytes);
}

void OutputLog::Evict(Time now, uint64_t cost) {
  const uint64_t limit = held(now) ? floor() : end_;
  while (cost_ + cost > allowance_ && !segments_.empty()) {
    const Segment& front = segments_.front();
    if (front.offset >= limit) break;
    const uint64_t evictable = std::min<uint64_t>(limit - front.offset, front.bytes.size());
    CutFront(std::min(evictable, cost_ + cost - allowance_));
  }
}

void OutputLog::TrimHistory() {
  const uint64_t floor = this->floor();
  if (attachment_ == 0 || end_ <= kBulk || floor < kHistory) return;
  while (!segments_.empty()) {
    const Segment& front = segments_.front();
    if (front.offset + front.bytes.size() > floor - kHistory) break;
    CutFront(front.bytes.size());
  }
}

bool OutputLog::Paced(Time now) {
  if (attachment_ == 0 || now - last_progress_ >= kStall) return paced_ = false;
  const uint64_t ahead = end_ - sent_;
  return paced_ = ahead >= (paced_ ? kReadAhead / 2 : kReadAhead);
}

Time OutputLog::RoomChangesAt(Time now) const {
  if (attachment_ == 0) return hold_until_;
  const Time stalled_at = last_progress_ + kStall;
  return paced_ && now < stalled_at ? stalled_at : kNever;
}

uint64_t OutputLog::Room(Time now, uint64_t want) {
  SANDBROKER_CHECK(!finished_);
  TrimHistory();
  return Paced(now) ? 0 : FinalRoom(now, want);
}

uint64_t OutputLog::FinalRoom(Time now, uint64_t want) {
  const uint64_t cost = want + kSegmentCost;
  Grow(cost);
  Evict(now, cost);
  if (cost_ + kSegmentCost >= allowance_) return 0;
  const uint64_t room = std::min(want, allowance_ - cost_ - kSegmentCost);
  return room < std::min(want, kMinRoom) ? 0 : room;
}

void OutputLog::Push(int fd, SharedBytes bytes) {
  cost_ += bytes.size() + kSegmentCost;
  const uint64_t offset = end_;
  end_ += bytes.size();
  segments_.push_back({offset, fd, std::move(bytes)});
}

void OutputLog::Append(int fd, SharedBytes bytes) {
  if (bytes.empty()) return;
  Push(fd, std::move(bytes));
}

void OutputLog::AppendCopy(int fd, std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > chunk_size_ - chunk_used_) {
    chunk_size_ = std::clamp(chunk_size_ * 2, kMinChunk, kMaxChunk);
    chunk_size_ = std::max(chunk_size_, bytes.size());
    chunk_ = std::make_shared_for_overwrite<char[]>(chunk_size_);
    chunk_used_ = 0;
  }
  char* const place = chunk_.get() + chunk_used_;
  std::memcpy(place, bytes.data(), bytes.size());
  chunk_used_ += bytes.size();
  if (!segments_.empty() && segments_.back().fd == fd) {
    Segment& back = segments_.back();
    if (back.bytes.data() + back.bytes.size() == place) {
      const char* const begin = back.bytes.data();
      const size_t size = back.bytes.size() + bytes.size();
      back.bytes = SharedBytes(std::shared_ptr<const char>(chunk_, begin), size);
      cost_ += bytes.size();
      end_ += bytes.size();
      return;
    }
  }
  Push(fd, SharedBytes(std::shared_ptr<const char>(chunk_, place), bytes.size()));
}

void OutputLog::Finish() {
  finished_ = true;
  chunk_.reset();
  chunk_size_ = chunk_used_ = 0;
  if (allowance_ <= cost_) return;
  budget_->GiveBack(allowance_ - cost_);
  allowance_ = cost_;
}

void OutputLog::DropOutput() {
  segments_.clear();
  start_ = end_;
  cost_ = 0;
  Finish();
}

absl::StatusOr<OutputLog::Attached> OutputLog::Attach(const ReaderRequest& request, Time now) {
  SANDBROKER_RETURN_IF_ERROR(attempts_.Check(request.holder, request.attempt));
  const bool changes_holder = request.holder != holder_;
  if (changes_holder && !holder_.empty() && held(now) && !request.takeover) {
    return MakeError(Reason::kHeldByOther,
                     "the output is held for another reader; takeover would end its hold");
  }
  if (request.offset > end_) {
    return MakeError(Reason::kOffsetBeyondEnd,
                     StrCat("offset ", request.offset, " is beyond the end, ", end_));
  }
  attempts_.Record(request.holder, request.attempt);
  if (changes_holder) {
    mark_ = highest_sent_;
    holder_ = request.holder;
  }
  Attached attached;
  attached.displaced = attachment_;
  attached.id = attachment_ = ++last_attachment_;
  attached.offset = sent_ = acked_ = std::max(request.offset, start_);
  attached.live_from = std::max(attached.offset, mark_);
  acks_ = request.acks;
  last_progress_ = now;
  return attached;
}

absl::Status OutputLog::Ack(uint64_t id, uint64_t offset) {
  if (id == 0 || id != attachment_) return absl::OkStatus();
  if (offset > sent_) {
    return MakeError(Reason::kOffsetBeyondEnd,
                     StrCat("ack of ", offset, ", but only ", sent_, " was sent"));
  }
  acked_ = std::max(acked_, offset);
  if (finished_) {
    TrimHistory();
    Finish();
  }
  return absl::OkStatus();
}

void OutputLog::Leave(uint64_t id, Time hold_until) {
  if (id == 0 || id != attachment_) return;
  attachment_ = 0;
  hold_until_ = hold_until;
}

void OutputLog::Detach(uint64_t id, Time now) { Leave(id, now); }

void OutputLog::Lost(uint64_t id, Time now) {
  Leave(id, SaturatingAdd(now, settings_.reattach_window));
}

std::optional<OutputLog::Piece> OutputLog::Next(uint64_t id, uint64_t max, Time now) {
  if (!HasUnsent(id) || max == 0) return std::nullopt;
  // Almost always the last one or near it.
  auto it = std::upper_bound(segments_.begin(), segments_.end(), sent_,
                             [](uint64_t offset, const Segment& s) { return offset < s.offset; });
  SANDBROKER_CHECK(it != segments_.begin());
  --it;
  const uint64_t skip = sent_ - it->offset;
  const uint64_t size = std::min<uint64_t>(max, it->bytes.size() - skip);
  Piece piece{sent_, it->fd, it->bytes.Slice(skip, size)};
  sent_ += size;
  last_progress_ = now;
  highest_sent_ = std::max(highest_sent_, sent_);
  return piece;
}

}  // namespace sandbroker::guest
