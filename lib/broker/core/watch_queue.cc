#include "lib/broker/core/watch_queue.h"

#include <utility>

namespace sandbroker::broker {

WatchQueue::WatchQueue(const std::vector<std::string>& snapshot, size_t limit)
    : limit_(limit), snapshot_left_(snapshot.size() + 1) {
  for (const std::string& uid : snapshot) OnChanged(uid);
  order_.emplace_back();
}

void WatchQueue::OnChanged(const std::string& uid) {
  if (waiting_.emplace(uid, std::nullopt).second) order_.push_back(uid);
}

void WatchQueue::OnRemoved(const std::string& uid, Removal removal) {
  const auto it = waiting_.find(uid);
  if (told_.count(uid) == 0) {
    // Its place in the order is passed over.
    if (it != waiting_.end()) waiting_.erase(it);
    return;
  }
  if (it == waiting_.end()) order_.push_back(uid);
  waiting_[uid] = std::move(removal);
}

bool WatchQueue::overrun() const { return order_.size() > snapshot_left_ + limit_; }

WatchQueue::Next WatchQueue::Pop() {
  Next next{std::move(order_.front()), std::nullopt};
  order_.pop_front();
  if (snapshot_left_ > 0) --snapshot_left_;
  const auto it = waiting_.find(next.uid);
  if (it == waiting_.end()) return next;
  next.removal = std::move(it->second);
  waiting_.erase(it);
  if (next.removal) told_.erase(next.uid);
  return next;
}

WatchQueue::News WatchQueue::Tell(const std::string& uid, const SandboxView& view) {
  const Told now{view.state, view.lease.expire};
  const auto [it, added] = told_.emplace(uid, now);
  if (added) return News::kAdded;
  if (it->second == now) return News::kNothing;
  it->second = now;
  return News::kModified;
}

}  // namespace sandbroker::broker
