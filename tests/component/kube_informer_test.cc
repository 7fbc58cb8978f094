// What the observer of an informer hears, whatever becomes of the watch.
#include "lib/kube/informer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "lib/kube/watch_lines.h"
#include "tests/component/kube_fixture.h"

namespace sandbroker::testing {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using What = Fault::What;

// Writes down what it hears: "+name", "-name", "synced", "stale".
class Recorder final : public kube::InformerObserver {
 public:
  void OnObject(const json::object& object) override { Note("+" + Name(object)); }
  void OnDeleted(const json::object& object) override { Note("-" + Name(object)); }
  void OnSynced() override { Note("synced"); }
  void OnStale(const std::string& why) override {
    Note("stale");
    const std::lock_guard lock(mutex_);
    why_ = why;
  }

  // Waits until that much was heard, and answers it; the rest is for the next call.
  std::vector<std::string> Take(size_t count) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, kBound, [&] { return heard_.size() >= count; });
    EXPECT_TRUE(there) << "heard " << heard_.size() << " of " << count;
    count = std::min(count, heard_.size());
    const auto end = heard_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<std::string> taken(heard_.begin(), end);
    heard_.erase(heard_.begin(), end);
    return taken;
  }
  bool nothing_more() {
    const std::lock_guard lock(mutex_);
    return heard_.empty();
  }
  std::string why() {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  static std::string Name(const json::object& object) { return TextAt(object, "metadata.name"); }
  void Note(std::string what) {
    const std::lock_guard lock(mutex_);
    heard_.push_back(std::move(what));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
  std::string why_;
};

class KubeInformerTest : public KubeFixture {
 protected:
  KubeInformerTest() {
    settings_.first_delay = std::chrono::milliseconds(2);
    settings_.max_delay = std::chrono::milliseconds(20);
  }
  ~KubeInformerTest() override { Stop(); }

  void Start(const std::string& labels = "") {
    OnLoop([&] {
      informer_ = std::make_unique<kube::Informer>(*client_, *scope_, kPods, kSpace, labels,
                                                   settings_, &recorder_);
      informer_->Start();
    });
  }
  // Started, with nothing there, and its watch open.
  void StartEmpty() {
    Start();
    EXPECT_THAT(recorder_.Take(1), ElementsAre("synced"));
    ASSERT_TRUE(server_.AwaitWatches("pods", 1));
  }
  // And joined.
  void Stop() {
    if (!informer_) return;
    std::promise<void> joined;
    loop_.Post([&] {
      informer_->Stop();
      scope_->Join([&] { joined.set_value(); });
    });
    ASSERT_EQ(joined.get_future().wait_for(kBound), std::future_status::ready);
    OnLoop([this] { informer_.reset(); });
  }
  void Add(const std::string& name) { server_.Add(kPods, kSpace, Pod(name)); }
  void Touch(const std::string& name) {
    server_.Update(kPods, kSpace, name, [](json::object& pod) { SetAt(pod, "spec.n", 2); });
  }

  kube::WatchSettings settings_;
  Recorder recorder_;
  std::unique_ptr<kube::Informer> informer_;
};

TEST_F(KubeInformerTest, ListThenChanges_InTheirOrder) {
  Add("a");
  Add("b");
  Start();
  EXPECT_THAT(recorder_.Take(3), ElementsAre("+a", "+b", "synced"));
  ASSERT_TRUE(server_.AwaitWatches("pods", 1));
  Add("c");
  Touch("a");
  server_.Remove(kPods, kSpace, "b");
  EXPECT_THAT(recorder_.Take(3), ElementsAre("+c", "+a", "-b"));
  const auto log = server_.log();
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[1].query.at("allowWatchBookmarks"), "true");
  EXPECT_EQ(log[1].query.at("timeoutSeconds"), "90");
  EXPECT_FALSE(log[1].query.at("resourceVersion").empty());
}

TEST_F(KubeInformerTest, Selector_ObjectThatStopsMatching_IsGone) {
  Add("a");
  Add("b");
  Start("app=a");
  EXPECT_THAT(recorder_.Take(2), ElementsAre("+a", "synced"));
  ASSERT_TRUE(server_.AwaitWatches("pods", 1));
  server_.Update(kPods, kSpace, "a",
                 [](json::object& pod) { SetAt(pod, "metadata.labels.app", "x"); });
  EXPECT_THAT(recorder_.Take(1), ElementsAre("-a"));
}

TEST_F(KubeInformerTest, WatchThatEndsOrIsCut_GoesOnWithoutALossAndWithoutAList) {
  StartEmpty();
  Add("a");
  EXPECT_THAT(recorder_.Take(1), ElementsAre("+a"));
  server_.EndWatches();
  ASSERT_TRUE(server_.AwaitCount("watch", "pods", 2));
  Add("b");
  EXPECT_THAT(recorder_.Take(1), ElementsAre("+b"));
  ASSERT_TRUE(server_.AwaitWatches("pods", 1));
  server_.CutWatches();
  Add("c");
  EXPECT_THAT(recorder_.Take(1), ElementsAre("+c"));
  EXPECT_EQ(server_.Count("list"), 1u);
  EXPECT_TRUE(recorder_.nothing_more());
}

