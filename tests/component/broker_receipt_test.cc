// What becomes of an acquire, and of a lease, whose record can't be written, or whose write nobody
// knows the outcome of.
#include "lib/base/status.h"
#include "tests/component/broker_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::AcquireSpec;
using broker::Receipt;
using std::chrono::minutes;
using std::chrono::seconds;

class BrokerReceipt : public BrokerFixture {
 protected:
  static AcquireSpec WithId(const std::string& id) {
    AcquireSpec spec;
    spec.request_id = id;
    spec.lease.ttl = seconds(30);  // until 40 s, look at 45 s
    return spec;
  }
  // Writes of that state answer with an error, whether they are made or not.
  void FailWritesOf(Receipt::State state, bool lands) {
    receipts_.lands = lands;
    receipts_.on_write = [state](const Receipt& receipt) {
      return receipt.state == state ? absl::UnavailableError("disk gone") : absl::OkStatus();
    };
  }
};

TEST_F(BrokerReceipt, BindingThatLandedWithoutAnAnswer_IsAnsweredWithItsSandbox) {
  FailWritesOf(Receipt::State::kBound, /*lands=*/true);
  const std::string handle = AcquireHandle(WithId("r1"));
  const auto again = Acquire(WithId("r1"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sandbox.handle, handle);
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerReceipt, BindingThatCouldNotBeWritten_LeavesNothingAndTheNextTryTakesOver) {
  FailWritesOf(Receipt::State::kBound, /*lands=*/false);
  EXPECT_EQ(ReasonOf(Acquire(WithId("r1")).status()), Reason::kNotReady);
  EXPECT_EQ(backend_.live(), 0u);
  receipts_.on_write = nullptr;
  EXPECT_TRUE(Acquire(WithId("r1")).ok());  // at once: nobody waits for the first one's deadline
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerReceipt, BindingOfUnknownOutcomeAndNoReading_IsLeftToItsLease) {
  receipts_.on_write = [this](const Receipt& receipt) {
    if (receipt.state != Receipt::State::kBound) return absl::OkStatus();
    receipts_.read_error = absl::UnavailableError("disk gone");
    return absl::UnavailableError("disk gone");
  };
  receipts_.lands = true;
  EXPECT_EQ(ReasonOf(Acquire(WithId("r1")).status()), Reason::kNotReady);
  EXPECT_EQ(backend_.live(), 1u);  // the record may name it
  receipts_.on_write = nullptr;
  receipts_.read_error.reset();
  EXPECT_TRUE(Acquire(WithId("r1")).ok());  // it does
  EXPECT_EQ(backend_.acquired(), 1u);
  scheduler_.Advance(minutes(2));
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerReceipt, ThatCanNeverBeWritten_IsTheStoresErrorAndTakesNothing) {
  int writes = 0;
  receipts_.on_write = [&writes](const Receipt&) {
    ++writes;
    return absl::ResourceExhaustedError("disk full");
  };
  EXPECT_EQ(Acquire(WithId("r1")).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(writes, 2);
  EXPECT_EQ(backend_.acquired(), 0u);
}

// The agent says idle of a moment before the stream; no write of the lease tells of it.
TEST_F(BrokerReceipt, StreamSinceTheAgentWasAsked_IsLookedAtAgainThoughNoLeaseCanBeWritten) {
  const std::string handle = AcquireHandle(WithId(""));
  const auto link = backend_.only_link();
  link->hold_queries = true;
  scheduler_.Advance(seconds(46));
  backend_.remember_error = absl::UnavailableError("disk full");
  RecordingObserver observer;
  Start(handle, &observer);
  scheduler_.RunPosted();  // its lease can't be written; it opens all the same
  LastStream()->SayReady();
  LastStream()->Exit(0);
  ASSERT_TRUE(observer.ended);
  link->report = agent::Report();
  link->AnswerQueries();
  scheduler_.RunPosted();
  EXPECT_EQ(backend_.live(), 1u);
  backend_.remember_error.reset();
  agent::Report busy;  // what the stream has left behind
  busy.set_running(1);
  link->report = busy;
  scheduler_.Advance(minutes(5));
  EXPECT_EQ(backend_.live(), 1u);
}

}  // namespace
}  // namespace sandbroker::testing
