// What a caller hears of its execution while links drop, agents vanish and input waits.
#include "lib/base/status.h"
#include "tests/component/broker_fixture.h"

namespace sandbroker::testing {
namespace {

class BrokerRelay : public BrokerFixture {
 protected:
  // Drops the link and gives the broker another one to the same incarnation.
  void Relink() {
    const auto old = backend_.only_link();
    broker_.OnLinkLost("uid-1", absl::UnavailableError("dropped"));
    old->Close(absl::UnavailableError("dropped"));
    scheduler_.RunPosted();
    next_ = std::make_shared<FakeAgentLink>("boot-1");
    broker_.OnLinkRestored("uid-1", next_);
  }

  std::shared_ptr<FakeAgentLink> next_;
};

TEST_F(BrokerRelay, Output_ComesInOrderAndEndsOnce) {
  RecordingObserver observer;
  Start(AcquireHandle(), &observer);
  const auto stream = LastStream();
  EXPECT_EQ(stream->start().boot_id(), "boot-1");
  EXPECT_EQ(stream->start().spec_hash().size(), 32u);
  stream->SayReady();
  stream->Print(1, "hello ");
  stream->Print(2, "world");
  stream->Exit(3);
  EXPECT_EQ(observer.output, "hello world");
  ASSERT_TRUE(observer.ended);
  EXPECT_EQ(observer.ended->exited().code(), 3);
  // Whatever follows an end goes nowhere.
  stream->Reset("INTERNAL", "late");
  EXPECT_EQ(observer.last_words, 1);
}

TEST_F(BrokerRelay, Consumed_GivesCreditBackToTheAgent) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer);
  observer.execution = nullptr;  // consumed by hand
  const auto stream = LastStream();
  stream->SayReady();
  const uint64_t window = stream->credit();
  stream->Print(1, std::string(window, 'x'));
  EXPECT_EQ(stream->credit(), 0u);
  execution->Consumed(window);
  EXPECT_EQ(stream->credit(), window);
}

TEST_F(BrokerRelay, LinkDropped_GoesOnAtTheOffsetReached) {
  RecordingObserver observer;
  Start(AcquireHandle(), &observer);
  LastStream()->SayReady();
  LastStream()->Print(1, "abc");
  const uint64_t attempt = LastStream()->start().reader().attempt();
  Relink();
  ASSERT_EQ(next_->streams().size(), 1u);
  const auto& attach = next_->streams()[0]->open().attach();
  EXPECT_EQ(attach.execution_id(), "e1");
  EXPECT_EQ(attach.reader().offset(), 3u);
  EXPECT_EQ(attach.reader().attempt(), attempt + 1);
  EXPECT_EQ(observer.last_words, 0);
  agent::Event ready;
  ready.mutable_ready()->set_boot_id("boot-1");
  ready.mutable_ready()->set_start(0);
  ready.mutable_ready()->set_end(3);
  next_->streams()[0]->Say(ready);
  EXPECT_EQ(observer.readies, 1);  // the caller sees one stream
}

TEST_F(BrokerRelay, LinkDroppedBeforeReady_RepeatsTheSameStart) {
  RecordingObserver observer;
  Start(AcquireHandle(), &observer);
  const std::string hash = LastStream()->start().spec_hash();
  const uint64_t attempt = LastStream()->start().reader().attempt();
  Relink();
  ASSERT_EQ(next_->streams().size(), 1u);
  const agent::Start& again = next_->streams()[0]->start();
  EXPECT_EQ(again.execution_id(), "e1");
  EXPECT_EQ(again.spec_hash(), hash);
  EXPECT_EQ(again.reader().attempt(), attempt + 1);
}

TEST_F(BrokerRelay, InputUnderWayWhenTheLinkDrops_IsSentAgainFromWhatWasAccepted) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer, true);
  LastStream()->SayReady();
  LastStream()->GiveInputRoom(100);
  execution->WriteInput(0, SharedBytes::Copy("0123456789"));
  EXPECT_EQ(LastStream()->input(), "0123456789");
  execution->CloseInput(10);
  Relink();
  const auto stream = next_->streams()[0];
  agent::Event ready;
  ready.mutable_ready()->set_boot_id("boot-1");
  ready.mutable_ready()->set_input_accepted(4);
  stream->Say(ready);
  stream->GiveInputRoom(100);
  EXPECT_EQ(stream->input(), "456789");
  EXPECT_TRUE(stream->input_ended());
}

TEST_F(BrokerRelay, InputWithoutRoom_WaitsAndSignalsPassIt) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer, true);
  LastStream()->SayReady();
  execution->WriteInput(0, SharedBytes::Copy(std::string(1000, 'i')));
  EXPECT_EQ(execution->pending_input(), 1000u);
  execution->Signal(2);
  ASSERT_EQ(LastStream()->commands().size(), 1u);
  EXPECT_EQ(LastStream()->commands()[0].signal().number(), 2);
  LastStream()->GiveInputRoom(600);
  EXPECT_EQ(execution->pending_input(), 400u);
  LastStream()->GiveInputRoom(600);
  EXPECT_EQ(execution->pending_input(), 0u);
  EXPECT_EQ(LastStream()->input(), std::string(1000, 'i'));
}

