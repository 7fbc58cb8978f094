// Neither replica takes back what the other renewed, and each goes on when the other has died.
#include "tests/component/replicas_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::AcquireSpec;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_F(BrokerReplicas, RenewalOnOne_HoldsOnTheOther) {
  const std::string handle = AcquireHandle(*a_, Short());
  scheduler_.Advance(seconds(30));
  ASSERT_TRUE(Renew(*b_, handle).ok());
  EXPECT_EQ(Expiry(*a_, handle), Expiry(*b_, handle));
  scheduler_.Advance(seconds(35));  // the first end is long past
  EXPECT_EQ(truth_.live(), 1u);
  EXPECT_EQ(a_->backend.rereads() + b_->backend.rereads(), 0u);
}

TEST_F(BrokerReplicas, RenewalThatWasNotSeen_IsFoundByTheLook) {
  a_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_, Short());
  scheduler_.Advance(seconds(30));
  ASSERT_TRUE(Renew(*b_, handle).ok());  // until 70 s
  scheduler_.Advance(seconds(20));       // A has looked
  EXPECT_EQ(a_->backend.rereads(), 1u);
  EXPECT_EQ(truth_.live(), 1u);
  EXPECT_EQ(Expiry(*a_, handle), Expiry(*b_, handle));
}

// Between the read and the delete another replica renews: the delete is refused, and a call that
// came meanwhile has heard nothing wrong.
TEST_F(BrokerReplicas, RenewalBetweenTheReadAndTheDelete_WinsAndCallsWaitForThat) {
  Kill(&b_);
  const std::string handle = AcquireHandle(*a_, Short());
  a_->backend.lags = true;
  a_->backend.hold_releases = true;
  scheduler_.Advance(seconds(49));
  ASSERT_TRUE(a_->broker->Unsettled(me_, handle));
  const auto call = Begin(a_->broker->Settle(me_, handle, CancelToken()));
  EXPECT_FALSE(call->has_value());
  b_ = Make("b");
  ASSERT_TRUE(Renew(*b_, handle).ok());
  a_->backend.Resume();
  scheduler_.RunPosted();
  ASSERT_TRUE(call->has_value());
  EXPECT_TRUE((**call).ok());
  EXPECT_EQ(a_->backend.refused_releases(), 1u);
  EXPECT_EQ(a_->broker->Get(me_, handle)->state, broker::SandboxState::kReady);
  EXPECT_EQ(Expiry(*a_, handle), Expiry(*b_, handle));
  EXPECT_FALSE(truth_.object("uid-1")->claim->outage_ttl);
}

TEST_F(BrokerReplicas, BothLookAtOnce_OneDeletesAndBothSayWhy) {
  const std::string handle = AcquireHandle(*a_, Short());
  a_->backend.hold_releases = true;
  b_->backend.hold_releases = true;
  scheduler_.Advance(seconds(49));
  EXPECT_EQ(truth_.live(), 1u);
  a_->backend.Resume();
  b_->backend.Resume();
  scheduler_.RunPosted();
  EXPECT_EQ(truth_.deleted(), 1u);
  EXPECT_EQ(ReasonOf(Look(*a_, handle)), Reason::kLeaseExpired);
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kLeaseExpired);
}

TEST_F(BrokerReplicas, IdleSandbox_IsTakenBackByOneAndExpiredForBoth) {
  const std::string handle = AcquireHandle(*a_, Short());
  scheduler_.Advance(seconds(49));
  EXPECT_EQ(truth_.deleted(), 1u);
  EXPECT_EQ(a_->backend.rereads() + b_->backend.rereads(), 1u);
  EXPECT_EQ(ReasonOf(Look(*a_, handle)), Reason::kLeaseExpired);
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kLeaseExpired);
}

// Its link drops for a moment just when the others look: the agent knows of no reader then.
TEST_F(BrokerReplicas, OpenStream_KeepsTheLeaseAheadOfEveryLook) {
  AcquireSpec spec = Short();
  spec.lease.keep_while_running = false;
  const std::string handle = AcquireHandle(*a_, spec);
  RecordingObserver observer;
  Start(*b_, handle, &observer);
  b_->backend.link("uid-1")->streams().back()->SayReady();
  for (int i = 0; i < 10; ++i) scheduler_.Advance(seconds(31));
  EXPECT_EQ(truth_.live(), 1u);
  EXPECT_EQ(a_->backend.rereads() + b_->backend.rereads(), 0u);  // it never came to a look
  EXPECT_LE(truth_.object("uid-1")->version, 20u);               // a write in 2/3 of the ttl
  observer.execution->Detach(broker::Execution::Leave::kLost);
}

TEST_F(BrokerReplicas, RecordThatCannotBeRead_IsLookedAtAgain) {
  const std::string handle = AcquireHandle(*a_, Short());
  a_->backend.error = b_->backend.error = MakeError(Reason::kApiUnreachable, "no answer");
  scheduler_.Advance(minutes(2));
  EXPECT_EQ(truth_.live(), 1u);
  EXPECT_TRUE(Look(*a_, handle).ok());  // nobody has said that it is over
  a_->backend.error.reset();
  b_->backend.error.reset();
  scheduler_.Advance(minutes(2));
  EXPECT_EQ(truth_.live(), 0u);
}

TEST_F(BrokerReplicas, DeleteOfUnknownOutcome_IsTriedAgainAndNobodyHearsGoneBefore) {
  const std::string handle = AcquireHandle(*a_, Short());
  Kill(&b_);
  a_->backend.hold_releases = true;
  scheduler_.Advance(seconds(49));
  a_->backend.error = MakeError(Reason::kApiTimeout, "no answer");
  a_->backend.Resume();
  scheduler_.RunPosted();
  ASSERT_TRUE(a_->broker->Unsettled(me_, handle));
  const auto call = Begin(a_->broker->Settle(me_, handle, CancelToken()));
  EXPECT_FALSE(call->has_value());
  a_->backend.error.reset();
  scheduler_.Advance(seconds(6));
  ASSERT_TRUE(call->has_value());
  EXPECT_EQ(truth_.live(), 0u);
  EXPECT_EQ(ReasonOf(Look(*a_, handle)), Reason::kLeaseExpired);
}

TEST_F(BrokerReplicas, DeadReplicasSandboxes_AreServedAndTakenBackByTheOther) {
  const std::string handle = AcquireHandle(*a_, Short());
  RecordingObserver observer;
  Kill(&a_);
  Start(*b_, handle, &observer);
  b_->backend.link("uid-1")->streams().back()->SayReady();
  b_->backend.link("uid-1")->streams().back()->Exit(0);
  ASSERT_TRUE(observer.ended);
  scheduler_.Advance(minutes(2));
  EXPECT_EQ(truth_.live(), 0u);
}

TEST_F(BrokerReplicas, ReplicaThatComesLater_ServesWhatIsThere) {
  const std::string handle = AcquireHandle(*a_);
  const auto c = Make("c");
  EXPECT_TRUE(Look(*c, handle).ok());
  EXPECT_EQ(c->backend.seeks(), 1u);
}

TEST_F(BrokerReplicas, DeletedFromOutside_IsGoneAndNotExpired) {
  const std::string handle = AcquireHandle(*a_);
  truth_.DeleteFromOutside("uid-1");
  EXPECT_EQ(ReasonOf(Look(*a_, handle)), Reason::kSandboxGone);
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kSandboxGone);
}

}  // namespace
}  // namespace sandbroker::testing
