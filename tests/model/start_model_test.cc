// Protocol D: every interleaving at small bounds, long random runs, and each rule of the table
// switched off once, to show that the model would notice.
#include "tests/model/start_model.h"

#include <gtest/gtest.h>

#include "tests/model/model_checks.h"

namespace sandbroker::model {
namespace {

using Checks = ModelChecks<StartModel, StartBounds, StartRule>;

const StartBounds kOneAgent{.ids = 1, .sends = 4, .doubles = 1, .seconds = 6, .others = 1};
const StartBounds kTwoIds{.ids = 2, .sends = 3, .doubles = 1, .seconds = 2, .attaches = 0};
const StartBounds kReplaced{.ids = 1, .sends = 3, .doubles = 1, .deaths = 2, .seconds = 3};
const StartBounds kManyIds{.ids = 4, .sends = 4, .doubles = 0, .seconds = 1, .attaches = 0};

TEST(StartModel, OneAgent_MessagesDelayedDoubledAndLost) {
  Checks::ExpectClean("one agent", kOneAgent);
  Checks::ExpectClean("two ids", kTwoIds);
}

TEST(StartModel, AgentReplaced_NothingRunsTwice) { Checks::ExpectClean("replaced", kReplaced); }

TEST(StartModel, ManyIds_StayWithinTheLimits) { Checks::ExpectClean("many ids", kManyIds); }

TEST(StartModel, RandomRuns_WithEverythingAtOnce) {
  const StartBounds wild{.ids = 4,
                         .sends = 60,
                         .doubles = 20,
                         .deaths = 3,
                         .seconds = 60,
                         .others = 10,
                         .attaches = 30};
  Checks::ExpectCleanAtRandom(wild, 3, 2000, 400);
}

// The bounds at which the fault shows; the whole protocol is clean at all of them (above).
StartBounds BoundsFor(StartRule rule) {
  switch (rule) {
    case StartRule::kCallersIncarnation:
    case StartRule::kAttachNamesItsIncarnation:
      return kReplaced;
    case StartRule::kFullRefusesNewOnes:
      return kManyIds;
    default:
      return kOneAgent;
  }
}

class StartRules : public ::testing::TestWithParam<int> {};

TEST_P(StartRules, SwitchedOff_IsNoticed) {
  const StartRule rule = static_cast<StartRule>(GetParam());
  Checks::ExpectNoticed(BoundsFor(rule), rule);
}

INSTANTIATE_TEST_SUITE_P(EachRule, StartRules, ::testing::Range(1, kStartRules));

}  // namespace
}  // namespace sandbroker::model