// T25, T32, T50, T51: what is not known to have ended by itself never looks like it.
TEST_F(BrokerRelay, T50_AgentGone_EndsAsAgentLostWithOutputIncomplete) {
  RecordingObserver observer;
  Start(AcquireHandle(), &observer);
  LastStream()->SayReady();
  LastStream()->Print(1, "partial");
  backend_.Kill("uid-1", "killed");
  ASSERT_TRUE(observer.ended);
  EXPECT_TRUE(observer.ended->has_agent_lost());
  EXPECT_FALSE(observer.ended->output_complete());
  EXPECT_EQ(observer.ended->final_offset(), 7u);
}

// A repeated call must be newer than every re-attachment of the one before it.
TEST_F(BrokerRelay, NextTry_IsNewerThanAllReattachmentsOfTheLast) {
  RecordingObserver first;
  const std::string handle = AcquireHandle();
  Start(handle, &first);
  LastStream()->SayReady();
  Relink();
  const uint64_t reattached = next_->streams()[0]->open().attach().reader().attempt();
  RecordingObserver second;
  Start(handle, &second);
  EXPECT_GT(next_->streams()[1]->start().reader().attempt(), reattached);
}

TEST_F(BrokerRelay, CancelWhileTheLinkIsDown_ReachesTheAgentOverTheNext) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer);
  LastStream()->SayReady();
  const auto old = backend_.only_link();
  broker_.OnLinkLost("uid-1", absl::UnavailableError("dropped"));
  old->Close(absl::UnavailableError("dropped"));
  execution->Signal(10);
  execution->Cancel("caller", Duration(0));
  next_ = std::make_shared<FakeAgentLink>("boot-1");
  broker_.OnLinkRestored("uid-1", next_);
  agent::Event ready;
  ready.mutable_ready()->set_boot_id("boot-1");
  next_->streams()[0]->Say(ready);
  ASSERT_EQ(next_->streams()[0]->commands().size(), 2u);
  EXPECT_EQ(next_->streams()[0]->commands()[0].cancel().by(), "caller");
  EXPECT_EQ(next_->streams()[0]->commands()[1].signal().number(), 10);
}

TEST_F(BrokerRelay, UntakenOutput_UsesUpTheWindowOfTheNextLinkToo) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer);
  observer.execution = nullptr;  // takes nothing
  LastStream()->SayReady();
  const uint64_t window = LastStream()->credit();
  LastStream()->Print(1, std::string(window / 2, 'x'));
  Relink();
  EXPECT_EQ(next_->streams()[0]->credit(), window - window / 2);
  execution->Consumed(window / 2);
  EXPECT_EQ(next_->streams()[0]->credit(), window);
}

TEST_F(BrokerRelay, OutputThatSkipsBytes_IsAnErrorNeverAHole) {
  RecordingObserver observer;
  Start(AcquireHandle(), &observer);
  LastStream()->SayReady();
  agent::Event gap;
  gap.mutable_gap()->set_from(5);
  gap.mutable_gap()->set_to(9);
  LastStream()->Say(gap);
  ASSERT_TRUE(observer.failed);
  EXPECT_EQ(ReasonOf(*observer.failed), Reason::kAgentUnreachable);
}

TEST_F(BrokerRelay, Refusal_IsAFailureWithTheAgentsReason) {
  RecordingObserver observer;
  Start(AcquireHandle(), &observer);
  LastStream()->Reset("EXECUTION_ID_REUSED", "another spec");
  ASSERT_TRUE(observer.failed);
  EXPECT_EQ(ReasonOf(*observer.failed), Reason::kExecutionIdReused);
  EXPECT_EQ(observer.failed->code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(BrokerRelay, Detached_HearsNothingMoreAndTheAgentIsTold) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer);
  const auto stream = LastStream();
  stream->SayReady();
  execution->Detach(broker::Execution::Leave::kLost);
  scheduler_.RunPosted();
  EXPECT_TRUE(stream->left());
  EXPECT_EQ(observer.last_words, 0);
  execution->Detach(broker::Execution::Leave::kLost);  // twice is harmless
}

TEST_F(BrokerRelay, DetachedWhileItEnds_HearsNothing) {
  RecordingObserver observer;
  const auto execution = Start(AcquireHandle(), &observer);
  const auto stream = LastStream();
  stream->SayReady();
  execution->Detach(broker::Execution::Leave::kOnPurpose);
  stream->Exit(0);
  scheduler_.RunPosted();
  EXPECT_EQ(observer.last_words, 0);
}

TEST_F(BrokerRelay, StreamsPerSandbox_AreBounded) {
  const std::string handle = AcquireHandle();
  std::vector<std::unique_ptr<RecordingObserver>> observers;
  absl::Status refused;
  for (int i = 0; i < 1025; ++i) {
    observers.push_back(std::make_unique<RecordingObserver>());
    broker::StartSpec spec;
    spec.handle = handle;
    spec.start.add_argv("prog");
    refused = broker_.Start(me_, spec, observers.back().get()).status();
  }
  EXPECT_EQ(ReasonOf(refused), Reason::kCapacity);
}

}  // namespace
}  // namespace sandbroker::testing
