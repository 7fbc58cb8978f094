#include "lib/broker/core/acquire_once.h"

#include <gtest/gtest.h>

namespace sandbroker::broker {
namespace {

using std::chrono::seconds;
using Step = AcquireOnce::Step;
using Wrote = AcquireOnce::Wrote;
using Failure = AcquireOnce::Failure;

const WallTime kNow{std::chrono::hours(9)};
const std::string kBody(64, 'a');

Receipt Record(Receipt::State state, const std::string& token, const std::string& uid = "") {
  return {state, kBody, token, "other", kNow + seconds(10), uid};
}

class AcquireOnceTest : public ::testing::Test {
 protected:
  void Read(const std::optional<Receipt>& found) {
    call_.OnRead(found, kNow, false, "fresh" + std::to_string(++made_));
  }
  // Up to the write that binds "mine".
  void TakeAndGetSandbox() {
    Read(std::nullopt);
    call_.OnWrote(Wrote::kYes);
    ASSERT_EQ(call_.step(), Step::kAcquire);
    call_.OnSandbox("mine", "t-bound");
    ASSERT_EQ(call_.step(), Step::kSwap);
  }
  AcquireOnce call_{kBody, "me", seconds(60)};
  int made_ = 0;
};

TEST_F(AcquireOnceTest, NothingThere_CreatesTakesBindsAnswers) {
  EXPECT_EQ(call_.step(), Step::kRead);
  Read(std::nullopt);
  EXPECT_EQ(call_.step(), Step::kCreate);
  EXPECT_EQ(call_.record().state, Receipt::State::kPending);
  EXPECT_EQ(call_.record().deadline, kNow + seconds(60));
  EXPECT_EQ(call_.record().owner, "me");
  call_.OnWrote(Wrote::kYes);
  EXPECT_EQ(call_.step(), Step::kAcquire);
  call_.OnSandbox("mine", "t2");
  EXPECT_EQ(call_.step(), Step::kSwap);
  EXPECT_EQ(call_.expected(), "fresh1");
  EXPECT_EQ(call_.record().state, Receipt::State::kBound);
  EXPECT_EQ(call_.record().uid, "mine");
  EXPECT_EQ(call_.record().token, "t2");
  call_.OnWrote(Wrote::kYes);
  EXPECT_EQ(call_.step(), Step::kAnswer);
}

TEST_F(AcquireOnceTest, BoundRecord_IsRepeated) {
  Read(Record(Receipt::State::kBound, "t", "theirs"));
  EXPECT_EQ(call_.step(), Step::kRepeat);
  EXPECT_EQ(call_.uid(), "theirs");
}

TEST_F(AcquireOnceTest, PendingOfAnother_IsWaitedForAndOpenIsTaken) {
  Read(Record(Receipt::State::kPending, "t"));
  EXPECT_EQ(call_.step(), Step::kWait);
  call_.OnWoken();
  EXPECT_EQ(call_.step(), Step::kRead);
  Read(Record(Receipt::State::kOpen, "t2"));
  EXPECT_EQ(call_.step(), Step::kSwap);
  EXPECT_EQ(call_.expected(), "t2");
  call_.OnWrote(Wrote::kNo);  // another was faster
  EXPECT_EQ(call_.step(), Step::kRead);
  EXPECT_TRUE(call_.meeting());
}

TEST_F(AcquireOnceTest, TakenOver_UsesWhatWasClaimedUnderIt) {
  Read(Record(Receipt::State::kOpen, "t"));
  call_.OnWrote(Wrote::kYes);
  EXPECT_EQ(call_.step(), Step::kAdopt);
  EXPECT_EQ(call_.token(), "fresh1");
  AcquireOnce alone = call_;
  alone.OnNothing();
  EXPECT_EQ(alone.step(), Step::kAcquire);
  call_.OnSandbox("left", "t2");
  EXPECT_EQ(call_.step(), Step::kSwap);
  EXPECT_EQ(call_.record().uid, "left");
}

TEST_F(AcquireOnceTest, NoSandbox_OpensTheReceiptAndFailsHoweverThatWent) {
  for (const Wrote wrote : {Wrote::kYes, Wrote::kNo, Wrote::kUnknown}) {
    AcquireOnce call(kBody, "me", seconds(60));
    call.OnRead(std::nullopt, kNow, false, "t1");
    call.OnWrote(Wrote::kYes);
    call.OnFailed("", "t2");
    EXPECT_EQ(call.step(), Step::kSwap);
    EXPECT_EQ(call.expected(), "t1");
    EXPECT_EQ(call.record().state, Receipt::State::kOpen);
    call.OnWrote(wrote);
    EXPECT_EQ(call.step(), Step::kFail);
    EXPECT_EQ(call.failure(), Failure::kNoSandbox);
  }
}

TEST_F(AcquireOnceTest, SandboxThatCannotBeUsed_IsDestroyedOnlyOnceTheReceiptIsOpen) {
  for (const Wrote wrote : {Wrote::kYes, Wrote::kNo, Wrote::kUnknown}) {
    AcquireOnce call(kBody, "me", seconds(60));
    call.OnRead(std::nullopt, kNow, false, "t1");
    call.OnWrote(Wrote::kYes);
    call.OnFailed("mine", "t2");
    EXPECT_EQ(call.step(), Step::kSwap);
    call.OnWrote(wrote);
    if (wrote == Wrote::kYes) {
      EXPECT_EQ(call.step(), Step::kDestroy);
      EXPECT_EQ(call.own(), "mine");
      EXPECT_EQ(call.token(), "t1");
      call.OnDestroyed();
    }
    EXPECT_EQ(call.step(), Step::kFail);
    EXPECT_EQ(call.failure(), Failure::kNoSandbox);
  }
}

TEST_F(AcquireOnceTest, CreateOfUnknownOutcome_IsFoundAgainOrRepeatedUnderItsToken) {
  Read(std::nullopt);
  const Receipt first = call_.record();
  call_.OnWrote(Wrote::kUnknown);
  EXPECT_EQ(call_.step(), Step::kRead);
  EXPECT_FALSE(call_.meeting());
  AcquireOnce found = call_;
  found.OnRead(first, kNow, false, "other");
  EXPECT_EQ(found.step(), Step::kAcquire);
  Read(std::nullopt);
  EXPECT_EQ(call_.step(), Step::kCreate);
  EXPECT_EQ(call_.record().token, first.token);
  call_.OnWrote(Wrote::kUnknown);  // twice: not again
  EXPECT_EQ(call_.failure(), Failure::kStore);
}

TEST_F(AcquireOnceTest, BindRefused_AnswersWithWhatIsBoundAndGivesItsOwnBack) {
  TakeAndGetSandbox();
  call_.OnWrote(Wrote::kNo);
  EXPECT_EQ(call_.step(), Step::kRead);
  Read(Record(Receipt::State::kBound, "t", "theirs"));
  EXPECT_EQ(call_.step(), Step::kDestroy);
  EXPECT_EQ(call_.own(), "mine");
  call_.OnDestroyed();
  EXPECT_EQ(call_.step(), Step::kRepeat);
  EXPECT_EQ(call_.uid(), "theirs");
}

TEST_F(AcquireOnceTest, BindOfUnknownOutcomeThatLanded_AnswersWithItsOwn) {
  TakeAndGetSandbox();
  const Receipt written = call_.record();
  call_.OnWrote(Wrote::kUnknown);
  Read(written);
  EXPECT_EQ(call_.step(), Step::kAnswer);
}

TEST_F(AcquireOnceTest, BindOfUnknownOutcomeStillPending_IsShutOutBeforeTheSandboxIsDestroyed) {
  TakeAndGetSandbox();
  call_.OnWrote(Wrote::kUnknown);
  Receipt pending = Record(Receipt::State::kPending, "fresh1");
  Read(pending);
  EXPECT_EQ(call_.step(), Step::kSwap);
  EXPECT_EQ(call_.expected(), "fresh1");
  EXPECT_EQ(call_.record().state, Receipt::State::kOpen);
  AcquireOnce landed = call_;
  call_.OnWrote(Wrote::kYes);
  EXPECT_EQ(call_.step(), Step::kDestroy);
  call_.OnDestroyed();
  EXPECT_EQ(call_.failure(), Failure::kLost);
  // The binding got there first: the record names the sandbox, which must live.
  AcquireOnce unknown = landed;
  landed.OnWrote(Wrote::kNo);
  EXPECT_EQ(landed.step(), Step::kRead);
  landed.OnRead(Record(Receipt::State::kBound, "t-bound", "mine"), kNow, false, "t");
  EXPECT_EQ(landed.step(), Step::kAnswer);
  unknown.OnWrote(Wrote::kUnknown);
  EXPECT_EQ(unknown.step(), Step::kFail);
  EXPECT_EQ(unknown.failure(), Failure::kLost);
}

TEST_F(AcquireOnceTest, UnreadableRecord_NeverCostsASandboxThatItMayName) {
  AcquireOnce meeting = call_;
  meeting.OnUnreadable();
  EXPECT_EQ(meeting.failure(), Failure::kStore);
  TakeAndGetSandbox();
  call_.OnWrote(Wrote::kUnknown);
  call_.OnUnreadable();
  EXPECT_EQ(call_.step(), Step::kFail);
  EXPECT_EQ(call_.failure(), Failure::kLost);
}

// The other may have put its token on this very sandbox.
TEST_F(AcquireOnceTest, TakenOverAndNotBoundYet_KeepsItsHandsOff) {
  TakeAndGetSandbox();
  call_.OnWrote(Wrote::kNo);
  Read(Record(Receipt::State::kPending, "theirs"));
  EXPECT_EQ(call_.step(), Step::kFail);
  EXPECT_EQ(call_.failure(), Failure::kLost);
}

}  // namespace
}  // namespace sandbroker::broker