TEST_F(KubeInformerTest, Bookmark_MovesTheVersionThatTheNextWatchStartsFrom) {
  StartEmpty();
  server_.Add(kLeases, kSpace, {{"metadata", {{"name", "other"}}}});  // moves the version on
  server_.SendBookmarks("pods");
  Add("a");
  EXPECT_THAT(recorder_.Take(1), ElementsAre("+a"));
  server_.Add(kLeases, kSpace, {{"metadata", {{"name", "one-more"}}}});
  server_.SendBookmarks("pods");
  Add("b");
  EXPECT_THAT(recorder_.Take(1), ElementsAre("+b"));
  server_.Compact();
  server_.EndWatches();
  ASSERT_TRUE(server_.AwaitCount("watch", "pods", 2));
  Add("c");
  EXPECT_THAT(recorder_.Take(1), ElementsAre("+c"));
  EXPECT_EQ(server_.Count("list"), 1u);
}

TEST_F(KubeInformerTest, VersionThatIsGone_ListsAgainAndTellsTheDifference) {
  Add("a");
  Add("b");
  Start();
  recorder_.Take(3);
  ASSERT_TRUE(server_.AwaitWatches("pods", 1));
  server_.MuteWatches("pods", true);
  server_.Remove(kPods, kSpace, "a");
  Touch("b");
  Add("c");
  server_.Compact();
  server_.MuteWatches("pods", false);  // it now says 410
  EXPECT_THAT(recorder_.Take(3), ElementsAre("-a", "+b", "+c"));
  EXPECT_EQ(server_.Count("list"), 2u);
}

TEST_F(KubeInformerTest, WatchRefusedWith410_ListsAgain) {
  server_.Script({.verb = "watch", .status = 410, .reason = "Expired"});
  StartEmpty();
  EXPECT_EQ(server_.Count("list"), 2u);
}

TEST_F(KubeInformerTest, SilentWatch_IsCutAndOpenedAgain) {
  settings_.timeout = Duration(0);
  settings_.silence_slack = std::chrono::milliseconds(100);
  server_.MuteWatches("pods", true);
  Start();
  EXPECT_THAT(recorder_.Take(3), ElementsAre("synced", "stale", "synced"));
  EXPECT_EQ(recorder_.why(), "watch: silent");
  EXPECT_GE(server_.Count("watch"), 2u);
}

TEST_F(KubeInformerTest, ServerThatGoesAway_IsStaleUntilItIsBack) {
  StartEmpty();
  server_.Down();
  EXPECT_THAT(recorder_.Take(1), ElementsAre("stale"));
  Add("a");
  server_.Up();
  EXPECT_THAT(recorder_.Take(2), ElementsAre("synced", "+a"));
  EXPECT_EQ(server_.Count("list"), 1u);
}

TEST_F(KubeInformerTest, Forbidden_IsStaleWithTheServersWords_AndOverWhenItIsAllowed) {
  server_.Script({.verb = "list",
                  .times = 2,
                  .status = 403,
                  .reason = "Forbidden",
                  .message = "pods is forbidden"});
  Start();
  EXPECT_THAT(recorder_.Take(2), ElementsAre("stale", "synced"));
  EXPECT_EQ(recorder_.why(), "list: HTTP status 403: pods is forbidden");
}

TEST_F(KubeInformerTest, HostileEvents_EndTheWatchAndListAgain) {
  StartEmpty();
  for (const std::string& bytes :
       {std::string("this is no JSON\n"), std::string("[1]\n"), std::string("{}\n"),
        std::string(200, '[') + "\n", "{\"x\":\"" + std::string(kube::kMaxWatchLine, 'x')}) {
    ASSERT_TRUE(server_.AwaitWatches("pods", 1));
    server_.SendOnWatches("pods", bytes);
    EXPECT_THAT(recorder_.Take(2), ElementsAre("stale", "synced")) << bytes.substr(0, 20);
  }
}

TEST_F(KubeInformerTest, TokenThatIsReplaced_IsReadAgainByTheWatch) {
  server_.SetToken("one");
  kube::Access access = server_.access();
  access.token_file = "/token";
  SetFile("/token", "one");
  Connect(access);
  StartEmpty();
  server_.SetToken("two");
  SetFile("/token", "two");
  server_.CutWatches();
  ASSERT_TRUE(server_.AwaitCount("watch", "pods", 3));
  Add("a");
  EXPECT_THAT(recorder_.Take(3), ElementsAre("stale", "synced", "+a"));
}

TEST_F(KubeInformerTest, StoppedWhileItLists_Waits_OrWatches_EndsSoonAndTellsNothing) {
  server_.Script({.verb = "list", .what = What::kHold});
  Start();
  ASSERT_TRUE(server_.AwaitHeld(1));
  Stop();
  server_.Release();
  EXPECT_TRUE(recorder_.nothing_more());
  settings_.first_delay = settings_.max_delay = std::chrono::hours(1);
  server_.Script({.verb = "list", .status = 403});
  Start();
  EXPECT_THAT(recorder_.Take(1), ElementsAre("stale"));
  Stop();
  server_.Script({.verb = "watch", .what = What::kHold});
  Start();
  EXPECT_THAT(recorder_.Take(1), ElementsAre("synced"));
  ASSERT_TRUE(server_.AwaitHeld(1));
  Stop();
  server_.Release();
  StartEmpty();
  Stop();
  Add("a");
  EXPECT_TRUE(recorder_.nothing_more());
}

}  // namespace
}  // namespace sandbroker::testing
