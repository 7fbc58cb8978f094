// Every handle is good on either replica, and a repeated request meets the other's sandbox.
#include "tests/component/replicas_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::AcquireSpec;
using broker::Receipt;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_F(BrokerReplicas, HandleOfTheOther_IsServedFromWhatItSaw) {
  AcquireSpec spec;
  spec.labels = {{"app", "ci"}};
  const std::string handle = AcquireHandle(*a_, spec);
  EXPECT_FALSE(b_->broker->Unsettled(me_, handle));
  const auto view = b_->broker->Get(me_, handle);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->handle, handle);  // the same on either
  EXPECT_EQ(view->labels, spec.labels);
  EXPECT_EQ(b_->backend.seeks(), 0u);
  EXPECT_EQ(ReasonOf(b_->broker->Get(other_, handle).status()), Reason::kSandboxNotFound);
}

TEST_F(BrokerReplicas, HandleThatIsNotSeenYet_IsSoughtOnce) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_);
  EXPECT_TRUE(b_->broker->Unsettled(me_, handle));
  EXPECT_TRUE(Look(*b_, handle).ok());
  EXPECT_EQ(b_->backend.seeks(), 1u);
  EXPECT_TRUE(Look(*b_, handle).ok());
  EXPECT_EQ(b_->backend.seeks(), 1u);
  b_->backend.Follow();  // what it sees late does no harm
  EXPECT_EQ(b_->broker->List(me_, {}, 10, "")->sandboxes.size(), 1u);
}

TEST_F(BrokerReplicas, HandleOfAGoneSandbox_IsSoughtOnceAndThenGone) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_);
  ASSERT_TRUE(Get(a_->broker->Release(me_, handle)).ok());
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kSandboxGone);
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kSandboxGone);
  EXPECT_EQ(b_->backend.seeks(), 1u);
}

TEST_F(BrokerReplicas, HandleOfAnotherSpace_IsNotFoundAndNotSought) {
  const std::string handle = broker::EncodeHandle(
      {me_.tenant, 't', "elsewhere", "sb-1", "uid-1", "x"}, Settings().handle_key);
  EXPECT_FALSE(b_->broker->Unsettled(me_, handle));
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kSandboxNotFound);
  EXPECT_EQ(b_->backend.seeks(), 0u);
}

TEST_F(BrokerReplicas, CallsOnOneUnknownHandle_ShareOneSeek) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_);
  b_->backend.hold_seeks = true;
  const auto first = Begin(b_->broker->Settle(me_, handle, CancelToken()));
  const auto second = Begin(b_->broker->Settle(me_, handle, CancelToken()));
  const auto renewal = Begin(b_->broker->Renew(me_, {handle}));
  EXPECT_FALSE(first->has_value());
  b_->backend.Resume();
  scheduler_.RunPosted();
  ASSERT_TRUE(first->has_value() && second->has_value() && renewal->has_value());
  EXPECT_TRUE((**renewal)[0].status.ok());
  EXPECT_EQ(b_->backend.seeks(), 1u);
}

TEST_F(BrokerReplicas, Seek_IsGivenUpByItsCallerAndByItsBound) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_);
  b_->backend.hold_seeks = true;
  CancelSource caller;
  const auto left = Begin(b_->broker->Settle(me_, handle, caller.token()));
  const auto stayed = Begin(b_->broker->Settle(me_, handle, CancelToken()));
  caller.Cancel();
  scheduler_.RunPosted();
  ASSERT_TRUE(left->has_value());
  EXPECT_EQ(ReasonOf(**left), Reason::kCancelled);
  EXPECT_FALSE(stayed->has_value());
  scheduler_.Advance(seconds(10));
  ASSERT_TRUE(stayed->has_value());
  EXPECT_EQ(ReasonOf(**stayed), Reason::kApiTimeout);  // never "gone"
  b_->backend.Resume();
  EXPECT_TRUE(Look(*b_, handle).ok());
  EXPECT_EQ(b_->backend.seeks(), 1u);
}

