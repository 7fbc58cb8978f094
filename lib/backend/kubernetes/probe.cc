#include "lib/backend/kubernetes/probe.h"

#include <algorithm>
#include <map>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

constexpr size_t kMaxValue = 64;

// Without values that can't be shown; a line said twice counts as wrong.
std::map<std::string_view, std::string> Lines(std::string_view text) {
  std::map<std::string_view, std::string> lines;
  for (const std::string_view line : StrSplit(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view value = StripWhitespace(line.substr(colon + 1));
    const auto [at, added] =
        lines.emplace(line.substr(0, colon), CEscape(value.substr(0, kMaxValue)));
    if (!added) at->second = "said twice";
  }
  return lines;
}

bool IsEmptySet(const std::string& mask) {
  return !mask.empty() && std::all_of(mask.begin(), mask.end(), [](char c) { return c == '0'; });
}

}  // namespace

absl::StatusOr<ProbeFacts> JudgeProbe(std::string_view status_file) {
  auto lines = Lines(status_file);
  std::vector<std::string> wrong;
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd"}) {
    if (!IsEmptySet(lines[set])) wrong.push_back(StrCat(set, "=", lines[set]));
  }
  if (lines["NoNewPrivs"] != "1") wrong.push_back(StrCat("NoNewPrivs=", lines["NoNewPrivs"]));
  if (!wrong.empty()) {
    return MakeError(
        Reason::kPrivilegedSandbox,
        StrCat("programs in this sandbox would have privileges: ", StrJoin(wrong, ", ")));
  }
  return ProbeFacts{lines["Uid"], lines["Seccomp"], lines["CapAmb"]};
}

}  // namespace sandbroker::kubernetes
