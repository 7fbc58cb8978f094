// Labels and selectors in Kubernetes syntax, so that they mean the same on every backend. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandbroker {

using Labels = std::map<std::string, std::string>;

// Key: optional DNS prefix (<= 253) and '/', then a name of 1..63; value: 0..63. At most 64
// labels; the prefixes sandbroker.dev and kubernetes.io (and below) are reserved.
absl::Status ValidateLabels(const Labels& labels, std::string_view field);

// "k=v", "k==v", "k!=v", "k in (a,b)", "k notin (a,b)", "k", "!k", joined by commas.
class LabelSelector {
 public:
  // An empty text selects everything. Errors name `field`.
  static absl::StatusOr<LabelSelector> Parse(std::string_view text, std::string_view field);

  bool Matches(const Labels& labels) const;
  bool empty() const { return terms_.empty(); }

 private:
  enum class Op { kIn, kNotIn, kExists, kNotExists };
  struct Term {
    std::string key;
    Op op;
    std::vector<std::string> values;
  };
  static absl::StatusOr<Term> ParseTerm(std::string_view text);

  std::vector<Term> terms_;
};

}  // namespace sandbroker
