#include "lib/kube/watch_machine.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>
#include <utility>
#include <vector>

namespace sandbroker::kube {
namespace {

namespace json = boost::json;
using Kind = WatchMachine::Action::Kind;
using NewsKind = WatchMachine::News::Kind;
using End = WatchMachine::End;
using std::chrono::milliseconds;
using std::chrono::seconds;

json::object Object(const std::string& name, int version, const std::string& uid = "u") {
  return {{"metadata",
           {{"name", name},
            {"namespace", "ns"},
            {"uid", uid + name},
            {"resourceVersion", std::to_string(version)},
            {"managedFields", json::array{1, 2}}}}};
}

json::object Event(const char* type, json::object object) {
  return {{"type", type}, {"object", std::move(object)}};
}

json::object Bookmark(int version) {
  return Event("BOOKMARK", {{"metadata", {{"resourceVersion", std::to_string(version)}}}});
}

json::object Expired() {
  return Event("ERROR", {{"kind", "Status"}, {"code", 410}, {"message", "too old"}});
}

Result Listed(int version, json::array items) {
  Result result;
  result.outcome = Outcome::kDone;
  result.http_status = 200;
  result.object = {{"kind", "ThingList"},
                   {"apiVersion", "v1"},
                   {"metadata", {{"resourceVersion", std::to_string(version)}}},
                   {"items", std::move(items)}};
  return result;
}

Result Refused(int status) {
  Result result;
  result.outcome = Outcome::kRefused;
  result.http_status = status;
  result.message = "no";
  return result;
}

Result Opened() {
  Result result;
  result.outcome = Outcome::kDone;
  result.http_status = 200;
  return result;
}

Result Unreachable() { return {}; }

// "+a1 -b2 synced stale", in order.
std::string Say(const std::vector<WatchMachine::News>& news) {
  std::string text;
  for (const auto& one : news) {
    if (!text.empty()) text += " ";
    if (one.kind == NewsKind::kSynced) text += "synced";
    if (one.kind == NewsKind::kStale) text += "stale";
    if (one.object.empty()) continue;
    const json::object& metadata = one.object.at("metadata").as_object();
    EXPECT_FALSE(metadata.contains("managedFields"));
    text += one.kind == NewsKind::kObject ? "+" : "-";
    text += metadata.at("name").as_string().c_str();
    text += metadata.at("resourceVersion").as_string().c_str();
  }
  return text;
}

class WatchMachineTest : public ::testing::Test {
 protected:
  std::string List(int version, json::array items) {
    EXPECT_EQ(machine_.Next().kind, Kind::kList);
    return Say(machine_.OnList(Listed(version, std::move(items))));
  }
  // Opens the watch from that version.
  std::string Open(const std::string& version) {
    const auto action = machine_.Next();
    EXPECT_EQ(action.kind, Kind::kWatch);
    EXPECT_EQ(action.resource_version, version);
    return Say(machine_.OnWatch(Opened(), now_));
  }
  std::string On(json::object event) {
    over_ = false;
    return Say(machine_.OnEvent(std::move(event), &over_));
  }
  std::string Closes(End end, Duration after) {
    now_ += after;
    return Say(machine_.OnWatchEnd(end, "why", now_));
  }
  Duration Waits() {
    const auto action = machine_.Next();
    EXPECT_EQ(action.kind, Kind::kWait);
    return action.delay;
  }

