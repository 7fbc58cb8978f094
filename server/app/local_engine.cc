#include "server/app/local_engine.h"

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "server/app/settings.h"

namespace sandbroker::app {

LocalEngine::LocalEngine(const EngineParts& parts)
    : config_(parts.config),
      state_(parts.state),
      loop_(parts.loop),
      backend_(parts.loop, parts.blocking, parts.scope, parts.dialer, parts.metrics,
               ToLocalSettings(parts.config)),
      receipt_files_(StrCat(parts.state.path(), "/receipts")),
      receipts_(receipt_files_, parts.blocking, parts.replica_id) {}

absl::Status LocalEngine::Prepare() {
  SANDBROKER_RETURN_IF_ERROR(CheckAgent(AgentPath(config_.server)));
  SANDBROKER_RETURN_IF_ERROR(receipt_files_.MakeDirectory());
  return backend_.Probe();
}

std::string LocalEngine::isolation() const { return DescribeIsolation(config_); }

}  // namespace sandbroker::app