TEST_F(BrokerReplicas, SeekThatFails_IsTheBackendsErrorAndNotGone) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_);
  b_->backend.error = MakeError(Reason::kApiUnreachable, "no answer");
  EXPECT_EQ(ReasonOf(Look(*b_, handle)), Reason::kApiUnreachable);
  EXPECT_EQ(ReasonOf(Renew(*b_, handle)), Reason::kApiUnreachable);
  EXPECT_EQ(ReasonOf(Get(b_->broker->Release(me_, handle)).status()), Reason::kApiUnreachable);
  b_->backend.error.reset();
  EXPECT_TRUE(Look(*b_, handle).ok());
}

TEST_F(BrokerReplicas, SandboxOfTheOther_IsReleasedForBoth) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_);
  const auto released = Get(b_->broker->Release(me_, handle));
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_FALSE(released->already_gone);
  EXPECT_EQ(truth_.live(), 0u);
  EXPECT_EQ(ReasonOf(Look(*a_, handle)), Reason::kSandboxGone);
}

TEST_F(BrokerReplicas, ReleaseThatFailed_IsDoneByTheNextOne) {
  const std::string handle = AcquireHandle(*a_);
  a_->backend.error = MakeError(Reason::kApiTimeout, "no answer");
  EXPECT_EQ(ReasonOf(Get(a_->broker->Release(me_, handle)).status()), Reason::kApiTimeout);
  a_->backend.error.reset();
  const auto released = Get(a_->broker->Release(me_, handle));
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_FALSE(released->already_gone);
  EXPECT_EQ(truth_.live(), 0u);
}

TEST_F(BrokerReplicas, ProgramInASandboxTheOtherReleases_EndsAsSandboxGone) {
  const std::string handle = AcquireHandle(*a_);
  RecordingObserver observer;
  Start(*b_, handle, &observer);
  b_->backend.link("uid-1")->streams().back()->SayReady();
  ASSERT_TRUE(Get(a_->broker->Release(me_, handle)).ok());
  ASSERT_TRUE(observer.ended);
  EXPECT_TRUE(observer.ended->has_sandbox_gone());
}

// T81, two replicas: the same request on the other meets the first one's sandbox.
TEST_F(BrokerReplicas, T81_RepeatedRequest_MeetsTheOthersSandbox) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_, Short("r1"));
  const auto again = Acquire(*b_, Short("r1"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sandbox.handle, handle);
  EXPECT_EQ(again->source, broker::Source::kRepeated);
  EXPECT_EQ(truth_.made(), 1u);
  ASSERT_TRUE(Get(a_->broker->Release(me_, handle)).ok());
  b_->backend.Follow();
  EXPECT_EQ(ReasonOf(Acquire(*b_, Short("r1")).status()), Reason::kSandboxGone);
  EXPECT_EQ(truth_.made(), 1u);
}

TEST_F(BrokerReplicas, T81_RepeatedRequestThatCannotBeLookedUp_IsNotCalledGone) {
  b_->backend.lags = true;
  AcquireHandle(*a_, Short("r1"));
  b_->backend.error = MakeError(Reason::kApiUnreachable, "no answer");
  EXPECT_EQ(ReasonOf(Acquire(*b_, Short("r1")).status()), Reason::kApiUnreachable);
  EXPECT_EQ(truth_.made(), 1u);
}

// A died between its claim and its binding; B has not seen the claim yet.
TEST_F(BrokerReplicas, T81_RequestOfADeadReplica_TakesOverTheSandboxItHadClaimed) {
  b_->backend.lags = true;
  AcquireSpec spec = Short("r1");
  spec.env.push_back({"A", "b"});
  const std::string handle = AcquireHandle(*a_, spec);
  Receipt& receipt = receipts_.all().begin()->second;
  receipt.state = Receipt::State::kPending;
  receipt.owner = "dead";
  receipt.uid.clear();
  const std::string before = truth_.object("uid-1")->claim->token;
  Kill(&a_);
  const auto acquired = Acquire(*b_, spec);
  ASSERT_TRUE(acquired.ok()) << acquired.status();
  EXPECT_EQ(acquired->source, broker::Source::kAdopted);
  EXPECT_EQ(acquired->sandbox.handle, handle);
  EXPECT_EQ(truth_.made(), 1u);
  EXPECT_NE(truth_.object("uid-1")->claim->token, before);
  EXPECT_EQ(b_->backend.link("uid-1")->bound_env().size(), 1u);
}

