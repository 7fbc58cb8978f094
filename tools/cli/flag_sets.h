// The flags that several subcommands share, and how CLI11 options read our value types.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sandbroker/client/options.h"
#include "tools/cli/command_line.h"

namespace sandbroker::cli {

void AddCommonFlags(CLI::App& app, CommonFlags& flags);
void AddAcquireFlags(CLI::App& app, client::AcquireOptions& options);
void AddProgramFlags(CLI::App& app, SessionOptions& options);
// --env into `env`.
void AddEnvFlag(CLI::App& app, std::map<std::string, std::string>& env);

enum class Zero { kAllowed, kRefused };
void AddDurationFlag(CLI::App& app, const std::string& name, std::optional<client::Duration>& value,
                     Zero zero, const std::string& description);

}  // namespace sandbroker::cli
