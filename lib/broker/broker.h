// The broker: handles, tenants, leases, receipts and executions over one backend. It owns every
// Sandbox; services call it and translate its answers. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/async/cancel.h"
#include "lib/async/scheduler.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/status.h"
#include "lib/broker/backend.h"
#include "lib/broker/core/handle.h"
#include "lib/broker/core/lease.h"
#include "lib/broker/core/receipt.h"
#include "lib/broker/core/types.h"
#include "lib/broker/execution.h"
#include "lib/broker/receipt_store.h"
#include "lib/broker/watch.h"
#include "lib/obs/metrics.h"

namespace sandbroker::broker {

class Sandbox;

struct BrokerSettings {
  // 32 bytes; handles made with another key are NOT_FOUND. May come later, by UseHandleKey.
  std::string handle_key;
  // Output under way to one caller that never acknowledges (W).
  uint64_t output_window = 1024 * 1024;
  // Open executions (attached Exec and Run calls) of one sandbox.
  size_t max_streams_per_sandbox = 1024;
  LeaseSettings lease;
  // Random per process start; written into receipts.
  std::string replica_id;
  // How long Release asks an agent what still runs before it ends it all the same.
  Duration leftovers_bound = std::chrono::seconds(1);
  // A receipt is kept this long after its sandbox was found to be gone.
  Duration receipt_retention = std::chrono::hours(24);
  // Gone sandboxes remembered, so that their handles get a reason instead of a guess.
  size_t max_remembered = 10000;
  // How long a call waits to hear what became of a sandbox that this replica does not know.
  Duration seek_bound = std::chrono::seconds(10);
  // Unknown sandboxes asked for at the same time; more of them are CAPACITY.
  size_t max_seeks = 256;
  // Where several replicas look at one lease: each of them up to this much later, so that they
  // seldom do it at once. Zero: nobody else looks.
  Duration look_jitter{0};
  // Watchers at once, and changes that may wait for one of them.
  size_t max_watches = 128;
  size_t max_watch_changes = 4096;
};

struct RenewItem {
  std::string handle;
  absl::Status status;
  LeaseView lease;
};

struct ReleaseItem {
  std::string handle;
  absl::Status status;
};

// Above it lie the broker's own re-attachments of one try (12 bits).
inline constexpr uint64_t kMaxAttempt = uint64_t{1} << 51;

struct StartSpec {
  std::string handle;
  // execution_id empty = mint one. Holders, attempts, boot_id and spec_hash are filled in by the
  // broker.
  agent::Start start;
  // The caller's number of its try, at most kMaxAttempt; unset = newer than all before it.
  std::optional<uint64_t> attempt;
};

struct SandboxPage {
  std::vector<SandboxView> sandboxes;
  std::string next_token;
};

class Broker final : public BackendObserver {
 public:
  Broker(Scheduler& scheduler, TaskScope& scope, Backend& backend, ReceiptStore& receipts,
         obs::Metrics& metrics, BrokerSettings settings);
  ~Broker() override;

  // Before anybody is served.
  void UseHandleKey(std::string key) { settings_.handle_key = std::move(key); }

