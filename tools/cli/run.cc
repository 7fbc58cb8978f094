// `sandbroker run`: takes a sandbox, runs one program in it, gives it back whatever happened.
#include <stop_token>

#include "lib/base/strings.h"
#include "tools/cli/commands.h"
#include "tools/cli/common.h"

namespace sandbroker::cli {
namespace {

constexpr std::chrono::seconds kReleaseTimeout{15};

// A failure here is told apart and leaves the program's exit code alone.
void Release(client::SandboxLease& lease, Interrupts& interrupts) {
  std::stop_source stop;
  int signals = 0;
  interrupts.SetHandler([&](int) {
    if (++signals == 1) {
      Complain("giving the sandbox back; once more to leave it to its lease");
    } else {
      stop.request_stop();
    }
  });
  const absl::Status status =
      lease.Release({.deadline = kReleaseTimeout, .stop = stop.get_token()}).status();
  interrupts.SetHandler(nullptr);
  if (!status.ok()) {
    Complain(StrCat("cleanup: sandbox ", lease.id(),
                    " was not released, its lease will end it: ", Describe(status)));
  }
}

}  // namespace

int Execute(const RunCommand& command) {
  Interrupts interrupts;
  interrupts.Start();
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  std::optional<client::SandboxLease> lease =
      Acquire(*client, command.acquire, interrupts, exit_code);
  if (!lease) return exit_code;
  exit_code = ExecSession(*client, lease->id(), command.session).Run(interrupts);
  Release(*lease, interrupts);
  return exit_code;
}

}  // namespace sandbroker::cli
