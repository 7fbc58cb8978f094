// What the informers have told, joined: claim to sandbox to pod, and the members of each pool. Each
// call that changes it answers which claims may be affected. Separate watches have no mutual order,
// so any part may be older than the others; readiness.h and incarnation.h allow for that. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/backend/kubernetes/readiness.h"
#include "lib/backend/kubernetes/views.h"

namespace sandbroker::kubernetes {

class ClusterCache {
 public:
  // Uids of claims that own, or owned until now, what has changed.
  using Touched = std::vector<std::string>;

  Touched PutClaim(ClaimView view);
  Touched RemoveClaim(const Meta& meta);
  Touched PutSandbox(SandboxObject view);
  Touched RemoveSandbox(const Meta& meta);
  // A pod that no sandbox owns is passed over.
  Touched PutPod(PodView view);
  Touched RemovePod(const Meta& meta);
  void PutPool(PoolView view) { pools_[view.meta.name] = std::move(view); }
  void RemovePool(const Meta& meta);

  // nullptr when there is none. What is pointed to lives until the next change.
  const ClaimView* Claim(const std::string& uid) const;
  const ClaimView* ClaimNamed(const std::string& name) const;
  const PoolView* Pool(const std::string& warm_pool) const;
  const PodView* PodOf(const std::string& sandbox_name) const;
  Seen Look(const std::string& claim_uid) const;
  const std::map<std::string, ClaimView>& claims() const { return claims_; }  // by uid

  struct Members {
    uint32_t ready = 0;    // in the pool, ready, addressed
    uint32_t pending = 0;  // in the pool, not ready
    uint32_t unbound = 0;  // claims of ours that own no sandbox yet: each will take one
    uint32_t bound = 0;    // claims of ours that own one
  };
  const Members& MembersOf(const std::string& warm_pool) const;
  // Whether a name of this hash exists (names.h).
  bool HashTaken(uint32_t hash) const { return hashes_.count(hash) != 0; }

 private:
  const SandboxObject* SandboxOf(const std::string& claim_uid) const;
  void Unlink(const SandboxObject& sandbox);
  // Adds what is there now to the pools' counts, or takes it out before a change.
  enum class Sign { kOut, kIn };
  void CountClaim(const std::string& uid, Sign sign);
  void CountSandbox(const std::string& name, Sign sign);

  std::map<std::string, ClaimView> claims_;             // by uid
  std::map<std::string, std::string> claim_names_;      // name -> uid
  std::map<std::string, SandboxObject> sandboxes_;      // by name
  std::map<std::string, std::set<std::string>> owned_;  // claim uid -> sandbox names
  std::map<std::string, PodView> pods_;                 // by name, which is its sandbox's
  std::map<std::string, Members> members_;              // by warm pool
  std::map<std::string, PoolView> pools_;               // by name
  std::multiset<uint32_t> hashes_;                      // of the sandboxes' names
};

}  // namespace sandbroker::kubernetes
