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
#include "lib/backend/local/leftovers.h"
#include "lib/backend/local/local_sandbox.h"
#include "lib/backend/local/record_keeper.h"
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
  // One that a sandbox of an earlier broker has. False: another one has it already.
  bool TakeThis(uid_t uid);
  void Free(uid_t uid);

 private:
  bool Holds(uid_t uid) const { return enabled_ && uid >= first_ && uid - first_ < used_.size(); }

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
  RecordKeeper& records;
};

class Pool {
 public:
  Pool(PoolParts parts, PoolSettings settings);

  void SetObserver(broker::BackendObserver* observer) { observer_ = observer; }
  // Starts filling.
  void Start() { Refill(); }
  Task<absl::StatusOr<broker::Binding>> Acquire(broker::AcquireSpec spec, CancelToken cancel);
  bool Has(const std::string& uid) const { return members_.count(uid) != 0; }
  // Writes the claim into the sandbox's record.
  Task<absl::Status> Remember(std::string uid, broker::Claim claim);
  // As written, or being written. Null: not claimed, or not one of this pool's.
  const broker::Claim* ClaimOf(const std::string& uid) const;
  // One that an earlier broker left, its process known: dials it, and takes it in once it has
  // proved itself; else it is ended. Completes, bounded, when that is settled. Before Start.
  Task<void> Adopt(FoundSandbox found);
  // Whether `record` was made as this pool makes them today.
  bool MadeAlike(const SandboxRecord& record) const { return record.made == made_; }
  // Ends it; completes when it is gone.
  Task<absl::Status> Release(std::string uid);
  broker::PoolCapacity Capacity() const;
  // No more starts; waiting callers are ended, and warm sandboxes unless they are to be kept.
  void Drain();
  // Ends everything, or what is not to be kept; completes when nothing is left.
  Task<void> Shutdown();

 private:
  enum class Use { kStarting, kReady, kClaimed, kEnding };
  struct Member {
    std::shared_ptr<LocalSandbox> sandbox;  // nullptr while its process is being started
    Use use = Use::kStarting;
    SandboxRecord record;  // as written, or being written
    bool adopted = false;
    OneShot<bool> settled;  // an adoption came to its end
    Time begun;
    Duration start_time{0};
    std::vector<OneShot<bool>> gone_waiters;
  };
  using Handed = absl::StatusOr<std::string>;  // uid

  static absl::Status DrainingError();
  void Refill();
  Task<void> StartOne(std::string uid);
  Task<void> Note(std::string uid);
  void OnAdopted(const std::string& uid);
  void BecomeReady(const std::string& uid);
  LocalSandbox::Callbacks CallbacksOf(const std::string& uid);
  void OnReady(const std::string& uid);
  void OnGone(const std::string& uid, const std::string& cause);
  void OnStartFailed(const std::string& why);
  void Forget(const std::string& uid);
  Task<void> Remove(std::string uid, uid_t host_uid);
  Task<void> WaitForRemovals();
  void LetGoOfKept();
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
  const std::string made_;
  const std::string host_;
  broker::AcquireQueue queue_;
  broker::BackendObserver* observer_ = nullptr;
  std::map<std::string, Member> members_;  // by sandbox uid
  std::deque<std::string> ready_;          // oldest first
  std::map<broker::AcquireQueue::Ticket, OneShot<Handed>> waiters_;
  size_t removing_ = 0;  // folders of sandboxes that are gone
  OneShot<bool> removed_;
  bool draining_ = false;
  std::string last_error_;
  Duration backoff_{0};
  std::unique_ptr<Timer> expiry_timer_;   // ends callers whose wait is over
  std::unique_ptr<Timer> backoff_timer_;  // tries to start again after a failure
  std::unique_ptr<Timer> alive_timer_;    // moves the backstop of warm sandboxes
};

}  // namespace sandbroker::local
