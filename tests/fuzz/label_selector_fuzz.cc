// Label selectors: any text is parsed or refused with FIELD_INVALID; what parsed answers for any
// labels, and a term and its opposite never agree.
#include "lib/base/check.h"
#include "lib/base/labels.h"
#include "lib/base/status.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {

std::vector<std::string> Seeds() {
  return {"app=web",
          "app==web,tier!=db",
          "env in (prod, test),!legacy,owner",
          "example.com/team notin (a,b,)",
          "a=,b,!c",
          "((",
          "a in ()"};
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto selector = LabelSelector::Parse(text, "label_selector");
  if (!selector.ok()) {
    SANDBROKER_CHECK(ReasonOf(selector.status()) == Reason::kFieldInvalid);
    SANDBROKER_CHECK(DetailOf(selector.status()).field == "label_selector");
    return 0;
  }
  const Labels some = {{"app", "web"}, {"env", "prod"}, {"owner", ""}, {"a", "b"}};
  const bool matched = selector->Matches(some);
  const bool matched_none = selector->Matches({});
  if (selector->empty()) SANDBROKER_CHECK(matched && matched_none);
  Labels labels;
  const size_t half = size / 2;
  labels[std::string(text.substr(0, half))] = std::string(text.substr(half));
  const absl::Status valid = ValidateLabels(labels, "labels");
  if (!valid.ok()) SANDBROKER_CHECK(ReasonOf(valid) == Reason::kFieldInvalid);
  if (valid.ok()) {
    const auto& [key, value] = *labels.begin();
    const auto same = LabelSelector::Parse(key + "=" + value, "f");
    const auto other = LabelSelector::Parse(key + "!=" + value, "f");
    SANDBROKER_CHECK(same.ok() && same->Matches(labels));
    SANDBROKER_CHECK(other.ok() && !other->Matches(labels));
  }
  return 0;
}
