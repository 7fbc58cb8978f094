// Protocol B: every interleaving at small bounds, long random runs, and each rule of the table
// switched off once, to show that the model would notice.
#include "tests/model/receipt_model.h"

#include <gtest/gtest.h>

#include "tests/model/model_checks.h"

namespace sandbroker::model {
namespace {

using Checks = ModelChecks<ReceiptModel, ReceiptBounds, Rule>;

TEST(ReceiptModel, ThreeReplicas_CrashesAndDeadlinesAtEveryStep) {
  Checks::ExpectClean("crashes", {.crashes = 1, .ticks = 2});
}

TEST(ReceiptModel, ThreeReplicas_WritesWithoutAnAnswer) {
  Checks::ExpectClean("unknown writes", {.calls = 2, .unknowns = 2, .ticks = 1});
}

TEST(ReceiptModel, ThreeReplicas_AcquiresThatFailAndSandboxesThatEnd) {
  Checks::ExpectClean("failures", {.ticks = 1, .dry = 1, .reaps = 1, .leaves = 1});
}

TEST(ReceiptModel, OtherBody_NeverGetsAnothersSandbox) {
  Checks::ExpectClean("other body", {.other_body = true, .crashes = 1, .unknowns = 0, .ticks = 1});
}

TEST(ReceiptModel, OneBrokerAtATime_DiesAtEveryStep) {
  Checks::ExpectClean("local", {.local = true, .crashes = 2, .dry = 1, .reaps = 1});
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
    Checks::ExpectCleanAtRandom(bounds, 11, 3000, 300);
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
  Checks::ExpectNoticed(BoundsFor(rule), rule);
}

INSTANTIATE_TEST_SUITE_P(EachRule, ReceiptRules, ::testing::Range(1, kRules));

}  // namespace
}  // namespace sandbroker::model
