#include "server/app/parts.h"

#include "lib/base/ids.h"
#include "server/app/settings.h"

namespace sandbroker::app {
namespace {

void LogEscaped(std::string_view task, std::string_view what) {
  obs::Log(obs::Level::kError, "an exception escaped a task", {{"task", task}, {"what", what}});
}

}  // namespace

Parts::Parts(const config::Config& config, const StateDir& state)
    : replica_id(NewId()),
      blocking(loop, config.server.blocking_threads, config.server.blocking_jobs),
      scope(loop.context(), LogEscaped),
      dialer(loop, ToLinkSettings(config)),
      engine(MakeEngine({config, state, replica_id, metrics, loop, blocking, scope, dialer})),
      broker(engine->scheduler(), scope, engine->backend(), engine->receipts(), metrics,
             ToBrokerSettings(config, replica_id)),
      service(rpc::Runtime{loop, scope, metrics}, broker, authoriser,
              ToServiceSettings(config, replica_id)),
      admin(
          loop.context(), scope, AdminSettings{}, [this] { return RenderMetrics(); },
          [this] { return ready.load(); }),
      unix_listener(loop.context(), scope, [this](UniqueFd fd) { grpc.Adopt(std::move(fd)); }) {}

std::string Parts::RenderMetrics() {
  metrics.SetBlockingJobs(static_cast<int>(blocking.pending()));
  return metrics.Render();
}

}  // namespace sandbroker::app
