// `sandbroker doctor`: what protects sandboxes on this host. The looking is the server's, since it
// needs the backend; this hands over to it, and comes back only when there is no such program.
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/base/strings.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/stdio.h"

namespace sandbroker::cli {
namespace {

// Beside this program when it is there, else whatever PATH finds.
std::string DefaultServer() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string beside = (self.parent_path() / "sandbrokerd").string();
  return access(beside.c_str(), X_OK) == 0 ? beside : "sandbrokerd";
}

}  // namespace

int Execute(const DoctorCommand& command) {
  const std::string server = command.server.empty() ? DefaultServer() : command.server;
  std::vector<std::string> words = {server, "--doctor"};
  if (command.json) words.emplace_back("--json");
  if (!command.config.empty()) words.insert(words.end(), {"--config", command.config});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(server.c_str(), argv.data());
  Complain(StrCat("can't run ", server, " (", ErrorText(errno), "); name it with --server"));
  return kExitFailure;
}

}  // namespace sandbroker::cli