  Task<absl::StatusOr<Acquired>> Acquire(Principal who, AcquireSpec spec, CancelToken cancel);
  Task<absl::StatusOr<Released>> Release(Principal who, std::string handle);
  Task<absl::StatusOr<std::vector<ReleaseItem>>> ReleaseMatching(
      Principal who, LabelSelector selector, std::optional<WallTime> acquired_before, bool dry_run);
  // Empty `pool` = all.
  absl::StatusOr<std::vector<PoolCapacity>> Capacity(const Principal& who,
                                                     const std::string& pool) const;
  // Whether a call on this handle must wait for Settle: it is valid, and its sandbox is neither
  // known here nor known to be gone, or it is just being decided whether its lease is over.
  bool Unsettled(const Principal& who, const std::string& handle) const;
  // OK: go on as with any handle, which may still be of a sandbox that is gone. Errors: the
  // backend's, API_TIMEOUT, CAPACITY, CANCELLED.
  Task<absl::Status> Settle(Principal who, std::string handle, CancelToken cancel);
  absl::StatusOr<SandboxView> Get(const Principal& who, const std::string& handle);
  // Oldest first. `token` as answered before; errors name page_token.
  absl::StatusOr<SandboxPage> List(const Principal& who, const LabelSelector& selector,
                                   size_t page_size, const std::string& token) const;
  // What is there, then every change, as `observer` pulls it. CAPACITY, SERVER_DRAINING.
  // `observer` outlives the Watch.
  absl::StatusOr<std::unique_ptr<Watch>> WatchSandboxes(const Principal& who,
                                                        LabelSelector selector,
                                                        WatchObserver* observer);
  // Answers once the new ends are written.
  Task<std::vector<RenewItem>> Renew(Principal who, std::vector<std::string> handles);
  // `observer` hears everything about it and outlives the Execution or calls Detach.
  absl::StatusOr<std::shared_ptr<Execution>> Start(const Principal& who, StartSpec spec,
                                                   ExecutionObserver* observer);

  const Backend& backend() const { return backend_; }
  // No new acquires, executions and watches: SERVER_DRAINING. Open executions go on, watches end.
  void Drain();
  // Executions that somebody is attached to.
  size_t open_executions() const;
  // Open executions get OnFailed with SERVER_DRAINING.
  void FailOpenExecutions();
  // Forgets all sandboxes and leaves them to the next broker. After Drain.
  void LetGo();
  // Looks at all receipts now and from time to time, until Drain. Once, after the backend has said
  // what it adopted.
  void StartSweeping();

  void OnAdopted(Adopted adopted) override;
  void OnClaimChanged(const std::string& uid, Claim claim) override;
  void OnSandboxGone(const std::string& uid, const std::string& cause) override;
  void OnLinkLost(const std::string& uid, const absl::Status& why) override;
  void OnLinkRestored(const std::string& uid, std::shared_ptr<AgentLink> link) override;

 private:
  // What is left of a sandbox that is gone.
  struct Memory {
    Reason reason;
    std::string cause;
  };
  absl::StatusOr<Handle> OpenHandle(const Principal& who, const std::string& text) const;
  absl::StatusOr<Sandbox*> Find(const Principal& who, const std::string& text);
  // `handle` as OpenHandle answered: its error is passed on.
  absl::StatusOr<Sandbox*> Find(const absl::StatusOr<Handle>& handle);
  absl::Status GoneError(const Handle& handle) const;
  uint64_t NextAttempt(std::optional<uint64_t> callers);
  SandboxView View(const Sandbox& sandbox) const;

  // What a sandbox is told of its backend's.
  struct Origin {
    std::string uid;
    std::string pool;
    std::string name;
    std::shared_ptr<AgentLink> link;
  };
  // What this replica counts with for one sandbox.
  LeaseSettings LeaseSettingsFor(const std::string& uid) const;
  std::unique_ptr<Sandbox> MakeSandbox(Origin origin, const Claim& claim, Lease lease);

  // acquire.cc
  struct ReceiptMark {
    std::string key;
    std::string token;
  };
  // On a failure *uid, if set, was taken and is not destroyed.
  Task<absl::StatusOr<Acquired>> AcquireNew(Principal who, AcquireSpec spec, ReceiptMark receipt,
                                            CancelToken cancel, std::string* uid);
  Task<absl::StatusOr<Acquired>> AcquirePlain(Principal who, AcquireSpec spec, CancelToken cancel);
  Task<absl::StatusOr<Acquired>> HandOut(AcquireSpec spec, Binding binding, CancelToken cancel);
  // Cause of a release, for the metric.
  static absl::Status CallerLeft();
  static std::string CauseOfFailure(const absl::Status& status);
  Task<absl::Status> BindEnvironment(std::shared_ptr<AgentLink> link, std::vector<EnvVar> env);
  void CountAcquire(const AcquireSpec& spec, const absl::StatusOr<Acquired>& result);

