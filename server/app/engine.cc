#include "server/app/engine.h"

#include "server/app/kubernetes_engine.h"
#include "server/app/local_engine.h"

namespace sandbroker::app {

std::unique_ptr<Engine> MakeEngine(const EngineParts& parts) {
  if (parts.config.server.backend == "kubernetes") {
    return std::make_unique<KubernetesEngine>(parts);
  }
  return std::make_unique<LocalEngine>(parts);
}

}  // namespace sandbroker::app
