// The passes over the configuration, weakest source first, so that a later one wins.
#include "lib/config/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/config/knobs.h"
#include "lib/config/yaml.h"

namespace sandbroker::config {
namespace {

struct Flags {
  std::map<std::string, std::string> given;  // by flag, without dashes
  std::optional<std::string> help;
  bool check = false;
  bool print = false;
  bool agent_key = false;
  bool doctor = false;
  bool json = false;
  bool version = false;
};

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& args) {
  Flags flags;
  CLI::App app("sandbrokerd: hands out code sandboxes and runs programs in them over gRPC.",
               "sandbrokerd");
  std::map<std::string, std::string> values;
  app.add_option("--config", values["config"], "YAML file (SANDBROKER_CONFIG)");
  app.add_flag("--check-config", flags.check, "check the configuration, start nothing");
  app.add_flag("--print-config", flags.print, "print the effective configuration, start nothing");
  app.add_flag("--print-agent-key", flags.agent_key,
               "print the public key for agents on TCP, start nothing");
  CLI::Option* doctor = app.add_flag("--doctor", flags.doctor,
                                     "show which protections this host offers, start nothing");
  app.add_flag("--json", flags.json, "with --doctor: one JSON object")->needs(doctor);
  app.add_flag("--version", flags.version, "print the version");
  Config defaults;
  for (const auto& knob : ServerKnobs()) {
    const std::string flag(knob.flag);
    const std::string value = PrintSlot(knob.slot(defaults));
    app.add_option("--" + flag, values[flag], std::string(knob.help))
        ->default_str(value)
        ->group(std::string(knob.section));
  }
  app.footer(
      "Each flag can be given as SANDBROKER_FLAG in the environment, and as a key of the "
      "file.\nFlags win over the environment, the environment over the file.");
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    flags.help = app.help();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(StrCat(error.what(), "; see --help"));
  }
  for (auto& [flag, value] : values) {
    if (app.count("--" + flag) > 0) flags.given[flag] = value;
  }
  return flags;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const auto failed = [&path](int error) {
    return absl::InvalidArgumentError(StrCat(path, ": ", std::strerror(error)));
  };
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return failed(errno);
  std::string text;
  char buffer[16384];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) return text;
    text.append(buffer, got);
  }
  return absl::InvalidArgumentError(StrCat(path, ": larger than 1 MiB"));
}

std::string Lookup(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? "" : found->second;
}

absl::Status ApplyFile(const Flags& flags, const Surroundings& around, Config* config) {
  const auto flag = flags.given.find("config");
  const std::string path = flag != flags.given.end()
                               ? flag->second
                               : Lookup(around.environment, EnvironmentName("config"));
  if (path.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ReadYaml(*text, path, config);
}

absl::Status Apply(std::string_view source, const std::string& text, Slot slot) {
  const absl::Status set = SetSlot(slot, text);
  if (set.ok()) return set;
  return absl::InvalidArgumentError(StrCat(source, ": ", MessageOf(set)));
}

absl::Status ApplyEnvironment(const Surroundings& around, Config* config) {
  for (const auto& knob : ServerKnobs()) {
    const std::string name = EnvironmentName(knob.flag);
    const auto found = around.environment.find(name);
    if (found == around.environment.end()) continue;
    SANDBROKER_RETURN_IF_ERROR(Apply(name, found->second, knob.slot(*config)));
  }
  return absl::OkStatus();
}

absl::Status ApplyFlags(const Flags& flags, Config* config) {
  for (const auto& knob : ServerKnobs()) {
    const auto found = flags.given.find(std::string(knob.flag));
    if (found == flags.given.end()) continue;
    SANDBROKER_RETURN_IF_ERROR(Apply(StrCat("--", knob.flag), found->second, knob.slot(*config)));
  }
  return absl::OkStatus();
}

void Settle(const Surroundings& around, Config* config) {
  ServerConfig& server = config->server;
  if (server.listen == "off") server.listen.clear();
  if (server.admin == "off") server.admin.clear();
  if (server.state_dir.empty()) server.state_dir = DefaultStateDir(around);
  std::vector<std::string*> paths = {&server.unix_socket, &server.state_dir, &server.port_file,
                                     &server.agent, &config->kubernetes.kubeconfig};
  for (auto& [name, settings] : config->templates) paths.push_back(&settings.rootfs);
  for (std::string* path : paths) {
    if (path->empty() || path->front() == '/') continue;
    *path = (std::filesystem::path(around.working_dir) / *path).lexically_normal().string();
  }
}

Invocation Print(std::string text) {
  Invocation invocation;
  invocation.action = Invocation::Action::kPrint;
  invocation.text = std::move(text);
  return invocation;
}

}  // namespace

Surroundings CurrentSurroundings(int argc, const char* const* argv) {
  Surroundings around;
  for (int i = 1; i < argc; ++i) around.args.emplace_back(argv[i]);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    around.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::error_code ignored;
  around.working_dir = std::filesystem::current_path(ignored).string();
  around.is_root = geteuid() == 0;
  return around;
}

std::string DefaultStateDir(const Surroundings& surroundings) {
  if (surroundings.is_root) return "/var/lib/sandbroker";
  // The XDG specification says that a relative path there is to be ignored.
  const std::string state_home = Lookup(surroundings.environment, "XDG_STATE_HOME");
  if (!state_home.empty() && state_home.front() == '/') return state_home + "/sandbroker";
  const std::string home = Lookup(surroundings.environment, "HOME");
  return home.empty() ? "" : home + "/.local/state/sandbroker";
}

absl::StatusOr<Invocation> Load(const Surroundings& surroundings) {
  const absl::StatusOr<Flags> flags = ParseFlags(surroundings.args);
  if (!flags.ok()) return flags.status();
  if (flags->help) return Print(*flags->help);
  if (flags->version) return Print("sandbrokerd " SANDBROKER_VERSION "\n");

  Invocation invocation;
  Config& config = invocation.config;
  SANDBROKER_RETURN_IF_ERROR(ApplyFile(*flags, surroundings, &config));
  SANDBROKER_RETURN_IF_ERROR(ApplyEnvironment(surroundings, &config));
  SANDBROKER_RETURN_IF_ERROR(ApplyFlags(*flags, &config));
  Settle(surroundings, &config);
  SANDBROKER_RETURN_IF_ERROR(Validate(config));
  if (flags->print) return Print(WriteYaml(config));
  if (flags->check) invocation.action = Invocation::Action::kCheckConfig;
  if (flags->agent_key) invocation.action = Invocation::Action::kPrintAgentKey;
  if (flags->doctor) invocation.action = Invocation::Action::kDoctor;
  invocation.json = flags->json;
  return invocation;
}

}  // namespace sandbroker::config
