// Connections that wait for their next request, and how many may be in use at once. A caller that
// finds all places taken waits its turn within its own bound. Loop thread only.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lib/kube/transport.h"

namespace sandbroker::kube {

struct PoolLimits {
  size_t max_in_use = 32;
  size_t max_idle = 8;
  // Less than what servers and what stands between keep idle connections for.
  Duration max_idle_time = std::chrono::seconds(30);
};

class ConnectionPool {
 public:
  // One connection in one caller's hands. Its place is free again when it is destroyed; the
  // connection is kept only if the caller says so.
  class Lease {
   public:
    Lease() = default;
    Lease(ConnectionPool* pool, std::shared_ptr<Connection> connection)
        : pool_(pool), connection_(std::move(connection)) {}
    ~Lease();
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    // A place without a connection yet.
    void Fill(std::shared_ptr<Connection> connection) { connection_ = std::move(connection); }

    explicit operator bool() const { return connection_ != nullptr; }
    const std::shared_ptr<Connection>& connection() const { return connection_; }
    bool reused() const { return connection_->carried > 1; }
    void Keep() { keep_ = true; }

   private:
    ConnectionPool* pool_ = nullptr;
    std::shared_ptr<Connection> connection_;
    bool keep_ = false;
  };

  ConnectionPool(Transport& transport, PoolLimits limits);
  ~ConnectionPool();

  // False, with `*error`, if there is none within the call. `fresh`: one that has carried nothing;
  // those that wait are given up, as one of them was found dead.
  Task<Lease> Take(CallEnd& end, bool fresh, std::string* error);

  // From now on nothing waits for a next request: neither connections nor their timer.
  void KeepNone();

  size_t in_use() const { return in_use_; }
  size_t idle() const { return idle_.size(); }

 private:
  Task<bool> TakePlace(CallEnd& end);
  void GiveBack(std::shared_ptr<Connection> connection, bool keep);
  void Sweep();

  Transport& transport_;
  PoolLimits limits_;
  size_t in_use_ = 0;
  std::deque<OneShot<bool>> waiting_;              // for a place, longest first
  std::vector<std::shared_ptr<Connection>> idle_;  // longest idle first
  std::unique_ptr<Timer> sweep_;
};

}  // namespace sandbroker::kube
