// The `sandbroker` command: docs/cli.md. Reads the command line and hands over to its subcommand.
#include <unistd.h>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "tools/cli/commands.h"
#include "tools/cli/stdio.h"

namespace cli = sandbroker::cli;

int main(int argc, char** argv) {
  cli::PrepareStdio(argv);
  const cli::ParsedCommandLine parsed = cli::ParseCommandLine(
      std::vector<std::string>(argv + 1, argv + argc), std::chrono::system_clock::now());
  if (!parsed.command) {
    cli::WriteAll(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
    return parsed.exit_code;
  }
  return std::visit([](const auto& command) { return cli::Execute(command); }, *parsed.command);
}
