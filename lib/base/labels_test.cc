#include "lib/base/labels.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker {
namespace {

bool Selects(std::string_view text, const Labels& labels) {
  const auto selector = LabelSelector::Parse(text, "label_selector");
  EXPECT_TRUE(selector.ok()) << selector.status();
  return selector.ok() && selector->Matches(labels);
}

TEST(Labels, Selector_FollowsKubernetesSemantics) {
  const Labels labels = {{"app", "ci"}, {"team/x", ""}, {"n", "1"}};
  EXPECT_FALSE(Selects("team/x=a", labels));
  EXPECT_TRUE(Selects("app=ci", labels));
  EXPECT_TRUE(Selects("app==ci,n=1", labels));
  EXPECT_TRUE(Selects("app != web", labels));
  EXPECT_TRUE(Selects("absent!=web", labels));
  EXPECT_TRUE(Selects("app in (web, ci)", labels));
  EXPECT_FALSE(Selects("app notin (web,ci)", labels));
  EXPECT_TRUE(Selects("absent notin (a)", labels));
  EXPECT_FALSE(Selects("absent in (a)", labels));
  EXPECT_TRUE(Selects("n,!absent", labels));
  EXPECT_FALSE(Selects("!n", labels));
  EXPECT_TRUE(Selects("", labels));
}

TEST(Labels, Selector_RefusesWhatItCannotRead) {
  for (const char* text : {"=v", "a=b c", "a in", "a in (b", "in (b)", "a,,b", "a in (b)x", "a=(b)",
                           "!", "-a=b", "a=b,"}) {
    const auto selector = LabelSelector::Parse(text, "label_selector");
    EXPECT_FALSE(selector.ok()) << text;
    EXPECT_EQ(DetailOf(selector.status()).field, "label_selector") << text;
  }
}

TEST(Labels, Validate_HoldsKeysAndValuesToTheSyntax) {
  EXPECT_TRUE(ValidateLabels({{"a.b/c", "d-e"}, {"x", ""}}, "labels").ok());
  EXPECT_FALSE(ValidateLabels({{"", "v"}}, "labels").ok());
  EXPECT_FALSE(ValidateLabels({{"a", "v v"}}, "labels").ok());
  EXPECT_FALSE(ValidateLabels({{"UP.case/x", "v"}}, "labels").ok());
  EXPECT_FALSE(ValidateLabels({{"sandbroker.dev/x", "v"}}, "labels").ok());
  EXPECT_FALSE(ValidateLabels({{"node.kubernetes.io/x", "v"}}, "labels").ok());
  EXPECT_FALSE(ValidateLabels({{std::string(64, 'a'), "v"}}, "labels").ok());
}

}  // namespace
}  // namespace sandbroker
