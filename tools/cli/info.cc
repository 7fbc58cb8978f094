// `sandbroker info`: what the server is and can do.
#include "lib/base/strings.h"
#include "tools/cli/commands.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

namespace sandbroker::cli {

int Execute(const InfoCommand& command) {
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  const absl::StatusOr<v1::GetServerInfoResponse> info = client->Info();
  if (!info.ok()) {
    Complain(Describe(info.status()));
    return kExitFailure;
  }
  if (command.common.json) return Print(ToJson(*info) + "\n");
  std::string text = StrCat("sandbrokerd ", info->version(), " at ", command.common.address,
                            "\nreplica: ", info->replica_id(), "\n");
  for (const v1::BackendInfo& backend : info->backends()) {
    StrAppend(&text, "backend: ", backend.name(), "\n  pools: ", StrJoin(backend.pools(), ", "),
              "\n  can: ", StrJoin(backend.capabilities(), ", "), "\n");
  }
  return Print(text);
}

}  // namespace sandbroker::cli
