#include "tests/support/shared_truth.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::testing {

const SharedTruth::Object* SharedTruth::object(const std::string& uid) const {
  const auto it = objects_.find(uid);
  return it == objects_.end() ? nullptr : &it->second;
}

void SharedTruth::DeleteFromOutside(const std::string& uid) {
  objects_.erase(uid);
  ++deleted_;
  Changed(uid, nullptr);
}

void SharedTruth::Changed(const std::string& uid, const ReplicaBackend* by) {
  const auto replicas = replicas_;
  for (ReplicaBackend* replica : replicas) {
    if (replica == by) continue;
    replica->unseen_.push_back(uid);
    if (!replica->lags) replica->Follow();
  }
}

ReplicaBackend::ReplicaBackend(SharedTruth& truth) : truth_(truth) {
  truth_.replicas_.push_back(this);
}

ReplicaBackend::~ReplicaBackend() {
  auto& all = truth_.replicas_;
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
}

void ReplicaBackend::Follow() {
  for (const std::string& uid : std::exchange(unseen_, {})) See(uid);
}

void ReplicaBackend::Resume() {
  hold_seeks = hold_rereads = hold_releases = hold_writes = false;
  for (const auto& turn : std::exchange(held_, {})) turn.Set(true);
}

std::shared_ptr<FakeAgentLink> ReplicaBackend::link(const std::string& uid) const {
  const auto it = known_.find(uid);
  return it == known_.end() ? nullptr : it->second.link;
}

Task<absl::Status> ReplicaBackend::Wait(bool hold) {
  if (hold) {
    OneShot<bool> turn;
    held_.push_back(turn);
    co_await turn.Wait();
  }
  co_return error.value_or(absl::OkStatus());
}

std::shared_ptr<FakeAgentLink> ReplicaBackend::Dial(const std::string& uid) {
  return std::make_shared<FakeAgentLink>(StrCat("boot-", uid));
}

void ReplicaBackend::See(const std::string& uid) {
  const SharedTruth::Object* object = truth_.object(uid);
  const auto it = known_.find(uid);
  if (object == nullptr) {
    if (it == known_.end()) return;
    known_.erase(it);
    observer_->OnSandboxGone(uid, std::string(broker::kDeletedElsewhere));
    return;
  }
  if (!object->claim) return;
  const broker::Claim claim = *object->claim;
  if (it == known_.end()) {
    const auto link = Dial(uid);
    known_[uid] = {link, object->version};
    observer_->OnAdopted({uid, object->pool, claim, link, object->name});
  } else if (it->second.version < object->version) {
    it->second.version = object->version;
    observer_->OnClaimChanged(uid, claim);
  }
}

void ReplicaBackend::Write(const std::string& uid, const broker::Claim& claim) {
  SharedTruth::Object& object = truth_.objects_.at(uid);
  object.claim = claim;
  ++object.version;
  ++writes_;
  known_.at(uid).version = object.version;
  truth_.Changed(uid, this);
}

void ReplicaBackend::Delete(const std::string& uid) {
  known_.erase(uid);
  if (truth_.objects_.erase(uid) == 0) return;
  ++truth_.deleted_;
  truth_.Changed(uid, this);
}

Task<absl::StatusOr<broker::Binding>> ReplicaBackend::Acquire(const broker::AcquireSpec& spec,
                                                              CancelToken) {
  const std::string uid = StrCat("uid-", ++truth_.made_);
  const std::string name = StrCat("sb-", truth_.made_);
  SharedTruth::Object& object = truth_.objects_[uid];
  object.name = name;
  object.pool = spec.pool;
  object.version = 1;
  Known& known = known_[uid];
  known.link = Dial(uid);
  known.version = 1;
  broker::Binding binding;
  binding.uid = uid;
  binding.link = known.link;
  binding.name = name;
  co_return binding;
}

Task<absl::Status> ReplicaBackend::Remember(std::string uid, broker::Claim claim,
                                            std::optional<broker::Claim> base) {
  const absl::Status status = co_await Wait(hold_writes);
  if (!status.ok()) co_return status;
  const SharedTruth::Object* object = truth_.object(uid);
  if (object == nullptr || known_.count(uid) == 0) {
    co_return MakeError(Reason::kSandboxGone, "gone");
  }
  if (!base || broker::SamePromise(*object->claim, *base)) {
    Write(uid, claim);
    co_return absl::OkStatus();
  }
  const broker::Claim theirs = *object->claim;
  See(uid);
  const auto merged = broker::MergeClaims(*base, claim, theirs);
  if (!merged) co_return absl::OkStatus();
  Write(uid, *merged);
  observer_->OnClaimChanged(uid, *merged);
  co_return absl::OkStatus();
}

Task<absl::Status> ReplicaBackend::Release(const std::string& uid) {
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::string id = uid;  // the caller's may die while this waits
  const absl::Status status = co_await Wait(hold_releases);
  if (status.ok()) Delete(id);
  co_return status;
}

Task<absl::StatusOr<bool>> ReplicaBackend::ReleaseUnchanged(std::string uid,
                                                            broker::Claim as_read) {
  const absl::Status status = co_await Wait(hold_releases);
  if (!status.ok()) co_return status;
  const SharedTruth::Object* object = truth_.object(uid);
  if (object != nullptr && object->claim && !broker::SamePromise(*object->claim, as_read)) {
    ++refused_releases_;
    See(uid);
    co_return false;
  }
  Delete(uid);
  co_return true;
}

Task<absl::Status> ReplicaBackend::Seek(std::string name, std::string uid) {
  ++seeks_;
  const absl::Status status = co_await Wait(hold_seeks);
  if (!status.ok()) co_return status;
  const SharedTruth::Object* object = truth_.object(uid);
  if (object != nullptr && object->name == name) See(uid);
  co_return absl::OkStatus();
}

Task<absl::Status> ReplicaBackend::SeekReceipt(std::string key) {
  ++seeks_;
  const absl::Status status = co_await Wait(hold_seeks);
  if (!status.ok()) co_return status;
  std::vector<std::string> found;
  for (const auto& [uid, object] : truth_.objects_) {
    if (object.claim && object.claim->receipt == key) found.push_back(uid);
  }
  for (const std::string& uid : found) See(uid);
  co_return absl::OkStatus();
}

Task<absl::StatusOr<broker::Claim>> ReplicaBackend::Reread(std::string uid) {
  ++rereads_;
  const absl::Status status = co_await Wait(hold_rereads);
  if (!status.ok()) co_return status;
  const SharedTruth::Object* object = truth_.object(uid);
  if (object == nullptr) co_return MakeError(Reason::kSandboxGone, "gone");
  See(uid);
  co_return *object->claim;
}

}  // namespace sandbroker::testing
