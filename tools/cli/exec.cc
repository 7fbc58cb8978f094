// `sandbroker exec`: a program in a sandbox that the caller holds.
#include "tools/cli/commands.h"
#include "tools/cli/common.h"

namespace sandbroker::cli {

int Execute(const ExecCommand& command) {
  Interrupts interrupts;
  interrupts.Start();
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  return ExecSession(*client, command.sandbox_id, command.session).Run(interrupts);
}

}  // namespace sandbroker::cli
