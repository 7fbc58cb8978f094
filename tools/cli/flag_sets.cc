#include "tools/cli/flag_sets.h"

#include <map>
#include <utility>

#include "lib/base/ids.h"
#include "lib/base/strings.h"
#include "tools/cli/flags.h"

namespace sandbroker::cli {
namespace {

void AddPairsFlag(CLI::App& app, const std::string& name, std::map<std::string, std::string>& pairs,
                  const std::string& description) {
  const auto take = [name, &pairs](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      absl::StatusOr<std::pair<std::string, std::string>> pair = ParsePair(text);
      if (!pair.ok()) throw CLI::ValidationError(name, std::string(pair.status().message()));
      pairs[pair->first] = pair->second;
    }
  };
  // One value a flag, so that the words after it stay the command's.
  app.add_option_function<std::vector<std::string>>(name, take, description)
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

void AddIdFlag(CLI::App& app, const std::string& name, std::string& id,
               const std::string& description) {
  const auto take = [name, &id](const std::string& text) {
    if (!IsValidId(text)) {
      throw CLI::ValidationError(
          name, StrCat("\"", text, "\" is not 1 to 64 of the characters A-Z a-z 0-9 . _ -"));
    }
    id = text;
  };
  app.add_option_function<std::string>(name, take, description)->type_name("ID");
}

}  // namespace

void AddDurationFlag(CLI::App& app, const std::string& name, std::optional<client::Duration>& value,
                     Zero zero, const std::string& description) {
  const auto take = [name, zero, &value](const std::string& text) {
    absl::StatusOr<std::chrono::nanoseconds> duration = ParseDuration(text);
    if (!duration.ok()) throw CLI::ValidationError(name, std::string(duration.status().message()));
    if (duration->count() == 0 && zero == Zero::kRefused) {
      throw CLI::ValidationError(name, StrCat("\"", text, "\" is not longer than zero"));
    }
    value = *duration;
  };
  app.add_option_function<std::string>(name, take, description)->type_name("DURATION");
}

void AddCommonFlags(CLI::App& app, CommonFlags& flags) {
  app.add_option("--address", flags.address, "HOST:PORT or unix:PATH of the server")
      ->envname("SANDBROKER_ADDRESS")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_flag("--json", flags.json, "JSON with the field names of the proto");
}

void AddAcquireFlags(CLI::App& app, client::AcquireOptions& options) {
  app.add_option("--pool", options.pool, "where the sandbox comes from (default: \"default\")")
      ->type_name("NAME");
  AddPairsFlag(app, "--label", options.labels, "label of the sandbox; repeatable");
  AddDurationFlag(app, "--ttl", options.ttl, Zero::kRefused,
                  "kept this long after the last activity (default: 10m)");
  AddDurationFlag(app, "--max-lifetime", options.max_lifetime, Zero::kRefused,
                  "never kept longer than this (default: 24h)");
  AddDurationFlag(app, "--wait", options.wait_bound, Zero::kAllowed,
                  "longest wait when no sandbox is ready (default: 60s)");
  CLI::Option* warm_only = app.add_flag_callback(
      "--warm-only", [&options] { options.fallback = v1::FALLBACK_WARM_ONLY; },
      "fail at once when none is ready");
  app.add_flag_callback(
         "--no-cold", [&options] { options.fallback = v1::FALLBACK_WAIT; },
         "wait for a ready one, never start one for this call")
      ->excludes(warm_only);
  AddIdFlag(app, "--request-id", options.request_id,
            "repeating the call with the same id gets the same sandbox");
}

void AddEnvFlag(CLI::App& app, std::map<std::string, std::string>& env) {
  AddPairsFlag(app, "--env", env, "environment variable; repeatable");
}

void AddProgramFlags(CLI::App& app, SessionOptions& options) {
  AddEnvFlag(app, options.program.env);
  app.add_option("--cwd", options.program.cwd, "working directory (default: /workspace)")
      ->type_name("PATH");
  AddDurationFlag(app, "--timeout", options.program.timeout, Zero::kRefused,
                  "end the program after this long (default: never)");
  AddDurationFlag(app, "--kill-grace", options.program.kill_grace, Zero::kAllowed,
                  "from TERM to KILL (default: 5s)");
  AddIdFlag(app, "--execution-id", options.exec.execution_id,
            "repeating the call with the same id never starts the program twice");
  app.add_flag_callback(
      "--no-stdin", [&options] { options.exec.input = client::Stdin::kNull; },
      "the program reads from /dev/null");
}

}  // namespace sandbroker::cli
