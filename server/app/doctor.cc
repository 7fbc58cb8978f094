#include "server/app/doctor.h"

#include <cstdio>
#include <string>
#include <vector>

#include "lib/backend/local/cgroups.h"
#include "lib/backend/local/host_facts.h"
#include "lib/backend/local/launcher.h"
#include "lib/backend/local/limits.h"
#include "lib/backend/local/protections.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log_format.h"
#include "server/app/settings.h"

namespace sandbroker::app {
namespace {

using local::Protection;

std::string ToText(const std::vector<Protection>& protections,
                   const std::vector<std::string>& refused,
                   const std::vector<std::string>& warned) {
  std::string text;
  for (const Protection& one : protections) {
    std::string state = local::StateName(one.state);
    state.resize(9, ' ');
    StrAppend(&text, state, one.name, ": ", one.detail, "\n");
    if (!one.remedy.empty()) StrAppend(&text, "         -> ", one.remedy, "\n");
  }
  for (const std::string& why : warned) StrAppend(&text, "warning  ", why, "\n");
  for (const std::string& why : refused) {
    StrAppend(&text, "refused  ", why, "; or set limits: advisory\n");
  }
  return text;
}

std::string List(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  quoted.reserve(texts.size());
  for (const std::string& text : texts) quoted.push_back(obs::QuoteJson(text));
  return StrCat("[", StrJoin(quoted, ","), "]");
}

std::string ToJson(const std::vector<Protection>& protections,
                   const std::vector<std::string>& refused, const std::vector<std::string>& warned,
                   bool fit) {
  std::vector<std::string> all;
  all.reserve(protections.size());
  for (const Protection& one : protections) {
    all.push_back(StrCat("{\"name\":", obs::QuoteJson(one.name),
                         ",\"state\":", obs::QuoteJson(local::StateName(one.state)),
                         ",\"detail\":", obs::QuoteJson(one.detail),
                         ",\"remedy\":", obs::QuoteJson(one.remedy), "}"));
  }
  return StrCat("{\"fit\":", fit ? "true" : "false", ",\"protections\":[", StrJoin(all, ","),
                "],\"refused\":", List(refused), ",\"warned\":", List(warned), "}\n");
}

absl::Status Probe(const local::LocalSettings& settings) {
  SANDBROKER_RETURN_IF_ERROR(CheckAgent(settings.agent_path));
  return local::ProbeIsolation(settings);
}

}  // namespace

ExitCode RunDoctor(const config::Config& config, bool json) {
  local::LocalSettings settings = ToLocalSettings(config);
  settings.cgroups = local::LookAtCgroups(settings);
  const local::HostFacts host = local::ReadHostFacts();
  const absl::Status probe = Probe(settings);
  const local::LimitFindings limits = local::CheckLimits(settings, host);
  const auto protections = local::DescribeProtections(settings, host, probe);
  const bool fit = probe.ok() && limits.refused.empty();
  const std::string text = json ? ToJson(protections, limits.refused, limits.warned, fit)
                                : ToText(protections, limits.refused, limits.warned);
  std::fputs(text.c_str(), stdout);
  return fit ? ExitCode::kOk : ExitCode::kEnvironment;
}

}  // namespace sandbroker::app
