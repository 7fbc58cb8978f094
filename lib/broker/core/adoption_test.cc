#include "lib/broker/core/adoption.h"

#include <gtest/gtest.h>

namespace sandbroker::broker {
namespace {

constexpr RecordPhase kAll[] = {RecordPhase::kUnreadable, RecordPhase::kStarting,
                                RecordPhase::kWarm, RecordPhase::kClaimed};

TEST(Adoption, WhatDoesNotLive_IsRemovedWhateverTheRecordSays) {
  for (const RecordPhase phase : kAll) {
    EXPECT_EQ(DecideLeftover({phase, false, true, true}), LeftoverAction::kRemove);
  }
}

TEST(Adoption, WhatLivesWithoutAGoodRecord_IsEnded) {
  EXPECT_EQ(DecideLeftover({RecordPhase::kUnreadable, true, true, true}), LeftoverAction::kEnd);
  EXPECT_EQ(DecideLeftover({RecordPhase::kStarting, true, true, true}), LeftoverAction::kEnd);
}

TEST(Adoption, WarmOne_MustBeWhatThePoolMakesToday) {
  EXPECT_EQ(DecideLeftover({RecordPhase::kWarm, true, true, true}), LeftoverAction::kDial);
  EXPECT_EQ(DecideLeftover({RecordPhase::kWarm, true, true, false}), LeftoverAction::kEnd);
  EXPECT_EQ(DecideLeftover({RecordPhase::kWarm, true, false, true}), LeftoverAction::kEnd);
}

TEST(Adoption, ClaimedOne_StaysItsCallersAfterAChangeOfTheTemplate) {
  EXPECT_EQ(DecideLeftover({RecordPhase::kClaimed, true, true, false}), LeftoverAction::kDial);
  EXPECT_EQ(DecideLeftover({RecordPhase::kClaimed, true, false, true}), LeftoverAction::kEnd);
}

TEST(Adoption, OnlyAProof_MakesItOurs) {
  for (const RecordPhase phase : kAll) {
    EXPECT_EQ(DecideAdoption(phase, false), Adoption::kEnd);
  }
  EXPECT_EQ(DecideAdoption(RecordPhase::kWarm, true), Adoption::kToPool);
  EXPECT_EQ(DecideAdoption(RecordPhase::kClaimed, true), Adoption::kToBroker);
  EXPECT_EQ(DecideAdoption(RecordPhase::kStarting, true), Adoption::kEnd);
}

}  // namespace
}  // namespace sandbroker::broker
