// Protocol B: every interleaving at small bounds, long random runs, and each rule of the table
// switched off once, to show that the model would notice.
#include "tests/model/receipt_model.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/explorer.h"

namespace sandbroker::model {
namespace {

using testing::Explored;
using testing::Explorer;

void Print(const char* what, const Explored& explored) {
  std::printf("%s: %llu states, %llu steps\n", what,
              static_cast<unsigned long long>(explored.states),
              static_cast<unsigned long long>(explored.steps));
}

Explored All(const ReceiptBounds& bounds, Rule off = Rule::kNone) {
  return Explorer<ReceiptModel>().Everything(ReceiptModel(bounds, off));
}

void ExpectClean(const char* what, const ReceiptBounds& bounds) {
  const Explored explored = All(bounds);
  Print(what, explored);
  EXPECT_TRUE(explored.complete);
  EXPECT_EQ(explored.violation, "") << explored.Text();
}

TEST(ReceiptModel, ThreeReplicas_CrashesAndDeadlinesAtEveryStep) {
  ExpectClean("crashes", {.crashes = 1, .ticks = 2});
}

TEST(ReceiptModel, ThreeReplicas_WritesWithoutAnAnswer) {
  ExpectClean("unknown writes", {.calls = 2, .unknowns = 2, .ticks = 1});
}

TEST(ReceiptModel, ThreeReplicas_AcquiresThatFailAndSandboxesThatEnd) {
  ExpectClean("failures", {.ticks = 1, .dry = 1, .reaps = 1, .leaves = 1});
}

TEST(ReceiptModel, OtherBody_NeverGetsAnothersSandbox) {
  ExpectClean("other body", {.other_body = true, .crashes = 1, .unknowns = 0, .ticks = 1});
}

TEST(ReceiptModel, OneBrokerAtATime_DiesAtEveryStep) {
  ExpectClean("local", {.local = true, .crashes = 2, .dry = 1, .reaps = 1});
}

TEST(ReceiptModel, RandomRuns_WithEverythingAtOnce) {
  const ReceiptBounds wild{.calls = 7,
                           .crashes = 4,
                           .unknowns = 4,
                           .unreadable = 2,
                           .ticks = 6,
                           .dry = 4,
                           .reaps = 2,
                           .leaves = 2};
  ReceiptBounds local = wild;
  local.local = true;
  for (const ReceiptBounds& bounds : {wild, local}) {
    const auto explored =
        Explorer<ReceiptModel>().Walk(ReceiptModel(bounds, Rule::kNone), 11, 3000, 300);
    Print("random", explored);
    EXPECT_EQ(explored.violation, "") << explored.Text();
  }
}

// The bounds at which the fault shows; the whole protocol is clean at all of them (above).
ReceiptBounds BoundsFor(Rule rule) {
  switch (rule) {
    case Rule::kBodyIsCompared:
      return {.other_body = true};
    case Rule::kTokensAreUnique:
      return {.replicas = 2, .ticks = 2, .dry = 1};
    case Rule::kDeadOwnerFreesIt:
    case Rule::kLeftoverIsAdopted:
      return {.local = true, .crashes = 1};
    case Rule::kDeadlineFreesIt:
      return {.crashes = 1};
    case Rule::kLateWriteIsShutOut:
    case Rule::kSameTokenAgain:
      return {.calls = 2, .unknowns = 1};
    case Rule::kUnknownOpeningKeepsIt:
    case Rule::kRefusedOpeningLooksAgain:
      return {.calls = 1, .unknowns = 2};
    case Rule::kOnlyBoundToAnotherEndsIt:
      return {.crashes = 1, .ticks = 2};
    case Rule::kOpenedBeforeDestroyed:
      return {.ticks = 2, .dry = 1};
    case Rule::kOwnIsDestroyed:
      return {.dry = 1};
    case Rule::kGoneIsNeverReplaced:
      return {.reaps = 1};
    default:
      return {.ticks = 1, .dry = 1};
  }
}

class ReceiptRules : public ::testing::TestWithParam<int> {};

TEST_P(ReceiptRules, SwitchedOff_IsNoticed) {
  const Rule rule = static_cast<Rule>(GetParam());
  const ReceiptBounds bounds = BoundsFor(rule);
  const Explored explored = All(bounds, rule);
  EXPECT_NE(explored.violation, "") << RuleName(rule) << ": nothing depends on it";
  std::printf("without '%s': %s, after %zu actions\n", RuleName(rule), explored.violation.c_str(),
              explored.trace.size());
}

INSTANTIATE_TEST_SUITE_P(EachRule, ReceiptRules, ::testing::Range(1, kRules));

}  // namespace
}  // namespace sandbroker::model