// A hangs with its sandbox claimed; B takes both over, and A keeps its hands off.
TEST_F(BrokerReplicas, Restamp_IsSeenByTheReplicaThatHangs) {
  a_->backend.lags = true;
  AcquireSpec spec = Short("r1");
  spec.lease.ttl = minutes(10);
  receipts_.on_write = [this](const Receipt& receipt) {
    // A's binding is of unknown outcome and does not land; B's is made.
    return receipt.state == Receipt::State::kBound && receipt.owner == "a"
               ? absl::UnavailableError("no answer")
               : absl::OkStatus();
  };
  receipts_.read_error = std::nullopt;
  a_->backend.hold_writes = true;
  const auto first = Begin(a_->broker->Acquire(me_, spec, CancelToken()));
  EXPECT_FALSE(first->has_value());
  a_->backend.Resume();
  receipts_.all().begin()->second.owner = "dead";  // as B sees it
  scheduler_.RunPosted();
  ASSERT_TRUE(first->has_value());
  const auto second = Acquire(*b_, spec);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_LE(truth_.live(), 2u);
  EXPECT_NE(truth_.object(truth_.made() == 1 ? "uid-1" : "uid-2"), nullptr);
}

TEST_F(BrokerReplicas, OwnSandboxThatAnotherHasRestamped_IsNotDestroyed) {
  AcquireSpec spec = Short("r1");
  spec.lease.ttl = minutes(10);
  spec.env.push_back({"A", "b"});
  a_->backend.lags = true;
  const auto link_of_a = [this] { return a_->backend.link("uid-1"); };
  a_->backend.hold_writes = true;
  CancelSource caller;
  const auto first = Begin(a_->broker->Acquire(me_, spec, caller.token()));
  link_of_a()->hold_binds = true;
  a_->backend.Resume();
  scheduler_.RunPosted();  // its claim stands, its env is being bound
  EXPECT_FALSE(first->has_value());
  receipts_.all().begin()->second.owner = "dead";
  const auto second = Acquire(*b_, spec);
  ASSERT_TRUE(second.ok()) << second.status();
  caller.Cancel();
  link_of_a()->AnswerBinds(absl::UnavailableError("too late"));
  scheduler_.RunPosted();
  ASSERT_TRUE(first->has_value());
  EXPECT_FALSE((*first)->ok());
  EXPECT_EQ(truth_.live(), 1u);
  EXPECT_TRUE(Look(*b_, second->sandbox.handle).ok());
}

// A receipt is bound to a sandbox that this replica has not seen: that is no reason to end it.
TEST_F(BrokerReplicas, Sweep_EndsNoReceiptOfASandboxItHasNotSeen) {
  b_->backend.lags = true;
  const std::string handle = AcquireHandle(*a_, WithId("r1"));
  b_->broker->StartSweeping();
  scheduler_.RunPosted();
  EXPECT_EQ(receipts_.all().begin()->second.state, Receipt::State::kBound);
  ASSERT_TRUE(Get(a_->broker->Release(me_, handle)).ok());
  b_->backend.Follow();
  scheduler_.Advance(hours(1) + seconds(1));
  EXPECT_EQ(receipts_.all().begin()->second.state, Receipt::State::kEnded);
  b_->broker->Drain();
}

TEST_F(BrokerReplicas, SweepThatCannotLook_EndsNothing) {
  b_->backend.lags = true;
  AcquireHandle(*a_, WithId("r1"));
  b_->backend.error = MakeError(Reason::kApiUnreachable, "no answer");
  b_->broker->StartSweeping();
  scheduler_.RunPosted();
  EXPECT_EQ(receipts_.all().begin()->second.state, Receipt::State::kBound);
  b_->broker->Drain();
}

}  // namespace
}  // namespace sandbroker::testing
