#include "lib/backend/kubernetes/cluster_cache.h"

#include <utility>

#include "lib/backend/kubernetes/names.h"

namespace sandbroker::kubernetes {
namespace {

template <class Map>
const typename Map::mapped_type* Find(const Map& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

}  // namespace

ClusterCache::Touched ClusterCache::PutClaim(ClaimView view) {
  if (!view.ours || view.meta.uid.empty()) return {};
  const std::string uid = view.meta.uid;
  Touched touched = {uid};
  std::string& named = claim_names_[view.meta.name];
  if (!named.empty() && named != uid) {
    // Deleted and made again under the same name; its deletion was not told, or will be.
    CountClaim(named, Sign::kOut);
    claims_.erase(named);
    touched.push_back(named);
  }
  named = uid;
  CountClaim(uid, Sign::kOut);
  claims_[uid] = std::move(view);
  CountClaim(uid, Sign::kIn);
  return touched;
}

ClusterCache::Touched ClusterCache::RemoveClaim(const Meta& meta) {
  const auto it = claims_.find(meta.uid);
  if (it == claims_.end()) return {};
  CountClaim(meta.uid, Sign::kOut);
  const auto named = claim_names_.find(it->second.meta.name);
  if (named != claim_names_.end() && named->second == meta.uid) claim_names_.erase(named);
  claims_.erase(it);
  return {meta.uid};
}

void ClusterCache::Unlink(const SandboxObject& sandbox) {
  const auto it = owned_.find(sandbox.claim_uid);
  if (it == owned_.end()) return;
  it->second.erase(sandbox.meta.name);
  if (it->second.empty()) owned_.erase(it);
}

ClusterCache::Touched ClusterCache::PutSandbox(SandboxObject view) {
  const std::string name = view.meta.name;
  Touched touched;
  const auto old = sandboxes_.find(name);
  if (old == sandboxes_.end()) {
    hashes_.insert(NameHash(name));
  } else if (!old->second.claim_uid.empty() && old->second.claim_uid != view.claim_uid) {
    touched.push_back(old->second.claim_uid);
  }
  if (!view.claim_uid.empty()) touched.push_back(view.claim_uid);
  CountSandbox(name, Sign::kOut);
  for (const std::string& uid : touched) CountClaim(uid, Sign::kOut);
  if (old != sandboxes_.end()) Unlink(old->second);
  if (!view.claim_uid.empty()) owned_[view.claim_uid].insert(name);
  sandboxes_[name] = std::move(view);
  CountSandbox(name, Sign::kIn);
  for (const std::string& uid : touched) CountClaim(uid, Sign::kIn);
  return touched;
}

ClusterCache::Touched ClusterCache::RemoveSandbox(const Meta& meta) {
  const auto it = sandboxes_.find(meta.name);
  // The name may have a new owner already.
  if (it == sandboxes_.end() || it->second.meta.uid != meta.uid) return {};
  Touched touched;
  if (!it->second.claim_uid.empty()) touched.push_back(it->second.claim_uid);
  CountSandbox(meta.name, Sign::kOut);
  for (const std::string& uid : touched) CountClaim(uid, Sign::kOut);
  Unlink(it->second);
  hashes_.erase(hashes_.find(NameHash(meta.name)));
  sandboxes_.erase(it);
  for (const std::string& uid : touched) CountClaim(uid, Sign::kIn);
  return touched;
}

ClusterCache::Touched ClusterCache::PutPod(PodView view) {
  if (view.sandbox_uid.empty()) return {};
  const std::string name = view.meta.name;
  pods_[name] = std::move(view);
  const SandboxObject* sandbox = Find(sandboxes_, name);
  if (sandbox == nullptr || sandbox->claim_uid.empty()) return {};
  return {sandbox->claim_uid};
}

ClusterCache::Touched ClusterCache::RemovePod(const Meta& meta) {
  const auto it = pods_.find(meta.name);
  if (it == pods_.end() || it->second.meta.uid != meta.uid) return {};
  pods_.erase(it);
  const SandboxObject* sandbox = Find(sandboxes_, meta.name);
  if (sandbox == nullptr || sandbox->claim_uid.empty()) return {};
  return {sandbox->claim_uid};
}

void ClusterCache::RemovePool(const Meta& meta) {
  const auto it = pools_.find(meta.name);
  if (it != pools_.end() && it->second.meta.uid == meta.uid) pools_.erase(it);
}

const ClaimView* ClusterCache::Claim(const std::string& uid) const { return Find(claims_, uid); }

const ClaimView* ClusterCache::ClaimNamed(const std::string& name) const {
  const std::string* uid = Find(claim_names_, name);
  return uid == nullptr ? nullptr : Claim(*uid);
}

const PoolView* ClusterCache::Pool(const std::string& warm_pool) const {
  return Find(pools_, warm_pool);
}

const PodView* ClusterCache::PodOf(const std::string& sandbox_name) const {
  return Find(pods_, sandbox_name);
}

// Two at once while a claim's former sandbox is still being deleted.
const SandboxObject* ClusterCache::SandboxOf(const std::string& claim_uid) const {
  const auto* names = Find(owned_, claim_uid);
  if (names == nullptr) return nullptr;
  const SandboxObject* best = nullptr;
  for (const std::string& name : *names) {
    const SandboxObject* one = Find(sandboxes_, name);
    if (one == nullptr) continue;
    if (best == nullptr || best->meta.deleting || (!best->Addressed() && one->Addressed())) {
      best = one;
    }
  }
  return best;
}

Seen ClusterCache::Look(const std::string& claim_uid) const {
  Seen seen;
  seen.claim = Claim(claim_uid);
  seen.sandbox = SandboxOf(claim_uid);
  if (seen.sandbox != nullptr) seen.pod = PodOf(seen.sandbox->meta.name);
  return seen;
}

void ClusterCache::CountClaim(const std::string& uid, Sign sign) {
  const ClaimView* claim = Claim(uid);
  if (claim == nullptr || claim->meta.deleting) return;
  Members& members = members_[claim->warm_pool];
  uint32_t& count = owned_.count(uid) != 0 ? members.bound : members.unbound;
  sign == Sign::kIn ? ++count : --count;
}

void ClusterCache::CountSandbox(const std::string& name, Sign sign) {
  const SandboxObject* sandbox = Find(sandboxes_, name);
  if (sandbox == nullptr || sandbox->warm_pool.empty() || sandbox->meta.deleting) return;
  Members& members = members_[sandbox->warm_pool];
  uint32_t& count = sandbox->Addressed() ? members.ready : members.pending;
  sign == Sign::kIn ? ++count : --count;
}

const ClusterCache::Members& ClusterCache::MembersOf(const std::string& warm_pool) const {
  static const Members none;
  const Members* members = Find(members_, warm_pool);
  return members == nullptr ? none : *members;
}

}  // namespace sandbroker::kubernetes
