// `sandbroker acquire`: takes a sandbox and prints its id.
#include "tools/cli/commands.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

namespace sandbroker::cli {

int Execute(const AcquireCommand& command) {
  Interrupts interrupts;
  interrupts.Start();
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  std::optional<client::SandboxLease> lease =
      Acquire(*client, command.acquire, interrupts, exit_code);
  if (!lease) return exit_code;
  exit_code = Print((command.common.json ? AcquiredToJson(lease->acquired()) : lease->id()) + "\n");
  // A sandbox whose id nobody learned is given back.
  if (exit_code == 0) lease->Detach();
  return exit_code;
}

}  // namespace sandbroker::cli