  // receipts.cc
  struct ReceiptCall;
  Task<absl::StatusOr<Acquired>> AcquireWithReceipt(Principal who, AcquireSpec spec,
                                                    CancelToken cancel);
  absl::Status FailureOf(const ReceiptCall& call) const;
  Task<void> ReadReceipt(ReceiptCall* call);
  Task<void> WriteReceipt(ReceiptCall* call);
  Task<void> AdoptForReceipt(ReceiptCall* call);
  Task<void> AcquireForReceipt(ReceiptCall* call);
  static void TellOutcome(ReceiptCall* call, const std::string& uid);
  Task<void> DestroyOwn(ReceiptCall* call);
  Task<absl::StatusOr<Acquired>> TakeOver(std::string uid, AcquireSpec spec, std::string token,
                                          CancelToken cancel);
  std::string FindByReceipt(const Principal& who, const std::string& key) const;
  Task<absl::StatusOr<Acquired>> Repeated(ReceiptCall* call);
  Task<bool> WaitForReceipt(std::string key, Time deadline, CancelToken cancel);
  void WakeReceipt(const std::string& key);

  // receipt_sweep.cc
  Task<void> SweepReceipts();
  Task<absl::Status> SweepReceipt(std::string key);

  // settle.cc
  // Calls that wait for the same answer.
  using Waiters = std::map<std::string, std::vector<OneShot<absl::Status>>>;
  bool Unsettled(const std::string& uid) const;
  Task<void> Seek(std::string name, std::string uid);
  // Answers in the order of `handles`.
  Task<std::vector<absl::Status>> SettleAll(Principal who, std::vector<std::string> handles);
  // Every sandbox that bears this receipt is known here afterwards.
  Task<absl::Status> SeekReceipt(std::string key, CancelToken cancel);
  static OneShot<absl::Status> Enter(Waiters* waiters, const std::string& key);
  Task<absl::Status> WaitIn(Waiters* waiters, std::string key, OneShot<absl::Status> settled,
                            CancelToken cancel);
  static void Wake(Waiters* waiters, const std::string& key, const absl::Status& status);

  // take_back.cc
  void OnLeaseOver(const std::string& uid);
  Task<void> TakeBack(std::string uid);
  static void CannotTakeBack(const std::string& uid, const absl::Status& why);
  // False: another replica's claim stands there, and it lives on. On an error it may or may not,
  // and stays marked.
  Task<absl::StatusOr<bool>> DestroyUnchanged(std::string uid, Claim as_read, Reason reason,
                                              std::string cause);

  // watch.cc
  friend class Watch;
  void Forget(Watch* watch);
  void EndWatches();
  // Empty: it is not there, or nobody was told of it yet.
  std::optional<SandboxView> ViewOf(const std::string& uid) const;
  void OnSandboxChanged(const std::string& uid);
  void TellRemoved(const Sandbox& sandbox, Reason reason, const std::string& cause);

  // release.cc
  void Keep(const std::string& uid, Reason reason, const std::string& cause);
  Task<absl::Status> Destroy(std::string uid, Reason reason, std::string cause);
  Task<std::vector<std::string>> Leftovers(std::string uid);
  void Gone(const std::string& uid, Reason reason, const std::string& cause);

  Scheduler& scheduler_;
  TaskScope& scope_;
  Backend& backend_;
  ReceiptStore& receipts_;
  obs::Metrics& metrics_;
  BrokerSettings settings_;  // the key apart, as given
  bool draining_ = false;
  std::unique_ptr<Timer> sweep_timer_;  // looks at the receipts again
  uint64_t last_attempt_ = 0;
  std::map<std::string, std::unique_ptr<Sandbox>> sandboxes_;  // by uid
  std::map<std::string, Memory> remembered_;                   // by uid, at most max_remembered
  std::deque<std::string> remembered_order_;
  // Calls that wait for another call with the same request_id, by receipt key.
  std::map<std::string, std::vector<OneShot<bool>>> receipt_waiters_;
  Waiters settling_;          // by uid: what becomes of it is being found out
  Waiters seeking_receipts_;  // by receipt key
  std::set<Watch*> watches_;
};

}  // namespace sandbroker::broker
