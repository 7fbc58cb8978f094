// What a watcher of sandboxes is told of a Broker's: the snapshot, its end, every change, and why
// it ends.
#include <deque>

#include "lib/base/status.h"
#include "tests/component/broker_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::AcquireSpec;
using broker::Watch;
using broker::WatchEvent;
using Kind = broker::WatchEvent::Kind;
using std::chrono::minutes;
using std::chrono::seconds;

class Watcher final : public broker::WatchObserver {
 public:
  void OnNews() override {
    while (takes) {
      const auto event = watch->Next();
      if (!event) return;
      events.push_back(*event);
    }
  }
  void OnWatchEnded(const absl::Status& why) override { ended = why; }

  // Of the events since the last call.
  std::vector<Kind> Kinds() {
    std::vector<Kind> kinds;
    for (const WatchEvent& event : events) kinds.push_back(event.kind);
    last = events;
    events.clear();
    return kinds;
  }

  std::unique_ptr<Watch> watch;
  bool takes = true;
  std::vector<WatchEvent> events;
  std::vector<WatchEvent> last;
  std::optional<absl::Status> ended;
};

class BrokerWatch : public BrokerFixture {
 protected:
  void Begin(Watcher* watcher, const std::string& selector = "") {
    auto watch =
        broker_.WatchSandboxes(me_, *LabelSelector::Parse(selector, "label_selector"), watcher);
    ASSERT_TRUE(watch.ok()) << watch.status();
    watcher->watch = *std::move(watch);
    watcher->OnNews();
  }
  static AcquireSpec Labelled(const std::string& app) {
    AcquireSpec spec;
    spec.labels["app"] = app;
    return spec;
  }
};

TEST_F(BrokerWatch, Snapshot_IsWhatListAnswers) {
  const std::string first = AcquireHandle();
  scheduler_.Advance(seconds(1));
  const std::string second = AcquireHandle();
  Watcher watcher;
  Begin(&watcher);
  EXPECT_EQ(watcher.Kinds(), (std::vector{Kind::kAdded, Kind::kAdded, Kind::kSynced}));
  EXPECT_EQ(watcher.last[0].sandbox.handle, first);
  EXPECT_EQ(watcher.last[1].sandbox.handle, second);
}

TEST_F(BrokerWatch, AcquireAndRelease_AreAddedAndRemoved) {
  Watcher watcher;
  Begin(&watcher);
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kSynced});
  const std::string handle = AcquireHandle();
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kAdded});
  EXPECT_EQ(watcher.last[0].sandbox.state, broker::SandboxState::kReady);
  ASSERT_TRUE(Get(broker_.Release(me_, handle)).ok());
  scheduler_.RunPosted();
  ASSERT_EQ(watcher.Kinds().back(), Kind::kRemoved);
  EXPECT_EQ(watcher.last.back().removal.handle, handle);
  EXPECT_EQ(watcher.last.back().removal.reason, Reason::kSandboxGone);
  EXPECT_EQ(watcher.last.back().removal.cause, "released");
}

TEST_F(BrokerWatch, SandboxThatIsNotHandedOutYet_IsNotTold) {
  Watcher watcher;
  Begin(&watcher);
  watcher.Kinds();
  backend_.hold_remembering = true;
  const auto acquire = BrokerFixture::Begin(broker_.Acquire(me_, {}, CancelToken()));
  EXPECT_TRUE(watcher.Kinds().empty());
  backend_.FinishRemembering();
  scheduler_.RunPosted();
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kAdded});
}

TEST_F(BrokerWatch, LinkAndLease_AreChanges) {
  const std::string handle = AcquireHandle();
  Watcher watcher;
  Begin(&watcher);
  watcher.Kinds();
  broker_.OnLinkLost("uid-1", absl::UnavailableError("silent"));
  scheduler_.RunPosted();
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kModified});
  EXPECT_EQ(watcher.last[0].sandbox.state, broker::SandboxState::kUnreachable);
  broker_.OnLinkRestored("uid-1", backend_.only_link());
  scheduler_.RunPosted();
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kModified});
  scheduler_.Advance(minutes(5));
  EXPECT_TRUE(watcher.Kinds().empty());  // time alone is no change
  Get(broker_.Renew(me_, {handle}));
  scheduler_.RunPosted();
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kModified});
  EXPECT_EQ(watcher.last[0].sandbox.lease.expire, broker_.Get(me_, handle)->lease.expire);
}

