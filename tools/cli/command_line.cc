#include "tools/cli/command_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "lib/base/strings.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/flag_sets.h"
#include "tools/cli/flags.h"

namespace sandbroker::cli {
namespace {

// All subcommands with the values their flags are read into.
struct Parser {
  CLI::App app{"Takes sandboxes from a broker and runs programs in them.", "sandbroker"};
  AcquireCommand acquire;
  RunCommand run;
  ExecCommand exec;
  ListCommand list;
  ReleaseCommand release;
  CapacityCommand capacity;
  InfoCommand info;
  DoctorCommand doctor;

  explicit Parser(std::chrono::system_clock::time_point now);
  std::optional<Command> Result(const std::vector<std::string>& after_dashes);

 private:
  CLI::App* Add(const std::string& name, const std::string& description, CommonFlags& common);
  void AddDoctor();
  void AddRelease(std::chrono::system_clock::time_point now);
};

CLI::App* Parser::Add(const std::string& name, const std::string& description,
                      CommonFlags& common) {
  CLI::App* command = app.add_subcommand(name, description);
  AddCommonFlags(*command, common);
  return command;
}

Parser::Parser(std::chrono::system_clock::time_point now) {
  app.require_subcommand(1);
  app.set_version_flag("--version", "sandbroker " SANDBROKER_VERSION);
  CLI::App* command = Add("acquire", "Take a sandbox and print its id.", acquire.common);
  AddAcquireFlags(*command, acquire.acquire);
  AddEnvFlag(*command, acquire.acquire.env);

  command = Add("run", "Take a sandbox, run a program in it, give it back.", run.common);
  AddAcquireFlags(*command, run.acquire);
  AddProgramFlags(*command, run.session);
  command->prefix_command()->footer(
      "Usage in full: sandbroker run [OPTIONS] [--] PROGRAM [ARGUMENTS]...");

  command = Add("exec", "Run a program in a sandbox.", exec.common);
  AddProgramFlags(*command, exec.session);
  command->add_option("SANDBOX", exec.sandbox_id, "id that acquire printed")->required();
  command->prefix_command()->footer(
      "Usage in full: sandbroker exec [OPTIONS] SANDBOX [--] PROGRAM [ARGUMENTS]...");

  command = Add("ls", "List sandboxes.", list.common);
  command->add_option("--selector", list.label_selector, "only those whose labels match")
      ->type_name("SELECTOR");
  command->add_flag("--watch", list.watch, "go on with every change, one a line");

  AddRelease(now);

  command = Add("capacity", "Show how full the pools are.", capacity.common);
  command->add_option("--pool", capacity.pool, "only this one")->type_name("NAME");
  Add("info", "Show what the server is and can do.", info.common);
  AddDoctor();
}

void Parser::AddDoctor() {
  CLI::App* command = app.add_subcommand("doctor", "Show what protects sandboxes on this host.");
  command->add_flag("--json", doctor.json, "one JSON object");
  command->add_option("--config", doctor.config, "the server's configuration file")
      ->type_name("FILE");
  command->add_option("--server", doctor.server, "the sandbrokerd program")->type_name("PATH");
}

void Parser::AddRelease(std::chrono::system_clock::time_point now) {
  CLI::App* command = Add("release", "Give sandboxes back.", release.common);
  CLI::Option* ids = command->add_option("SANDBOX", release.sandbox_ids, "ids to give back");
  CLI::Option* selector = command
                              ->add_option("--selector", release.bulk.label_selector,
                                           "all of yours whose labels match, e.g. team=a,run!=7")
                              ->type_name("SELECTOR")
                              ->excludes(ids);
  const auto before = [this, now](const std::string& text) {
    absl::StatusOr<std::chrono::system_clock::time_point> time = ParseTime(text, now);
    if (!time.ok()) throw CLI::ValidationError("--before", std::string(time.status().message()));
    release.bulk.acquired_before = *time;
  };
  command
      ->add_option_function<std::string>("--before", before,
                                         "with --selector: only those acquired before this")
      ->type_name("TIME|AGE")
      ->needs(selector);
  command->add_flag("--dry-run", release.bulk.dry_run, "with --selector: only say which")
      ->needs(selector);
}

// What CLI11 left over is the command itself, from its first word on.
std::vector<std::string> ProgramOf(const CLI::App& command,
                                   const std::vector<std::string>& after_dashes) {
  std::vector<std::string> program = command.remaining();
  if (!program.empty() && program[0].starts_with("-")) {
    throw CLI::ValidationError(program[0],
                               "no such flag (write -- before a program that begins with a dash)");
  }
  // "--" itself is the program's when the program began before it.
  const auto begin = after_dashes.begin() + (program.empty() && !after_dashes.empty() ? 1 : 0);
  program.insert(program.end(), begin, after_dashes.end());
  return program;
}

std::optional<Command> Parser::Result(const std::vector<std::string>& after_dashes) {
  const CLI::App* chosen = app.get_subcommands().at(0);
  const std::string& name = chosen->get_name();
  if (name == "acquire") return acquire;
  if (name == "ls") return list;
  if (name == "capacity") return capacity;
  if (name == "info") return info;
  if (name == "doctor") return doctor;
  if (name == "release") {
    if (release.sandbox_ids.empty() && release.bulk.label_selector.empty()) {
      throw CLI::ValidationError("release", "name sandboxes, or give --selector");
    }
    return release;
  }
  SessionOptions& session = name == "run" ? run.session : exec.session;
  session.program.argv = ProgramOf(*chosen, after_dashes);
  if (session.program.argv.empty() || session.program.argv[0].empty()) {
    throw CLI::ValidationError(name, "the program to run is missing");
  }
  session.json = name == "run" ? run.common.json : exec.common.json;
  if (name == "run") return run;
  return exec;
}

std::string WhatIsWrong(const CLI::App& app, const std::vector<std::string>& args,
                        const CLI::ParseError& error) {
  if (args.empty() || args[0].starts_with("-")) return error.what();
  const auto named = [&args](const CLI::App* command) { return command->get_name() == args[0]; };
  if (!app.get_subcommands(named).empty()) return error.what();
  return StrCat("there is no subcommand \"", args[0], "\"; see sandbroker --help");
}

}  // namespace

ParsedCommandLine ParseCommandLine(const std::vector<std::string>& args,
                                   std::chrono::system_clock::time_point now) {
  Parser parser(now);
  std::vector<std::string> ours = args;
  std::vector<std::string> after_dashes;
  // From "--" on the words are the program's; CLI11 has its own idea of that.
  if (!args.empty() && (args[0] == "run" || args[0] == "exec")) {
    const auto dashes = std::find(ours.begin(), ours.end(), "--");
    after_dashes.assign(dashes, ours.end());
    ours.erase(dashes, ours.end());
  }
  std::reverse(ours.begin(), ours.end());
  ParsedCommandLine parsed;
  try {
    parser.app.parse(ours);
    parsed.command = parser.Result(after_dashes);
  } catch (const CLI::Success& success) {
    std::ostringstream out;
    parser.app.exit(success, out, out);
    parsed.text = out.str();
  } catch (const CLI::ParseError& error) {
    parsed.text = StrCat("sandbroker: ", WhatIsWrong(parser.app, args, error), "\n");
    parsed.exit_code = kExitUsage;
  }
  return parsed;
}

}  // namespace sandbroker::cli
