// What a link sends next: control frames first and in order, then the streams that have data in
// turn, one DATA each, so that a bulk copy never delays a keystroke. It holds no data itself: a
// stream says that it has some, and is asked for one frame when its turn comes. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace sandbroker::wire {

class SendQueue {
 public:
  void PushControl(std::string frame) {
    control_bytes_ += frame.size();
    control_.push_back(std::move(frame));
  }
  std::optional<std::string> PopControl() {
    if (control_.empty()) return std::nullopt;
    std::string frame = std::move(control_.front());
    control_.pop_front();
    control_bytes_ -= frame.size();
    return frame;
  }

  // The stream has data and credit. Saying it twice is harmless.
  void MarkReady(uint32_t stream) {
    if (waiting_.insert(stream).second) turns_.push_back(stream);
  }
  // Takes the next stream out of the ring; mark it again if it has more.
  std::optional<uint32_t> NextStream() {
    while (!turns_.empty()) {
      const uint32_t stream = turns_.front();
      turns_.pop_front();
      if (waiting_.erase(stream) != 0) return stream;
    }
    return std::nullopt;
  }
  void Remove(uint32_t stream) { waiting_.erase(stream); }

  bool empty() const { return control_.empty() && waiting_.empty(); }
  size_t control_bytes() const { return control_bytes_; }

 private:
  std::deque<std::string> control_;
  size_t control_bytes_ = 0;
  std::deque<uint32_t> turns_;
  std::set<uint32_t> waiting_;
};

}  // namespace sandbroker::wire
