// Protocol D: every interleaving at small bounds, long random runs, and each rule of the table
// switched off once, to show that the model would notice.
#include "tests/model/start_model.h"

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

const StartBounds kOneAgent{.ids = 1, .sends = 4, .doubles = 1, .seconds = 6, .others = 1};
const StartBounds kTwoIds{.ids = 2, .sends = 3, .doubles = 1, .seconds = 2, .attaches = 0};
const StartBounds kReplaced{.ids = 1, .sends = 3, .doubles = 1, .deaths = 2, .seconds = 3};
const StartBounds kManyIds{.ids = 4, .sends = 4, .doubles = 0, .seconds = 1, .attaches = 0};

Explored All(const StartBounds& bounds, StartRule off = StartRule::kNone) {
  return Explorer<StartModel>().Everything(StartModel(bounds, off));
}

void ExpectClean(const char* what, const StartBounds& bounds) {
  const Explored explored = All(bounds);
  Print(what, explored);
  EXPECT_TRUE(explored.complete);
  EXPECT_EQ(explored.violation, "") << explored.Text();
}

TEST(StartModel, OneAgent_MessagesDelayedDoubledAndLost) {
  ExpectClean("one agent", kOneAgent);
  ExpectClean("two ids", kTwoIds);
}

TEST(StartModel, AgentReplaced_NothingRunsTwice) { ExpectClean("replaced", kReplaced); }

TEST(StartModel, ManyIds_StayWithinTheLimits) { ExpectClean("many ids", kManyIds); }

TEST(StartModel, RandomRuns_WithEverythingAtOnce) {
  const StartBounds wild{.ids = 4,
                         .sends = 60,
                         .doubles = 20,
                         .deaths = 3,
                         .seconds = 60,
                         .others = 10,
                         .attaches = 30};
  const auto explored =
      Explorer<StartModel>().Walk(StartModel(wild, StartRule::kNone), 3, 2000, 400);
  Print("random", explored);
  EXPECT_EQ(explored.violation, "") << explored.Text();
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
  const Explored explored = All(BoundsFor(rule), rule);
  EXPECT_NE(explored.violation, "") << RuleName(rule) << ": nothing depends on it";
  std::printf("without '%s': %s, after %zu actions\n", RuleName(rule), explored.violation.c_str(),
              explored.trace.size());
}

INSTANTIATE_TEST_SUITE_P(EachRule, StartRules, ::testing::Range(1, kStartRules));

}  // namespace
}  // namespace sandbroker::model
