// One local pool: keeps `warm` sandboxes started ahead, serves callers in order, starts more where
// the limits allow, and remembers why a start failed. Decisions are AcquireQueue's. Loop thread
// only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lib/async/blocking_pool.h"
#include "lib/async/cancel.h"
#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "lib/backend/local/local_sandbox.h"
#include "lib/backend/local/settings.h"
#include "lib/broker/backend.h"
#include "lib/broker/core/acquire_queue.h"
#include "lib/obs/metrics.h"

namespace sandbroker::local {

// Host uids that no living sandbox has. 0 = run as the broker does.
class UidRange {
 public:
  UidRange(uid_t first, uint32_t count, bool enabled)
      : first_(first), used_(enabled ? count : 0), enabled_(enabled) {}
  // False when all are taken.
  bool Take(uid_t* uid);
  void Free(uid_t uid);

 private:
  uid_t first_;
  std::vector<bool> used_;
  // Round robin, so that a uid rests before it is used again; from a random place, so that those of
  // a dead broker are not met at once.
  size_t next_ = std::random_device()();
  bool enabled_;
};

struct PoolParts {
  Loop& loop;
  BlockingPool& blocking;
  TaskScope& scope;
  broker::AgentDialer& dialer;
  obs::Metrics& metrics;
  const LocalSettings& settings;
  UidRange& uids;
};

class Pool {
 public:
  Pool(PoolParts parts, PoolSettings settings);

  void SetObserver(broker::BackendObserver* observer) { observer_ = observer; }
  // Starts filling.
  void Start() { Refill(); }
  Task<absl::StatusOr<broker::Binding>> Acquire(broker::AcquireSpec spec, CancelToken cancel);
  bool Has(const std::string& uid) const { return members_.count(uid) != 0; }
  // Ends it; completes when it is gone.
  Task<absl::Status> Release(std::string uid);
  broker::PoolCapacity Capacity() const;
  // No more starts; waiting callers and warm sandboxes are ended.
  void Drain();
  // Ends everything; calls `done` when nothing is left.
  Task<void> Shutdown();

 private:
  enum class Use { kStarting, kReady, kClaimed, kEnding };
  struct Member {
    std::shared_ptr<LocalSandbox> sandbox;  // nullptr while its process is being started
    Use use = Use::kStarting;
    uid_t host_uid = 0;
    Time begun;
    Duration start_time{0};
    std::vector<OneShot<bool>> gone_waiters;
  };
  using Handed = absl::StatusOr<std::string>;  // uid

  void Refill();
  Task<void> StartOne(std::string uid);
  LocalSandbox::Callbacks CallbacksOf(const std::string& uid);
  void OnReady(const std::string& uid);
  void OnGone(const std::string& uid, const std::string& cause);
  void OnStartFailed(const std::string& why);
  void Forget(const std::string& uid);
  // Kills a member and waits, bounded, until it is gone.
  Task<absl::Status> End(std::string uid, std::string why);
  absl::StatusOr<broker::Binding> Bind(const std::string& uid, Time arrived);
  Task<Handed> Queue(broker::AcquireSpec spec, CancelToken cancel);
  std::string NextReady();
  absl::Status DryError(const broker::AcquireSpec& spec) const;
  void ArmExpiry();
  void KeepWarmAlive();
  broker::PoolCounts Counts() const;
  void Publish() const;

  PoolParts parts_;
  const PoolSettings settings_;
  const TemplateSettings& template_;
  broker::AcquireQueue queue_;
  broker::BackendObserver* observer_ = nullptr;
  std::map<std::string, Member> members_;  // by sandbox uid
  std::deque<std::string> ready_;          // oldest first
  std::map<broker::AcquireQueue::Ticket, OneShot<Handed>> waiters_;
  bool draining_ = false;
  std::string last_error_;
  Duration backoff_{0};
  std::unique_ptr<Timer> expiry_timer_;   // ends callers whose wait is over
  std::unique_ptr<Timer> backoff_timer_;  // tries to start again after a failure
  std::unique_ptr<Timer> alive_timer_;    // moves the backstop of warm sandboxes
};

}  // namespace sandbroker::local
