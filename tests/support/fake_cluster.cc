#include "tests/support/fake_cluster.h"

#include <algorithm>
#include <utility>

#include "lib/backend/kubernetes/resources.h"
#include "lib/base/strings.h"
#include "tests/support/kube_objects.h"

namespace sandbroker::testing {
namespace {

namespace kinds = kubernetes;
using What = FakeCluster::What;
constexpr const char* kSpace = FakeCluster::kSpace;

kube::Result ToResult(const ObjectStore::Answer& answer) {
  kube::Result result;
  result.http_status = answer.status;
  if (answer.ok()) {
    result.outcome = kube::Outcome::kDone;
    result.object = answer.body;
    return result;
  }
  result.outcome = kube::Outcome::kRefused;
  result.reason = TextAt(answer.body, "reason");
  result.message = TextAt(answer.body, "message");
  return result;
}

kube::Result Unsaid(kube::Outcome outcome) {
  kube::Result result;
  result.outcome = outcome;
  result.message = "scripted";
  return result;
}

}  // namespace

FakeCluster::FakeCluster(Scheduler& scheduler) : scheduler_(scheduler) {
  store_.on_change = [this](const ObjectStore::Change& change) { OnChange(change); };
}

void FakeCluster::Watch(const kube::Resource& resource, kube::InformerObserver* observer) {
  Tell(resource.plural);
  observers_[resource.plural].push_back(observer);
  const auto list = store_.List(resource, kSpace, "", 0, "");
  for (const json::value& item : list.body.at("items").as_array()) {
    observer->OnObject(item.get_object());
  }
  observer->OnSynced();
}

void FakeCluster::OnChange(const ObjectStore::Change& change) {
  const std::string plural = change.resource.plural;
  events_[plural].push_back(change);
  if (held_kinds_.count(plural) != 0) return;
  scheduler_.Post([this, plural] {
    if (held_kinds_.count(plural) == 0) Tell(plural);
  });
}

void FakeCluster::Deliver(const std::string& plural) {
  held_kinds_.erase(plural);
  Tell(plural);
}

void FakeCluster::Tell(const std::string& plural) {
  auto& events = events_[plural];
  while (!events.empty()) {
    const ObjectStore::Change change = std::move(events.front());
    events.pop_front();
    for (kube::InformerObserver* observer : observers_[plural]) {
      change.after ? observer->OnObject(*change.after) : observer->OnDeleted(*change.before);
    }
  }
}

std::optional<FakeCluster::Fault> FakeCluster::TakeFault(const std::string& verb,
                                                         const std::string& plural) {
  for (auto it = faults_.begin(); it != faults_.end(); ++it) {
    if (it->verb != verb || it->plural != plural) continue;
    const Fault fault = *it;
    if (it->times > 0 && --it->times == 0) faults_.erase(it);
    return fault;
  }
  return std::nullopt;
}

Task<bool> FakeCluster::Held(Duration bound, CancelToken cancel) {
  const OneShot<bool> go_on;
  held_.push_back(go_on);
  const auto timer = scheduler_.After(bound, [go_on] { go_on.Set(false); });
  cancel.OnCancel([go_on] { go_on.Set(false); });
  const bool released = co_await go_on.Wait();
  cancel.OnCancel(nullptr);
  co_return released;
}

void FakeCluster::Release() {
  for (const auto& one : std::exchange(held_, {})) {
    scheduler_.Post([one] { one.Set(true); });
  }
}

Task<kube::Result> FakeCluster::Serve(std::string verb, std::string plural, Effect effect,
                                      Duration bound, CancelToken cancel) {
  log_.push_back(StrCat(verb, " ", plural));
  const std::optional<Fault> fault = TakeFault(verb, plural);
  const OneShot<bool> hop;
  scheduler_.Post([hop] { hop.Set(true); });
  co_await hop.Wait();
  if (cancel.cancelled()) co_return Unsaid(kube::Outcome::kNotSent);
  if (!fault) co_return ToResult(effect());
  switch (fault->what) {
    case What::kRefuse:
      co_return ToResult(
          {fault->status, StatusBody(fault->status, fault->reason, "scripted refusal")});
    case What::kNotSent:
      co_return Unsaid(kube::Outcome::kNotSent);
    case What::kLost:
      co_return Unsaid(kube::Outcome::kUnknown);
    case What::kLostAfter:
      effect();
      co_return Unsaid(kube::Outcome::kUnknown);
    case What::kHold: {
      const bool released = co_await Held(bound, cancel);
      if (!released) co_return Unsaid(kube::Outcome::kUnknown);
      co_return ToResult(effect());
    }
    case What::kHoldAnswer: {
      const ObjectStore::Answer answer = effect();
      const bool released = co_await Held(bound, cancel);
      if (!released) co_return Unsaid(kube::Outcome::kUnknown);
      co_return ToResult(answer);
    }
  }
  co_return Unsaid(kube::Outcome::kNotSent);
}

Task<kube::Result> FakeCluster::Create(kube::Resource resource, std::string space,
                                       boost::json::object object, Duration bound,
                                       CancelToken cancel) {
  Effect effect = [this, resource, space, object] {
    return store_.Create(resource, space, object);
  };
  return Serve("create", resource.plural, std::move(effect), bound, std::move(cancel));
}

Task<kube::Result> FakeCluster::PatchJson(kube::Resource resource, std::string space,
                                          std::string name, boost::json::array operations,
                                          Duration bound, CancelToken cancel) {
  Effect effect = [this, resource, space, name, operations] {
    return store_.PatchJson(resource, space, name, operations);
  };
  return Serve("patch", resource.plural, std::move(effect), bound, std::move(cancel));
}

Task<kube::Result> FakeCluster::Replace(kube::Resource resource, std::string space,
                                        std::string name, boost::json::object object,
                                        Duration bound, CancelToken cancel) {
  Effect effect = [this, resource, space, name, object] {
    return store_.Replace(resource, space, name, object);
  };
  return Serve("update", resource.plural, std::move(effect), bound, std::move(cancel));
}

Task<kube::Result> FakeCluster::Delete(kube::Resource resource, std::string space, std::string name,
                                       kube::DeleteOptions options, Duration bound,
                                       CancelToken cancel) {
  json::object preconditions;
  if (!options.uid.empty()) preconditions["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    preconditions["resourceVersion"] = options.resource_version;
  }
  json::object body = {{"preconditions", std::move(preconditions)}};
  Effect effect = [this, resource, space, name, body] {
    return store_.Delete(resource, space, name, body);
  };
  return Serve("delete", resource.plural, std::move(effect), bound, std::move(cancel));
}

Task<kube::Result> FakeCluster::Get(kube::Resource resource, std::string space, std::string name,
                                    Duration bound, CancelToken cancel) {
  Effect effect = [this, resource, space, name] { return store_.Get(resource, space, name); };
  return Serve("get", resource.plural, std::move(effect), bound, std::move(cancel));
}

Task<kube::Result> FakeCluster::List(kube::Resource resource, std::string space, std::string labels,
                                     Duration bound, CancelToken cancel) {
  Effect effect = [this, resource, space, labels] {
    return store_.List(resource, space, labels, 0, "");
  };
  return Serve("list", resource.plural, std::move(effect), bound, std::move(cancel));
}

size_t FakeCluster::Count(const std::string& request) const {
  return static_cast<size_t>(std::count(log_.begin(), log_.end(), request));
}

size_t FakeCluster::Reads() const {
  return static_cast<size_t>(std::count_if(log_.begin(), log_.end(), [](const std::string& one) {
    return one.starts_with("get ") || one.starts_with("list ");
  }));
}

std::vector<std::string> FakeCluster::Claims() const {
  std::vector<std::string> names;
  const auto list = store_.List(kinds::Claims(), kSpace, "", 0, "");
  for (const json::value& item : list.body.at("items").as_array()) {
    names.push_back(TextAt(item.get_object(), "metadata.name"));
  }
  return names;
}

json::object FakeCluster::Claim(const std::string& name) const {
  const auto answer = store_.Get(kinds::Claims(), kSpace, name);
  return answer.ok() ? answer.body : json::object();
}

std::string FakeCluster::UidOf(const kube::Resource& resource, const std::string& name) const {
  return TextAt(store_.Get(resource, kSpace, name).body, "metadata.uid");
}

void FakeCluster::AddPool(const std::string& pool, int replicas) {
  store_.Create(kinds::WarmPools(), kSpace, PoolJson(pool, replicas));
}

void FakeCluster::AddPod(const std::string& sandbox, const std::string& ip) {
  json::object pod = PodJson(sandbox, ip, "");
  pod["metadata"].as_object()["ownerReferences"] =
      OwnedBy("Sandbox", sandbox, UidOf(kinds::Sandboxes(), sandbox));
  store_.Create(kinds::Pods(), kSpace, std::move(pod));
}

void FakeCluster::AddMember(const std::string& pool, const std::string& name,
                            const std::string& ip) {
  store_.Create(kinds::Sandboxes(), kSpace, SandboxJson(name, ip, pool));
  AddPod(name, ip);
}

void FakeCluster::GiveMember(const std::string& claim, const std::string& member) {
  const std::string uid = UidOf(kinds::Claims(), claim);
  ChangeSandbox(member, [&](json::object& sandbox) { GiveToClaim(&sandbox, claim, uid, true); });
}

void FakeCluster::MakeCold(const std::string& claim, const std::string& ip) {
  json::object sandbox = SandboxJson(claim, ip, "");
  GiveToClaim(&sandbox, claim, UidOf(kinds::Claims(), claim), false);
  store_.Create(kinds::Sandboxes(), kSpace, std::move(sandbox));
  AddPod(claim, ip);
}

void FakeCluster::ClaimSays(const std::string& claim, bool ready, const std::string& reason,
                            const std::string& message) {
  ChangeClaim(claim, [&](json::object& one) { SetReady(&one, ready, reason, message); });
}

void FakeCluster::ChangeSandbox(const std::string& name,
                                const std::function<void(json::object&)>& fn) {
  store_.Update(kinds::Sandboxes(), kSpace, name, fn);
}
void FakeCluster::ChangePod(const std::string& name, const std::function<void(json::object&)>& fn) {
  store_.Update(kinds::Pods(), kSpace, name, fn);
}
void FakeCluster::ChangeClaim(const std::string& name,
                              const std::function<void(json::object&)>& fn) {
  store_.Update(kinds::Claims(), kSpace, name, fn);
}
void FakeCluster::RemovePod(const std::string& name) { store_.Remove(kinds::Pods(), kSpace, name); }
void FakeCluster::RemoveSandbox(const std::string& name) {
  store_.Remove(kinds::Sandboxes(), kSpace, name);
}
void FakeCluster::RemoveClaim(const std::string& name) {
  store_.Remove(kinds::Claims(), kSpace, name);
}

}  // namespace sandbroker::testing
