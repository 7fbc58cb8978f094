#include "server/app/kubernetes_engine.h"

#include <utility>

#include "lib/backend/kubernetes/resources.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::app {
namespace {

std::string SpaceOf(const config::Config& config, const absl::StatusOr<kube::Access>& access) {
  if (!config.kubernetes.space.empty()) return config.kubernetes.space;
  return access.ok() ? access->space : "";
}

}  // namespace

KubernetesEngine::KubernetesEngine(const EngineParts& parts)
    : config_(parts.config),
      scope_(parts.scope),
      access_(kube::FindAccess(config_.kubernetes.kubeconfig, config_.kubernetes.context)),
      space_(SpaceOf(config_, access_)),
      client_(parts.loop, parts.loop.context(), access_.ok() ? *access_ : kube::Access{}),
      clock_(parts.loop, [this] { return client_.clock_offset().value_or(Duration(0)); }),
      backend_({clock_, parts.scope, client_, parts.dialer, parts.metrics}, SettingsOf(config_)),
      receipts_(clock_, client_, space_, config_.kubernetes.request_bound) {}

kubernetes::KubernetesSettings KubernetesEngine::SettingsOf(const config::Config& config) {
  kubernetes::KubernetesSettings settings;
  const config::KubernetesConfig& from = config.kubernetes;
  settings.space = space_;
  settings.lease.margin = config.server.lease_margin;
  settings.lease.min_backstop = config.server.min_backstop;
  settings.call_bound = from.request_bound;
  settings.dial_bound = from.dial_bound;
  settings.relink_bound = from.relink_bound;
  for (const auto& [name, pool] : config.pools) {
    if (!pool.enabled) continue;
    kubernetes::PoolSettings& to = settings.pools[name];
    to.name = name;
    to.warm_pool = pool.warm_pool.empty() ? name : pool.warm_pool;
    to.agent_port = static_cast<uint16_t>(from.agent_port);
    to.limit = pool.limit;
    to.max_waiting = pool.max_waiting;
  }
  return settings;
}

absl::Status KubernetesEngine::Prepare() {
  if (!access_.ok()) return access_.status();
  SANDBROKER_RETURN_IF_ERROR(client_.status());
  if (!space_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the namespace is not known; set kubernetes.namespace, or one in the kubeconfig's context");
}

Task<absl::Status> KubernetesEngine::Recover() {
  auto keys = co_await kubernetes::LoadKeys(client_, space_, config_.kubernetes.key_secret,
                                            config_.kubernetes.request_bound);
  if (!keys.ok()) co_return keys.status();
  handle_key_ = keys->handle_key;
  backend_.UseSigningKey(std::make_shared<const SigningKey>(keys->link_key));
  Follow(kubernetes::Claims(), kubernetes::ClaimSelector(), backend_.claims());
  Follow(kubernetes::Sandboxes(), "", backend_.sandboxes());
  Follow(kubernetes::Pods(), "", backend_.pods());
  Follow(kubernetes::WarmPools(), "", backend_.pools_feed());
  co_await backend_.Start();
  const std::string why = backend_.stale();
  if (!why.empty())
    co_return absl::UnavailableError(StrCat("the cluster can't be followed: ", why));
  co_return absl::OkStatus();
}

void KubernetesEngine::Follow(kube::Resource resource, std::string labels,
                              kube::InformerObserver& observer) {
  informers_.push_back(std::make_unique<kube::Informer>(client_, scope_, std::move(resource),
                                                        space_, std::move(labels),
                                                        kube::WatchSettings{}, &observer));
  informers_.back()->Start();
}

Task<void> KubernetesEngine::Shutdown() {
  for (const auto& informer : informers_) informer->Stop();
  backend_.LetGo();
  client_.KeepNone();
  co_return;
}

std::string KubernetesEngine::isolation() const {
  return StrCat("pods of namespace ", space_, ", as their templates say; each is probed");
}

}  // namespace sandbroker::app
