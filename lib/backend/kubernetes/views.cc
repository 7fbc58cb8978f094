#include "lib/backend/kubernetes/views.h"

#include "lib/backend/kubernetes/json_read.h"
#include "lib/backend/kubernetes/keys.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;

constexpr size_t kMaxUid = 64;
constexpr size_t kMaxPromise = 128 * 1024;
constexpr size_t kMaxTime = 64;
constexpr size_t kMaxList = 64;

Meta ViewMeta(const json::object& object) {
  const json::object& meta = ObjectAt(object, "metadata");
  return {NameAt(meta, "name"), NameAt(meta, "uid", kMaxUid), NameAt(meta, "resourceVersion"),
          HasText(meta, "deletionTimestamp")};
}

template <class Visit>
void ForEachObject(const json::array& array, Visit visit) {
  size_t seen = 0;
  for (const json::value& value : array) {
    if (++seen > kMaxList) return;
    visit(AsObject(value));
  }
}

Condition ViewCondition(const json::object& status, std::string_view type) {
  Condition found;
  ForEachObject(ArrayAt(status, "conditions"), [&](const json::object& one) {
    if (!found.status.empty() || NameAt(one, "type") != type) return;
    found = {NameAt(one, "status"), NameAt(one, "reason"), WordsAt(one, "message")};
  });
  return found;
}

// The owner that controls it, if it is of this kind.
const json::object* Owner(const json::object& object, std::string_view kind) {
  const json::object* found = nullptr;
  ForEachObject(ArrayAt(ObjectAt(object, "metadata"), "ownerReferences"),
                [&](const json::object& one) {
                  if (FlagAt(one, "controller") && NameAt(one, "kind") == kind) found = &one;
                });
  return found;
}

Termination ViewTermination(const json::object& state) {
  if (!state.contains("terminated")) return {};
  const json::object& ended = ObjectAt(state, "terminated");
  return {true, NameAt(ended, "reason"), NumberAt(ended, "exitCode")};
}

void ViewContainers(const json::object& status, std::string_view key,
                    std::vector<ContainerView>* containers) {
  ForEachObject(ArrayAt(status, key), [&](const json::object& one) {
    const json::object& state = ObjectAt(one, "state");
    const json::object& waiting = ObjectAt(state, "waiting");
    containers->push_back({NameAt(one, "name"), NumberAt(one, "restartCount"),
                           NameAt(waiting, "reason"), WordsAt(waiting, "message"),
                           ViewTermination(state), ViewTermination(ObjectAt(one, "lastState"))});
  });
}

}  // namespace

ClaimView ViewClaim(const json::object& object) {
  const json::object& meta = ObjectAt(object, "metadata");
  const json::object& labels = ObjectAt(meta, "labels");
  const json::object& notes = ObjectAt(meta, "annotations");
  const json::object& spec = ObjectAt(object, "spec");
  const json::object& status = ObjectAt(object, "status");
  ClaimView view;
  view.meta = ViewMeta(object);
  view.ours = NameAt(labels, kManagedBy) == kManagedByUs;
  view.pool = NameAt(labels, kPoolLabel);
  view.receipt_label = NameAt(labels, kReceiptLabel);
  view.holder = NameAt(labels, kHolderLabel);
  view.promise = NameAt(notes, kClaimAnnotation, kMaxPromise);
  view.until = NameAt(notes, kUntilAnnotation, kMaxTime);
  view.hint = NameAt(notes, kSandboxHint);
  view.warm_pool = NameAt(ObjectAt(spec, "warmPoolRef"), "name");
  view.shutdown = NameAt(ObjectAt(spec, "lifecycle"), "shutdownTime", kMaxTime);
  view.sandbox = NameAt(ObjectAt(status, "sandbox"), "name");
  view.ready = ViewCondition(status, "Ready");
  return view;
}

SandboxObject ViewSandbox(const json::object& object) {
  const json::object& status = ObjectAt(object, "status");
  SandboxObject view;
  view.meta = ViewMeta(object);
  if (const json::object* claim = Owner(object, "SandboxClaim")) {
    view.claim_uid = NameAt(*claim, "uid", kMaxUid);
  } else if (const json::object* pool = Owner(object, "SandboxWarmPool")) {
    view.warm_pool = NameAt(*pool, "name");
  }
  view.ready = ViewCondition(status, "Ready");
  view.scheduled = ViewCondition(status, "PodScheduled");
  view.suspended = NameAt(ObjectAt(object, "spec"), "operatingMode") == "Suspended";
  for (const json::value& ip : ArrayAt(status, "podIPs")) {
    const json::string* text = ip.if_string();
    if (text == nullptr || text->empty() || text->size() > kMaxUid) continue;
    if (view.ips.size() == kMaxList) break;
    view.ips.emplace_back(text->data(), text->size());
  }
  view.node = NameAt(status, "nodeName");
  view.launch = NameAt(ObjectAt(ObjectAt(object, "metadata"), "labels"), kLaunchType);
  return view;
}

PodView ViewPod(const json::object& object) {
  const json::object& spec = ObjectAt(object, "spec");
  const json::object& status = ObjectAt(object, "status");
  PodView view;
  view.meta = ViewMeta(object);
  if (const json::object* sandbox = Owner(object, "Sandbox")) {
    view.sandbox_uid = NameAt(*sandbox, "uid", kMaxUid);
  }
  view.ip = NameAt(status, "podIP", kMaxUid);
  view.node = NameAt(spec, "nodeName");
  view.phase = NameAt(status, "phase");
  view.reason = NameAt(status, "reason");
  view.message = WordsAt(status, "message");
  view.scheduled = ViewCondition(status, "PodScheduled");
  if (const Condition target = ViewCondition(status, "DisruptionTarget"); target.True()) {
    view.disruption = target.reason;
  }
  const json::array& containers = ArrayAt(spec, "containers");
  if (!containers.empty()) view.first_container = NameAt(AsObject(containers.front()), "name");
  ViewContainers(status, "containerStatuses", &view.containers);
  if (view.first_container.empty() && !view.containers.empty()) {
    view.first_container = view.containers.front().name;
  }
  ViewContainers(status, "initContainerStatuses", &view.containers);
  return view;
}

PoolView ViewPool(const json::object& object) {
  const json::object& spec = ObjectAt(object, "spec");
  PoolView view;
  view.meta = ViewMeta(object);
  // The API server fills in 1 where nothing was said.
  view.wanted = NumberAt(spec, "replicas");
  view.ready = NumberAt(ObjectAt(object, "status"), "readyReplicas");
  view.template_name = NameAt(ObjectAt(spec, "sandboxTemplateRef"), "name");
  return view;
}

const ContainerView* AgentContainer(const PodView& pod, const std::string& name) {
  const std::string& wanted = name.empty() ? pod.first_container : name;
  for (const ContainerView& container : pod.containers) {
    if (container.name == wanted) return &container;
  }
  return nullptr;
}

}  // namespace sandbroker::kubernetes
