// The command line as values: what was asked, or why it can't be read. Pure but for the
// environment's SANDBROKER_ADDRESS.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sandbroker/client/options.h"
#include "tools/cli/exec_session.h"

namespace sandbroker::cli {

struct CommonFlags {
  std::string address = client::kDefaultAddress;
  bool json = false;
};

struct AcquireCommand {
  CommonFlags common;
  client::AcquireOptions acquire;
};

struct RunCommand {
  CommonFlags common;
  client::AcquireOptions acquire;
  SessionOptions session;
};

struct ExecCommand {
  CommonFlags common;
  std::string sandbox_id;
  SessionOptions session;
};

struct ListCommand {
  CommonFlags common;
  std::string label_selector;
  bool watch = false;
};

struct ReleaseCommand {
  CommonFlags common;
  std::vector<std::string> sandbox_ids;
  // Used when there are no ids.
  client::ReleaseTaskOptions bulk;
};

struct CapacityCommand {
  CommonFlags common;
  std::string pool;
};

struct InfoCommand {
  CommonFlags common;
};

// Asks no server: it looks at this host.
struct DoctorCommand {
  bool json = false;
  std::string config;  // the server's; empty = its defaults
  std::string server;  // the program; empty = beside this one, or in PATH
};

using Command = std::variant<AcquireCommand, RunCommand, ExecCommand, ListCommand, ReleaseCommand,
                             CapacityCommand, InfoCommand, DoctorCommand>;

struct ParsedCommandLine {
  std::optional<Command> command;
  // Without a command: what to print, where, and the exit code.
  std::string text;
  int exit_code = 0;
};

// Without the program's name.
ParsedCommandLine ParseCommandLine(const std::vector<std::string>& args,
                                   std::chrono::system_clock::time_point now);

}  // namespace sandbroker::cli
