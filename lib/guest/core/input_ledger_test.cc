#include "lib/guest/core/input_ledger.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::guest {
namespace {

class InputLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { epoch_ = *ledger_.Attach("a", 1); }
  Reason DataReason(uint64_t offset, uint64_t size) {
    return ReasonOf(ledger_.OnData(epoch_, offset, size).status());
  }
  InputLedger ledger_{true};
  uint64_t epoch_ = 0;
};

TEST_F(InputLedgerTest, Data_AtTheOffsetIsTakenRepeatsAreNot) {
  EXPECT_EQ(*ledger_.OnData(epoch_, 0, 10), 0u);
  EXPECT_EQ(ledger_.accepted(), 10u);
  EXPECT_EQ(*ledger_.OnData(epoch_, 0, 10), 10u);
  EXPECT_EQ(*ledger_.OnData(epoch_, 3, 2), 2u);
  EXPECT_EQ(*ledger_.OnData(epoch_, 8, 5), 2u);  // straddles: the tail is written
  EXPECT_EQ(ledger_.accepted(), 13u);
}

TEST_F(InputLedgerTest, Data_AboveTheOffsetIsAGap) {
  EXPECT_EQ(DataReason(1, 1), Reason::kInputGap);
  EXPECT_EQ(ledger_.OnData(epoch_, 1, 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ledger_.accepted(), 0u);
}

TEST_F(InputLedgerTest, OlderEpoch_IsTakenOver) {
  ASSERT_TRUE(ledger_.OnData(epoch_, 0, 4).ok());
  const auto next = ledger_.Attach("b", 1);
  EXPECT_EQ(*next, epoch_ + 1);
  EXPECT_EQ(DataReason(4, 1), Reason::kTakenOver);
  EXPECT_EQ(ReasonOf(ledger_.OnCloseInput(epoch_, 4).status()), Reason::kTakenOver);
  EXPECT_EQ(*ledger_.OnData(*next, 4, 1), 0u);
}

TEST_F(InputLedgerTest, SameHoldersOlderAttempt_IsRefused) {
  EXPECT_EQ(ReasonOf(ledger_.Attach("a", 1).status()), Reason::kAttemptStale);
  EXPECT_EQ(*ledger_.Attach("a", 2), epoch_ + 1);
}

TEST_F(InputLedgerTest, End_MayBeRepeatedAndNothingGoesBeyondIt) {
  ASSERT_TRUE(ledger_.OnData(epoch_, 0, 4).ok());
  EXPECT_EQ(ledger_.OnCloseInput(epoch_, 3).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(ledger_.OnCloseInput(epoch_, 5).status()), Reason::kInputGap);
  EXPECT_TRUE(*ledger_.OnCloseInput(epoch_, 4));
  EXPECT_FALSE(*ledger_.OnCloseInput(epoch_, 4));
  EXPECT_TRUE(ledger_.closed());
  EXPECT_EQ(*ledger_.OnData(epoch_, 0, 4), 4u);
  EXPECT_EQ(ledger_.OnData(epoch_, 4, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ledger_.OnData(epoch_, 2, 4).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InputLedgerTest, ProgramThatClosedItsStdin_SwallowsTheRest) {
  ASSERT_TRUE(ledger_.OnData(epoch_, 0, 4).ok());
  EXPECT_TRUE(ledger_.OnProgramClosed());
  EXPECT_FALSE(ledger_.OnProgramClosed());
  // Frames that were under way fit no offset any more, and are no gap.
  EXPECT_EQ(*ledger_.OnData(epoch_, 4, 6), 6u);
  EXPECT_EQ(*ledger_.OnData(epoch_, 10, 6), 6u);
  EXPECT_EQ(ledger_.accepted(), 4u);
  EXPECT_FALSE(*ledger_.OnCloseInput(epoch_, 16));
}

TEST(InputLedger, NoStdin_IsClosedFromTheBeginning) {
  InputLedger ledger(false);
  EXPECT_TRUE(ledger.closed());
  const uint64_t epoch = *ledger.Attach("a", 1);
  EXPECT_EQ(*ledger.OnData(epoch, 0, 3), 3u);
  EXPECT_EQ(ledger.accepted(), 0u);
}

TEST(InputLedger, BeforeAnyWriter_NothingIsTaken) {
  InputLedger ledger(true);
  EXPECT_EQ(ReasonOf(ledger.OnData(0, 0, 1).status()), Reason::kTakenOver);
}

}  // namespace
}  // namespace sandbroker::guest
