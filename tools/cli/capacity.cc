// `sandbroker capacity`: how full the pools are.
#include "tools/cli/commands.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

namespace sandbroker::cli {

int Execute(const CapacityCommand& command) {
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  const absl::StatusOr<v1::ReadTaskCapacityResponse> capacity = client->Capacity(command.pool);
  if (!capacity.ok()) {
    Complain(Describe(capacity.status()));
    return kExitFailure;
  }
  if (command.common.json) return Print(ToJson(*capacity) + "\n");
  std::vector<std::vector<std::string>> rows = {
      {"POOL", "WANTED", "READY", "PENDING", "CLAIMED", "WAITING", "LIMIT", "LAST ERROR"}};
  for (const v1::PoolCapacity& pool : capacity->pools()) {
    rows.push_back({pool.pool(), std::to_string(pool.wanted()), std::to_string(pool.ready()),
                    std::to_string(pool.pending()), std::to_string(pool.claimed()),
                    std::to_string(pool.waiting_callers()), std::to_string(pool.limit()),
                    pool.last_error()});
  }
  return Print(Table(rows));
}

}  // namespace sandbroker::cli
