// Protocol C: every interleaving at small bounds, long random runs, and each rule of the table
// switched off once, to show that the model would notice.
#include "tests/model/lease_model.h"

#include <gtest/gtest.h>

#include "tests/model/model_checks.h"

namespace sandbroker::model {
namespace {

using Checks = ModelChecks<LeaseModel, LeaseBounds, LeaseRule>;

TEST(LeaseModel, OneBroker_CallsProgramsAndStreams) {
  Checks::ExpectClean("one broker", {.calls = 2, .drops = 1, .programs = 1, .streams = 1});
  Checks::ExpectClean("writes that fail",
                      {.calls = 1, .drops = 1, .failures = 1, .programs = 1, .streams = 1});
}

TEST(LeaseModel, OneBroker_DiesAndReturns) {
  Checks::ExpectClean("outages", {.lifetime = 13, .calls = 1, .crashes = 2, .failures = 1});
  Checks::ExpectClean("outages, programs",
                      {.lifetime = 12, .crashes = 2, .programs = 1, .streams = 1});
}

TEST(LeaseModel, OneBroker_WithoutKeepWhileRunning) {
  Checks::ExpectClean(
      "keep_while_running off",
      {.keep_while_running = false, .calls = 1, .drops = 1, .programs = 1, .streams = 1});
}

TEST(LeaseModel, ThreeReplicas_WithClocksThatDiffer) {
  Checks::ExpectClean("three replicas",
                      {.replicas = 3, .lifetime = 7, .skew = true, .calls = 2, .crashes = 1});
  Checks::ExpectClean("three replicas, streams",
                      {.replicas = 3, .lifetime = 6, .skew = true, .drops = 1, .streams = 1});
  Checks::ExpectClean("three replicas, a stream nobody else can see", {.replicas = 3,
                                                                       .lifetime = 7,
                                                                       .keep_while_running = false,
                                                                       .skew = true,
                                                                       .drops = 1,
                                                                       .streams = 1});
}

TEST(LeaseModel, RandomRuns_WithEverythingAtOnce) {
  LeaseBounds wild{.replicas = 1,
                   .lifetime = 40,
                   .calls = 12,
                   .crashes = 5,
                   .drops = 5,
                   .failures = 1,
                   .programs = 4,
                   .streams = 4};
  for (const int replicas : {1, 3}) {
    wild.replicas = replicas;
    wild.skew = replicas > 1;
    Checks::ExpectCleanAtRandom(wild, 5, 2500, 500);
  }
}

// The bounds at which the fault shows; the whole protocol is clean at all of them (above).
LeaseBounds BoundsFor(LeaseRule rule) {
  switch (rule) {
    case LeaseRule::kWritesCompare:
    case LeaseRule::kDestroyCompares:
      return {.replicas = 3, .lifetime = 7, .skew = true, .calls = 2};
    case LeaseRule::kMarginForClocks:
      return {.replicas = 3, .lifetime = 7, .skew = true};
    case LeaseRule::kOthersStreamsAreBusy:
      return {.replicas = 3, .lifetime = 8, .skew = true, .failures = 1, .streams = 1};
    case LeaseRule::kOwnStreamsKeepAhead:
      return {.replicas = 3, .lifetime = 7, .skew = true, .drops = 1, .streams = 1};
    case LeaseRule::kThinLeaseIsWrittenFirst:
      return {.replicas = 3, .lifetime = 6, .skew = true, .streams = 1};
    case LeaseRule::kActivitySinceTheLookCounts:
      return {.calls = 1, .failures = 1, .streams = 1};
    case LeaseRule::kOutageGivesATtl:
    case LeaseRule::kOutageOnce:
    case LeaseRule::kActivityClearsTheMark:
    case LeaseRule::kAgentKnowsTheBackstop:
      return {.lifetime = 13, .calls = 1, .crashes = 2};
    default:
      return {.calls = 2, .drops = 1, .programs = 1, .streams = 1};
  }
}

class LeaseRules : public ::testing::TestWithParam<int> {};

TEST_P(LeaseRules, SwitchedOff_IsNoticed) {
  const LeaseRule rule = static_cast<LeaseRule>(GetParam());
  Checks::ExpectNoticed(BoundsFor(rule), rule);
}

INSTANTIATE_TEST_SUITE_P(EachRule, LeaseRules, ::testing::Range(1, kLeaseRules));

}  // namespace
}  // namespace sandbroker::model
