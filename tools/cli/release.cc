// `sandbroker release`: gives sandboxes back, by id or by label.
#include "lib/base/strings.h"
#include "tools/cli/commands.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

namespace sandbroker::cli {
namespace {

std::string Line(const std::string& id, const v1::ReleaseResponse& response) {
  if (response.already_gone()) return id + " was already gone\n";
  std::string line = id + " released";
  for (int i = 0; i < response.ended_executions_size(); ++i) {
    line += StrCat(i == 0 ? "; it ended " : ", ", response.ended_executions(i));
  }
  return line + "\n";
}

// One line for each; goes on after a failure.
int ReleaseEach(const client::Client& client, const ReleaseCommand& command) {
  int exit_code = 0;
  for (const std::string& id : command.sandbox_ids) {
    const absl::StatusOr<v1::ReleaseResponse> response = client.Release(id);
    if (!response.ok()) {
      Complain(StrCat(id, ": ", Describe(response.status())));
      exit_code = kExitFailure;
      continue;
    }
    const int printed = Print(command.common.json ? ToJson(*response) + "\n" : Line(id, *response));
    if (printed != 0) exit_code = printed;
  }
  return exit_code;
}

int ReleaseMatching(const client::Client& client, const ReleaseCommand& command) {
  const absl::StatusOr<v1::ReleaseTaskSandboxesResponse> response =
      client.ReleaseTaskSandboxes(command.bulk);
  if (!response.ok()) {
    Complain(Describe(response.status()));
    return kExitFailure;
  }
  int exit_code = 0;
  if (command.common.json) exit_code = Print(ToJson(*response) + "\n");
  for (const v1::ReleaseResult& result : response->results()) {
    if (result.code() != 0) {
      Complain(StrCat(result.sandbox_id(), ": ", result.message()));
      exit_code = kExitFailure;
    } else if (!command.common.json) {
      const int printed = Print(StrCat(
          result.sandbox_id(), command.bulk.dry_run ? " would be released" : " released", "\n"));
      if (printed != 0) exit_code = printed;
    }
  }
  return exit_code;
}

}  // namespace

int Execute(const ReleaseCommand& command) {
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  return command.sandbox_ids.empty() ? ReleaseMatching(*client, command)
                                     : ReleaseEach(*client, command);
}

}  // namespace sandbroker::cli
