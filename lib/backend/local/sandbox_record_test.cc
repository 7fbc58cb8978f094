#include "lib/backend/local/sandbox_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::local {
namespace {

using broker::RecordPhase;
using testing::HasSubstr;

constexpr char kUid[] = "00112233445566778899aabbccddeeff";

SandboxRecord Claimed() {
  SandboxRecord record;
  record.uid = kUid;
  record.pool = "default";
  record.phase = RecordPhase::kClaimed;
  record.host_uid = 2000017;
  record.made = "cafe";
  record.secret = std::string("\0\xff", 2) + std::string(30, 's');
  record.host = "boot/pid:[1]";
  record.boot_id = "fedcba9876543210";
  record.agent = {4711, 123456789};
  broker::Claim claim;
  claim.tenant = "tenant";
  claim.labels = {{"app", "ci"}, {"example.org/x", ""}};
  claim.lease.keep_while_running = false;
  claim.acquired = WallTime(std::chrono::seconds(1'700'000'000));
  claim.until = claim.acquired + std::chrono::minutes(13);
  claim.outage_ttl = true;
  claim.receipt = "r";
  claim.token = "t";
  record.claim = claim;
  return record;
}

std::string Why(const std::string& text) {
  const auto parsed = ParseRecord(text, kUid);
  return parsed.ok() ? "OK" : std::string(MessageOf(parsed.status()));
}

// The record with one piece of its text replaced.
std::string With(const std::string& from, const std::string& to) {
  std::string text = EncodeRecord(Claimed());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(SandboxRecord, Claimed_ComesBackWhole) {
  const SandboxRecord record = Claimed();
  const auto back = ParseRecord(EncodeRecord(record), kUid);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(EncodeRecord(*back), EncodeRecord(record));
  EXPECT_EQ(back->secret, record.secret);
  EXPECT_EQ(back->agent.start, record.agent.start);
  EXPECT_EQ(back->claim->labels, record.claim->labels);
  EXPECT_EQ(back->claim->until, record.claim->until);
  EXPECT_TRUE(back->claim->outage_ttl);
  EXPECT_FALSE(back->claim->lease.keep_while_running);
}

TEST(SandboxRecord, StartingAndWarm_CarryNoMoreThanIsKnown) {
  SandboxRecord record = Claimed();
  record.phase = RecordPhase::kWarm;
  EXPECT_FALSE(ParseRecord(EncodeRecord(record), kUid)->claim);
  record.phase = RecordPhase::kStarting;
  const auto starting = ParseRecord(EncodeRecord(record), kUid);
  ASSERT_TRUE(starting.ok());
  EXPECT_EQ(starting->agent.pid, 0);
  EXPECT_EQ(starting->boot_id, "");
  EXPECT_EQ(starting->host_uid, record.host_uid);
}

TEST(SandboxRecord, Damage_IsToldByName) {
  EXPECT_THAT(Why(""), HasSubstr("not a JSON object"));
  EXPECT_THAT(Why("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(Why(EncodeRecord(Claimed()).substr(0, 100)), HasSubstr("not a JSON object"));
  EXPECT_THAT(Why(std::string(kMaxRecordBytes + 1, ' ')), HasSubstr("too large"));
  EXPECT_THAT(Why(std::string(5000, '[')), HasSubstr("not a JSON object"));
  EXPECT_THAT(Why(With("\"version\":1", "\"version\":2")), HasSubstr("'version'"));
  EXPECT_THAT(Why(With("\"phase\":\"claimed\"", "\"phase\":\"lost\"")), HasSubstr("'phase'"));
  EXPECT_THAT(Why(With(kUid, "another")), HasSubstr("'uid'"));
  EXPECT_THAT(Why(With("\"claim\"", "\"blame\"")), HasSubstr("'claim'"));
  EXPECT_THAT(Why(With("\"agent_pid\":4711", "\"agent_pid\":-1")), HasSubstr("'agent_pid'"));
  EXPECT_THAT(Why(With("\"ttl_ns\":600000000000", "\"ttl_ns\":9000000000000000000")),
              HasSubstr("'ttl_ns'"));
  EXPECT_THAT(Why(With("\"app\"", "\"a b\"")), HasSubstr("'labels'"));
  EXPECT_THAT(Why(With("\"outage_ttl\":true", "\"outage_ttl\":1")), HasSubstr("'outage_ttl'"));
}

}  // namespace
}  // namespace sandbroker::local
