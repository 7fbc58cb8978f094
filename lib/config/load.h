// From argv, environment and file to one checked Config. The order is decided here and nowhere
// else: flag > environment (SANDBROKER_*) > file > default. Main thread, before anything runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/config/config.h"

namespace sandbroker::config {

// What the process was started with.
struct Surroundings {
  std::vector<std::string> args;  // without the program's name
  std::map<std::string, std::string> environment;
  std::string working_dir;
  bool is_root = false;
};
Surroundings CurrentSurroundings(int argc, const char* const* argv);

struct Invocation {
  enum class Action { kServe, kCheckConfig, kDoctor, kPrint, kPrintAgentKey };
  Action action = Action::kServe;
  // For kPrint: help, version or the effective configuration.
  std::string text;
  bool json = false;  // for kDoctor
  Config config;
};

// Errors are for the person who started it: they name flag, variable or FILE:LINE, and the knob.
absl::StatusOr<Invocation> Load(const Surroundings& surroundings);

// /var/lib/sandbroker for root, else $XDG_STATE_HOME/sandbroker, else
// $HOME/.local/state/sandbroker; empty if none of them can be told.
std::string DefaultStateDir(const Surroundings& surroundings);

}  // namespace sandbroker::config
