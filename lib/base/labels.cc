#include "lib/base/labels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker {
namespace {

bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// Letters, digits, '-', '_', '.'; both ends a letter or digit.
bool IsLabelWord(std::string_view word) {
  if (word.empty() || word.size() > 63) return false;
  if (!IsAlnum(word.front()) || !IsAlnum(word.back())) return false;
  return std::all_of(word.begin(), word.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsDnsName(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  for (const std::string_view part : StrSplit(name, '.')) {
    if (part.empty() || part.size() > 63 || part.front() == '-' || part.back() == '-') return false;
    for (const char c : part) {
      const bool lower = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      if (!lower) return false;
    }
  }
  return true;
}

bool IsLabelKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return IsLabelWord(key);
  return IsDnsName(key.substr(0, slash)) && IsLabelWord(key.substr(slash + 1));
}

bool IsReserved(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view prefix = key.substr(0, slash);
  for (const std::string_view owner : {"sandbroker.dev", "kubernetes.io", "k8s.io"}) {
    if (prefix == owner || prefix.ends_with(StrCat(".", owner))) return true;
  }
  return false;
}

// Splits at commas that are not inside parentheses.
std::vector<std::string_view> SplitTerms(std::string_view text) {
  std::vector<std::string_view> terms;
  size_t from = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      terms.push_back(StripWhitespace(text.substr(from, i - from)));
      from = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return terms;
}

}  // namespace

absl::Status ValidateLabels(const Labels& labels, std::string_view field) {
  if (labels.size() > 64) {
    return InvalidField(field, StrCat(labels.size(), " labels; at most 64"));
  }
  for (const auto& [key, value] : labels) {
    if (!IsLabelKey(key)) {
      return InvalidField(field, StrCat("'", CEscape(key), "' is not a label key"));
    }
    if (IsReserved(key)) {
      return InvalidField(field, StrCat("'", key, "' has a reserved prefix"));
    }
    if (!value.empty() && !IsLabelWord(value)) {
      return InvalidField(field,
                          StrCat("'", CEscape(value), "' (of ", key, ") is not a label value"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LabelSelector::Term> LabelSelector::ParseTerm(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(StrCat("'", CEscape(text), "': ", why));
  };
  Term term{"", Op::kExists, {}};
  std::string_view key = text;
  if (const size_t open = text.find('('); open != std::string_view::npos) {
    if (text.back() != ')') return bad("text after ')'");
    key = StripWhitespace(text.substr(0, open));
    if (ConsumeSuffix(&key, " notin")) {
      term.op = Op::kNotIn;
    } else if (ConsumeSuffix(&key, " in")) {
      term.op = Op::kIn;
    } else {
      return bad("expected 'in (…)' or 'notin (…)'");
    }
    const std::string_view list = text.substr(open + 1, text.size() - open - 2);
    for (const std::string_view value : StrSplit(list, ',')) {
      term.values.emplace_back(StripWhitespace(value));
    }
  } else if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    std::string_view value = text.substr(equals + 1);
    key = text.substr(0, equals);
    term.op = ConsumeSuffix(&key, "!") ? Op::kNotIn : Op::kIn;
    if (term.op == Op::kIn) ConsumePrefix(&value, "=");
    term.values.emplace_back(StripWhitespace(value));
  } else if (ConsumePrefix(&key, "!")) {
    term.op = Op::kNotExists;
  }
  term.key = std::string(StripWhitespace(key));
  if (!IsLabelKey(term.key)) return bad("not a label key");
  for (const std::string& value : term.values) {
    if (!value.empty() && !IsLabelWord(value)) return bad("not a label value");
  }
  return term;
}

absl::StatusOr<LabelSelector> LabelSelector::Parse(std::string_view text, std::string_view field) {
  LabelSelector selector;
  if (StripWhitespace(text).empty()) return selector;
  if (text.size() > 4096) return InvalidField(field, "longer than 4096 bytes");
  for (const std::string_view part : SplitTerms(text)) {
    absl::StatusOr<Term> term = ParseTerm(part);
    if (!term.ok()) return InvalidField(field, MessageOf(term.status()));
    selector.terms_.push_back(*std::move(term));
  }
  return selector;
}

bool LabelSelector::Matches(const Labels& labels) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const auto it = labels.find(term.key);
    const bool present = it != labels.end();
    const bool listed = present && std::find(term.values.begin(), term.values.end(), it->second) !=
                                       term.values.end();
    switch (term.op) {
      case Op::kIn:
        return listed;
      case Op::kNotIn:
        return !listed;  // as Kubernetes: an absent key is not in any list
      case Op::kExists:
        return present;
      case Op::kNotExists:
        return !present;
    }
    return false;
  });
}

}  // namespace sandbroker