  Time now_{};
  bool over_ = false;
  WatchMachine machine_{WatchSettings(), [] { return 0.0; }};
};

TEST_F(WatchMachineTest, ListThenWatch_TellsAllThenSyncedThenChanges) {
  EXPECT_EQ(List(9, {Object("a", 1), Object("b", 2)}), "+a1 +b2 synced");
  EXPECT_TRUE(machine_.synced());
  EXPECT_EQ(Open("9"), "");
  EXPECT_EQ(On(Event("ADDED", Object("c", 10))), "+c10");
  EXPECT_EQ(On(Event("MODIFIED", Object("a", 11))), "+a11");
  EXPECT_EQ(On(Event("DELETED", Object("b", 12))), "-b12");
  EXPECT_FALSE(over_);
  EXPECT_EQ(machine_.objects(), 2u);
}

TEST_F(WatchMachineTest, ListItems_GetTheKindThatOnlyTheListNames) {
  const auto news = machine_.OnList(Listed(1, {Object("a", 1)}));
  ASSERT_FALSE(news.empty());
  EXPECT_EQ(news[0].object.at("kind"), "Thing");
  EXPECT_EQ(news[0].object.at("apiVersion"), "v1");
}

TEST_F(WatchMachineTest, SameVersion_IsNotToldTwice) {
  List(9, {Object("a", 1)});
  Open("9");
  EXPECT_EQ(On(Event("MODIFIED", Object("a", 1))), "");
  EXPECT_EQ(On(Event("DELETED", Object("unknown", 10))), "");
}

TEST_F(WatchMachineTest, CleanEnd_GoesOnFromTheLastVersion_AlsoFromABookmarks) {
  List(9, {});
  Open("9");
  EXPECT_EQ(On(Event("ADDED", Object("a", 12))), "+a12");
  EXPECT_EQ(Closes(End::kClean, seconds(90)), "");
  Open("12");
  EXPECT_EQ(On(Bookmark(40)), "");
  EXPECT_EQ(Closes(End::kClean, seconds(90)), "");
  EXPECT_EQ(Open("40"), "");
}

TEST_F(WatchMachineTest, CutAfterAWhile_IsResumedAtOnce_AndStaleOnlyIfThatFails) {
  List(9, {});
  Open("9");
  EXPECT_EQ(Closes(End::kCut, seconds(5)), "");
  EXPECT_EQ(machine_.Next().kind, Kind::kWatch);
  EXPECT_EQ(Say(machine_.OnWatch(Unreachable(), now_)), "stale");
  EXPECT_FALSE(machine_.synced());
  EXPECT_EQ(Waits(), milliseconds(50));
  EXPECT_EQ(Say(machine_.OnWatch(Unreachable(), now_)), "");  // once
  EXPECT_EQ(Waits(), milliseconds(100));
  EXPECT_EQ(Open("9"), "synced");
}

TEST_F(WatchMachineTest, WatchesThatEndAtOnce_AreOpenedWithPauses) {
  List(9, {});
  Duration last{};
  for (int i = 0; i < 20; ++i) {
    Open("9");
    EXPECT_EQ(Closes(End::kClean, milliseconds(1)), "");
    const Duration wait = Waits();
    EXPECT_GE(wait, last);
    last = wait;
  }
  EXPECT_EQ(last, seconds(5));  // half of the longest: no jitter here
  Open("9");
  EXPECT_EQ(Closes(End::kCut, milliseconds(1)), "stale");
}

TEST_F(WatchMachineTest, Silence_IsStaleAtOnce_AndOverWithTheNextWatch) {
  List(9, {});
  Open("9");
  EXPECT_EQ(Closes(End::kSilent, seconds(100)), "stale");
  EXPECT_EQ(Open("9"), "synced");
}

TEST_F(WatchMachineTest, Gone_ByStatusOrByEvent_ListsAgainAndTellsTheDifference) {
  for (const bool by_event : {false, true}) {
    WatchMachine machine{WatchSettings(), [] { return 0.0; }};
    Say(machine.OnList(Listed(9, {Object("a", 1), Object("b", 2), Object("c", 3)})));
    machine.Next();
    if (by_event) {
      Say(machine.OnWatch(Opened(), now_));
      EXPECT_EQ(Say(machine.OnEvent(Expired(), &over_)), "");
      EXPECT_TRUE(over_);
    } else {
      EXPECT_EQ(Say(machine.OnWatch(Refused(410), now_)), "");
    }
    EXPECT_EQ(machine.Next().kind, Kind::kList);
    // a is as it was, b is gone, c is another one of that name, d is new.
    EXPECT_EQ(Say(machine.OnList(
                  Listed(50, {Object("a", 1), Object("c", 30, "other"), Object("d", 31)}))),
              "-b2 -c3 +c30 +d31");
    EXPECT_EQ(machine.Next().resource_version, "50");
  }
}

TEST_F(WatchMachineTest, GoneAgainAndAgain_IsAFailureWithPauses) {
  List(9, {});
  Open("9");
  EXPECT_EQ(On(Expired()), "");
  EXPECT_EQ(List(10, {}), "");
  Open("10");
  EXPECT_EQ(On(Expired()), "stale");
  EXPECT_GT(Waits(), Duration(0));
  EXPECT_EQ(List(11, {}), "synced");
  Open("11");
  EXPECT_EQ(On(Event("ADDED", Object("a", 12))), "+a12");
  EXPECT_EQ(On(Expired()), "");
}

TEST_F(WatchMachineTest, OtherErrorEvent_IsStaleAndListsAgain) {
  List(9, {});
  Open("9");
  EXPECT_EQ(On(Event("ERROR", {{"code", 500}, {"message", "boom"}})), "stale");
  EXPECT_TRUE(over_);
  EXPECT_GT(Waits(), Duration(0));
  EXPECT_EQ(List(10, {}), "synced");
}

TEST_F(WatchMachineTest, ListThatFails_IsToldOnce_AndTriedAgainWithGrowingPauses) {
  EXPECT_EQ(machine_.Next().kind, Kind::kList);
  EXPECT_EQ(Say(machine_.OnList(Refused(403))), "stale");
  EXPECT_EQ(Waits(), milliseconds(50));
  EXPECT_EQ(Say(machine_.OnList(Unreachable())), "");
  EXPECT_EQ(Waits(), milliseconds(100));
  Result busy = Refused(429);
  busy.retry_after = seconds(3);
  machine_.Next();
  EXPECT_EQ(Say(machine_.OnList(busy)), "");
  EXPECT_EQ(Waits(), milliseconds(3200));
  EXPECT_EQ(List(1, {Object("a", 1)}), "+a1 synced");
}

TEST_F(WatchMachineTest, ListThatIsNone_IsAFailure) {
  Result odd = Listed(1, {});
  odd.object.erase("items");
  EXPECT_EQ(Say(machine_.OnList(odd)), "stale");
  odd = Listed(1, {});
  odd.object.erase("metadata");
  EXPECT_EQ(Say(machine_.OnList(odd)), "");
  EXPECT_FALSE(machine_.synced());
}

TEST_F(WatchMachineTest, WatchRefused_IsStale_AndTheVersionIsKept) {
  List(9, {Object("a", 1)});
  machine_.Next();
  EXPECT_EQ(Say(machine_.OnWatch(Refused(403), now_)), "stale");
  EXPECT_EQ(Waits(), milliseconds(50));
  EXPECT_EQ(Open("9"), "synced");
}

TEST_F(WatchMachineTest, EventsThatCanNotBeUnderstood_EndTheWatchAndListAgain) {
  const std::vector<json::object> odd = {
      {},
      {{"type", "ADDED"}},
      {{"type", "ADDED"}, {"object", 5}},
      {{"type", 5}, {"object", Object("a", 1)}},
      Event("ADDED", {{"metadata", 5}}),
      Event("ADDED", {{"metadata", {{"name", "a"}}}}),
      Event("ADDED", {{"metadata", {{"resourceVersion", "5"}}}}),
      Event("BOOKMARK", {}),
  };
  for (const json::object& event : odd) {
    WatchMachine machine{WatchSettings(), [] { return 0.0; }};
    machine.OnList(Listed(9, {}));
    machine.Next();
    machine.OnWatch(Opened(), now_);
    const std::string said = Say(machine.OnEvent(event, &over_));
    if (event.contains("type") && event.at("type") == 5) continue;  // a kind yet to be invented
    EXPECT_EQ(said, "stale");
    EXPECT_TRUE(over_);
    EXPECT_EQ(machine.Next().kind, Kind::kWait);
    EXPECT_EQ(machine.Next().kind, Kind::kList);
  }
}

TEST_F(WatchMachineTest, OneNameTwice_TheOldOneIsGoneBeforeTheNewOneIsThere) {
  List(9, {Object("a", 1)});
  Open("9");
  EXPECT_EQ(On(Event("ADDED", Object("a", 10, "new"))), "-a1 +a10");
  EXPECT_EQ(On(Event("DELETED", Object("a", 11, "u"))), "");  // told late, of the old one
  EXPECT_EQ(On(Event("DELETED", Object("a", 11, "new"))), "-a11");
}

}  // namespace
}  // namespace sandbroker::kube
