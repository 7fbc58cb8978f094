// `sandbroker ls`: the sandboxes of the caller's tenant, once or with every change.
#include <map>

#include "lib/base/strings.h"
#include "sandbroker/v1/sandbox.pb.h"
#include "tools/cli/commands.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

namespace sandbroker::cli {
namespace {

std::string StateOf(const v1::Sandbox& sandbox) {
  constexpr std::string_view kPrefix = "SANDBOX_STATE_";
  std::string name = v1::SandboxState_Name(sandbox.state());
  // A value of a newer server has no name here.
  if (name.empty()) return std::to_string(sandbox.state());
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return name;
}

std::string LabelsOf(const v1::Sandbox& sandbox) {
  const std::map<std::string, std::string> sorted(sandbox.labels().begin(), sandbox.labels().end());
  std::string text;
  for (const auto& [key, value] : sorted) {
    StrAppend(&text, text.empty() ? "" : ",", key, "=", value);
  }
  return text;
}

// Columns can't be aligned with what comes later; what varies most is last.
std::string LineOf(const v1::WatchSandboxesResponse& event) {
  const auto there = [](std::string_view what, const v1::Sandbox& sandbox) {
    return StrCat(what, "  ", sandbox.pool(), "  ", StateOf(sandbox), "  ",
                  ForPeople(sandbox.lease().remaining()), "  ", LabelsOf(sandbox), "  ",
                  sandbox.sandbox_id(), "\n");
  };
  if (event.has_added()) return there("added", event.added());
  if (event.has_modified()) return there("modified", event.modified());
  if (!event.has_removed()) return "";
  const v1::SandboxRemoved& removed = event.removed();
  return StrCat("removed  ", removed.reason(), "  ", removed.cause(), "  ", removed.sandbox_id(),
                "\n");
}

int Watch(const client::Client& client, const ListCommand& command) {
  int printed = 0;
  const absl::Status status =
      client.Watch(command.label_selector, [&](const v1::WatchSandboxesResponse& event) {
        const std::string line = command.common.json ? ToJson(event) + "\n" : LineOf(event);
        if (!line.empty()) printed = Print(line);
        return printed == 0;
      });
  if (printed != 0) return printed;
  Complain(Describe(status));
  return kExitFailure;
}

}  // namespace

int Execute(const ListCommand& command) {
  int exit_code = 0;
  const std::optional<client::Client> client = Connect(command.common.address, exit_code);
  if (!client) return exit_code;
  if (command.watch) return Watch(*client, command);
  const absl::StatusOr<std::vector<v1::Sandbox>> sandboxes = client->List(command.label_selector);
  if (!sandboxes.ok()) {
    Complain(Describe(sandboxes.status()));
    return kExitFailure;
  }
  if (command.common.json) {
    v1::ListSandboxesResponse all;
    for (const v1::Sandbox& sandbox : *sandboxes) *all.add_sandboxes() = sandbox;
    return Print(ToJson(all) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"POOL", "STATE", "LEASE", "LABELS", "SANDBOX"}};
  for (const v1::Sandbox& sandbox : *sandboxes) {
    // Last, since it is long.
    rows.push_back({sandbox.pool(), StateOf(sandbox), ForPeople(sandbox.lease().remaining()),
                    LabelsOf(sandbox), sandbox.sandbox_id()});
  }
  return Print(Table(rows));
}

}  // namespace sandbroker::cli
