#include "lib/kube/connection_pool.h"

#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::kube {

ConnectionPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      connection_(std::move(other.connection_)),
      keep_(other.keep_) {}

ConnectionPool::Lease::~Lease() {
  if (pool_ != nullptr) pool_->GiveBack(std::move(connection_), keep_);
}

ConnectionPool::ConnectionPool(Transport& transport, PoolLimits limits)
    : transport_(transport), limits_(limits) {}

ConnectionPool::~ConnectionPool() = default;

Task<bool> ConnectionPool::TakePlace(CallEnd& end) {
  if (in_use_ < limits_.max_in_use) {
    ++in_use_;
    co_return true;
  }
  // Those who gave up are still in the queue.
  std::erase_if(waiting_, [](const OneShot<bool>& one) { return one.done(); });
  OneShot<bool> place;
  waiting_.push_back(place);
  end.Interrupt([place] { place.Set(false); });
  const bool taken = co_await place.Wait();
  end.Interrupt(nullptr);
  co_return taken;
}

Task<ConnectionPool::Lease> ConnectionPool::Take(CallEnd& end, bool fresh, std::string* error) {
  if (end.over()) {
    *error = end.text();
    co_return Lease();
  }
  const bool taken = co_await TakePlace(end);
  if (!taken) {
    *error = StrCat(end.text(), " (all ", limits_.max_in_use, " connections are in use)");
    co_return Lease();
  }
  if (fresh) idle_.clear();
  while (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    if (connection->Usable()) co_return Lease(this, std::move(connection));
  }
  // Holds the place, whatever becomes of the dial.
  Lease place(this, nullptr);
  auto connection = co_await transport_.Dial(end, error);
  place.Fill(std::move(connection));
  co_return place;
}

void ConnectionPool::GiveBack(std::shared_ptr<Connection> connection, bool keep) {
  if (connection && keep && limits_.max_idle > 0) {
    if (idle_.size() == limits_.max_idle) idle_.erase(idle_.begin());
    connection->idle_since = transport_.scheduler().Now();
    idle_.push_back(std::move(connection));
    if (!sweep_) Sweep();
  }
  // A place goes to whoever has waited longest and still waits.
  while (!waiting_.empty()) {
    const OneShot<bool> next = std::move(waiting_.front());
    waiting_.pop_front();
    if (next.done()) continue;
    next.Set(true);
    return;
  }
  --in_use_;
}

void ConnectionPool::KeepNone() {
  limits_.max_idle = 0;
  idle_.clear();
  sweep_.reset();
}

void ConnectionPool::Sweep() {
  const Time now = transport_.scheduler().Now();
  while (!idle_.empty() && now - idle_.front()->idle_since >= limits_.max_idle_time) {
    idle_.erase(idle_.begin());
  }
  sweep_.reset();
  if (idle_.empty()) return;
  const Duration left = limits_.max_idle_time - (now - idle_.front()->idle_since);
  sweep_ = transport_.scheduler().After(left, [this] { Sweep(); });
}

}  // namespace sandbroker::kube