TEST_F(BrokerWatch, EndOfTheLease_IsToldAsSuch) {
  AcquireSpec spec;
  spec.lease.ttl = seconds(30);
  AcquireHandle(spec);
  Watcher watcher;
  Begin(&watcher);
  scheduler_.Advance(minutes(2));
  ASSERT_EQ(watcher.Kinds().back(), Kind::kRemoved);
  EXPECT_EQ(watcher.last.back().removal.reason, Reason::kLeaseExpired);
}

TEST_F(BrokerWatch, TellsOnlyOfItsTenantAndItsLabels) {
  AcquireHandle(Labelled("ci"));
  Watcher watcher;
  Begin(&watcher, "app=ci");
  EXPECT_EQ(watcher.Kinds(), (std::vector{Kind::kAdded, Kind::kSynced}));
  AcquireHandle(Labelled("web"));
  ASSERT_TRUE(Get(broker_.Acquire(other_, Labelled("ci"), CancelToken())).ok());
  EXPECT_TRUE(watcher.Kinds().empty());
  AcquireHandle(Labelled("ci"));
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kAdded});
}

TEST_F(BrokerWatch, SlowWatcher_SeesTheNewestStateOnce) {
  const std::string handle = AcquireHandle();
  Watcher watcher;
  Begin(&watcher);
  watcher.Kinds();
  watcher.takes = false;
  for (int i = 0; i < 5000; ++i) {
    broker_.OnLinkLost("uid-1", absl::UnavailableError("silent"));
    broker_.OnLinkRestored("uid-1", backend_.only_link());
    scheduler_.RunPosted();
  }
  broker_.OnLinkLost("uid-1", absl::UnavailableError("silent"));
  scheduler_.RunPosted();
  watcher.takes = true;
  watcher.OnNews();
  EXPECT_EQ(watcher.Kinds(), std::vector{Kind::kModified});
  EXPECT_EQ(watcher.last[0].sandbox.state, broker::SandboxState::kUnreachable);
}

TEST_F(BrokerWatch, WatcherTooSlowForWhatChanges_IsToldToWatchAgain) {
  Watcher watcher;
  Begin(&watcher);
  watcher.takes = false;
  for (int i = 0; i < 5000 && !watcher.ended; ++i) {
    ASSERT_TRUE(Get(broker_.Release(me_, AcquireHandle())).ok());
  }
  ASSERT_TRUE(watcher.ended);
  EXPECT_EQ(ReasonOf(*watcher.ended), Reason::kCapacity);
  EXPECT_FALSE(watcher.watch->Next());
  Watcher again;
  Begin(&again);
  EXPECT_EQ(again.Kinds(), std::vector{Kind::kSynced});
}

TEST_F(BrokerWatch, Watchers_AreBounded) {
  std::deque<Watcher> watchers(Settings().max_watches);
  for (Watcher& watcher : watchers) Begin(&watcher);
  Watcher more;
  EXPECT_EQ(ReasonOf(broker_.WatchSandboxes(me_, {}, &more).status()), Reason::kCapacity);
  EXPECT_NE(metrics_.Render().find("sandbroker_watchers 128"), std::string::npos);
  watchers.pop_back();
  Begin(&more);
  more.watch.reset();
  watchers.clear();
  EXPECT_NE(metrics_.Render().find("sandbroker_watchers 0"), std::string::npos);
}

TEST_F(BrokerWatch, Drain_EndsThem) {
  AcquireHandle();
  Watcher watcher;
  Begin(&watcher);
  watcher.Kinds();
  broker_.Drain();
  scheduler_.RunPosted();
  ASSERT_TRUE(watcher.ended);
  EXPECT_EQ(ReasonOf(*watcher.ended), Reason::kServerDraining);
  EXPECT_EQ(ReasonOf(broker_.WatchSandboxes(me_, {}, &watcher).status()), Reason::kServerDraining);
  broker_.LetGo();
  EXPECT_TRUE(watcher.Kinds().empty());
}

}  // namespace
}  // namespace sandbroker::testing
