#include "lib/guest/core/execution_table.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::guest {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
const Time kStart = Time() + hours(1000);

class ExecutionTableTest : public ::testing::Test {
 protected:
  ExecutionTable::StartKey Key(const std::string& id, const std::string& hash = "h",
                               const std::string& boot = "boot") {
    return {id, hash, boot};
  }
  void Add(const std::string& id, bool keep = true) { table_.Add(Key(id), keep); }
  void End(const std::string& id, Time now) {
    table_.OnEnded(id, now);
    table_.SetDroppable(id, now);
  }
  Reason AdmitReason(const ExecutionTable::StartKey& key, Time now = kStart) {
    return ReasonOf(table_.Admit(key, now).status());
  }
  ExecutionTable table_{"boot", {3, 2, hours(24), minutes(10)}};
};

TEST_F(ExecutionTableTest, Start_RunsOnceAndIsMetAgain) {
  EXPECT_EQ(*table_.Admit(Key("e"), kStart), ExecutionTable::Admission::kCreate);
  Add("e");
  EXPECT_EQ(*table_.Admit(Key("e"), kStart), ExecutionTable::Admission::kAttach);
  End("e", kStart);
  EXPECT_EQ(*table_.Admit(Key("e"), kStart), ExecutionTable::Admission::kAttach);
  EXPECT_EQ(AdmitReason(Key("e", "other")), Reason::kExecutionIdReused);
}

TEST_F(ExecutionTableTest, OtherBootId_IsAnotherIncarnation) {
  EXPECT_EQ(AdmitReason(Key("e", "h", "old")), Reason::kIncarnationChanged);
  Add("e");
  EXPECT_EQ(ReasonOf(table_.Find("e", "old", kStart)), Reason::kIncarnationChanged);
  EXPECT_TRUE(table_.Find("e", "boot", kStart).ok());
  EXPECT_TRUE(table_.Find("e", "", kStart).ok());
  EXPECT_EQ(ReasonOf(table_.Find("x", "boot", kStart)), Reason::kExecutionNotFound);
}

TEST_F(ExecutionTableTest, Tombstone_RefusesForADayAndThenForgets) {
  Add("e");
  End("e", kStart);
  table_.Drop("e", kStart);
  EXPECT_EQ(AdmitReason(Key("e")), Reason::kExecutionExpired);
  EXPECT_EQ(ReasonOf(table_.Find("e", "boot", kStart + hours(23))), Reason::kExecutionExpired);
  EXPECT_EQ(*table_.Admit(Key("e"), kStart + hours(24)), ExecutionTable::Admission::kCreate);
  EXPECT_EQ(table_.tombstones(), 0u);
}

TEST_F(ExecutionTableTest, FullOfTombstones_RefusesNewStarts) {
  for (const char* id : {"a", "b"}) {
    Add(id);
    End(id, kStart);
    table_.Drop(id, kStart);
  }
  EXPECT_EQ(AdmitReason(Key("c")), Reason::kCapacity);
  EXPECT_EQ(AdmitReason(Key("a")), Reason::kExecutionExpired);
}

TEST_F(ExecutionTableTest, ThrowawayId_LeavesNoTombstone) {
  Add("e", false);
  End("e", kStart);
  table_.Drop("e", kStart);
  EXPECT_EQ(table_.tombstones(), 0u);
  EXPECT_EQ(ReasonOf(table_.Find("e", "boot", kStart)), Reason::kExecutionNotFound);
}

TEST_F(ExecutionTableTest, FullTable_RefusesUntilAVictimIsDropped) {
  for (const char* id : {"a", "b", "c"}) Add(id);
  EXPECT_EQ(AdmitReason(Key("d")), Reason::kCapacity);
  EXPECT_FALSE(table_.Victim(kStart));
  End("b", kStart);
  table_.SetDroppable("b", kNever);  // somebody attached
  EXPECT_FALSE(table_.Victim(kStart));
  table_.SetDroppable("b", kStart + minutes(1));
  EXPECT_FALSE(table_.Victim(kStart));
  EXPECT_EQ(table_.Victim(kStart + minutes(1)), "b");
  table_.Drop("b", kStart + minutes(1));
  EXPECT_EQ(*table_.Admit(Key("d"), kStart), ExecutionTable::Admission::kCreate);
}

TEST_F(ExecutionTableTest, Victim_NeverRuns) {
  Add("a");
  table_.SetDroppable("a", kStart);  // nobody attached, still running
  EXPECT_FALSE(table_.Victim(kStart));
  EXPECT_TRUE(table_.Expired(kStart + hours(1)).empty());
}

TEST_F(ExecutionTableTest, Retention_EndsTenMinutesAfterTheEnd) {
  Add("a");
  End("a", kStart);
  EXPECT_TRUE(table_.Expired(kStart + minutes(9)).empty());
  EXPECT_EQ(table_.Expired(kStart + minutes(10)), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace sandbroker::guest
