// Where sandboxes come from. The broker asks; a backend acts on processes or on the API server and
// reports what it sees. Its truth may be shared: then other brokers claim, renew and release the
// same sandboxes, and what one of them wrote counts. Loop thread only, callbacks included.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/async/cancel.h"
#include "lib/async/task.h"
#include "lib/broker/agent_link.h"
#include "lib/broker/core/claim.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

// A sandbox handed to the broker, its agent answering.
struct Binding {
  std::string uid;  // never reused
  std::shared_ptr<AgentLink> link;
  Source source = Source::kWarm;
  Duration queued{0};
  Duration started{0};
  // Of the object that must be known beside the uid to find the sandbox again; its handles carry
  // it. Empty: none is needed, and they carry the pool.
  std::string name = {};
};

// A claimed sandbox of an earlier broker or of another one, its agent answering as the same
// incarnation.
struct Adopted {
  std::string uid;
  std::string pool;
  Claim claim;  // as some broker has had it kept
  std::shared_ptr<AgentLink> link;
  std::string name = {};  // as in Binding
};

// Cause of OnSandboxGone: somebody else deleted it, and did not leave word why.
inline constexpr std::string_view kDeletedElsewhere = "deleted";

class BackendObserver {
 public:
  virtual ~BackendObserver() = default;
  // From now on it is bound like one that was acquired. What an earlier broker left comes before
  // anything is served; what another broker has, at any time, and again does no harm.
  virtual void OnAdopted(Adopted adopted) = 0;
  // Another broker has written a newer claim. For one sandbox they come in the order in which they
  // were written, and never an older one than this broker was told of or had kept.
  virtual void OnClaimChanged(const std::string& uid, Claim claim) = 0;
  // A bound sandbox's agent is provably gone, with everything below it. Last word on the uid.
  virtual void OnSandboxGone(const std::string& uid, const std::string& cause) = 0;
  // The link was lost; the backend is trying to get another one.
  virtual void OnLinkLost(const std::string& uid, const absl::Status& why) = 0;
  // Another link to the same incarnation.
  virtual void OnLinkRestored(const std::string& uid, std::shared_ptr<AgentLink> link) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // What its handles carry as their space; those of another space are not known here.
  virtual std::string space() const = 0;
  virtual std::vector<std::string> capabilities() const = 0;
  virtual std::vector<std::string> pools() const = 0;
  virtual void SetObserver(BackendObserver* observer) = 0;

  // A sandbox of `spec.pool` within `spec.wait_bound`, as `spec.fallback` allows. Cancelling gives
  // up the place in the queue; a sandbox that arrives at the same moment stays in the pool.
  // Errors: POOL_NOT_FOUND, POOL_EXHAUSTED, NOT_READY, SERVER_DRAINING, CANCELLED.
  virtual Task<absl::StatusOr<Binding>> Acquire(const AcquireSpec& spec, CancelToken cancel) = 0;
  // Keeps `claim` with a bound sandbox instead of what was kept before; OK once it outlives this
  // process. Several calls for one sandbox take effect in their order. SANDBOX_GONE if it is gone.
  // `base`: what the broker knew to stand there when it made `claim`; none for the first one. If it
  // is not what stands there, another broker has written: nothing of that is written over, what is
  // still to be said is written on top of it (MergeClaims), and the observer has heard what stands
  // there then before this answers OK.
  virtual Task<absl::Status> Remember(std::string uid, Claim claim, std::optional<Claim> base) = 0;
  // Destroys it and everything in it. Idempotent; OK also when it is gone already.
  virtual Task<absl::Status> Release(const std::string& uid) = 0;
  // The same if its claim still makes the promises of `as_read`, in one step. False: another one
  // stands there, and the observer has been told of it.
  virtual Task<absl::StatusOr<bool>> ReleaseUnchanged(std::string uid, Claim as_read) = 0;

  // Three of a shared truth; each answers within a bound of the backend's.
  //
  // A sandbox of a valid handle that the broker does not know. OK: it is bound, and the observer
  // has been given it, or it is gone for certain. Otherwise nobody can say just now.
  virtual Task<absl::Status> Seek(std::string name, std::string uid) = 0;
  // OK: every claimed sandbox whose claim bears this receipt has been given to the observer.
  virtual Task<absl::Status> SeekReceipt(std::string key) = 0;
  // The claim of a bound sandbox as it stands, never from a cache. SANDBOX_GONE if it is gone.
  virtual Task<absl::StatusOr<Claim>> Reread(std::string uid) = 0;
  virtual std::vector<PoolCapacity> Capacity() const = 0;
  // No more acquires; ends waiting ones with SERVER_DRAINING.
  virtual void Drain() = 0;
};

}  // namespace sandbroker::broker
