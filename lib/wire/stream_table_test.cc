// The rules of a link's streams: direction, order, credit, and frames that cross an end.
#include "lib/wire/stream_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace sandbroker::wire {
namespace {

using ::testing::HasSubstr;
using Verdict = StreamTable::Verdict;

// A table and the frames of its peer.
struct Table {
  explicit Table(Side side, size_t max_streams = 4) : table(side, max_streams) {}

  absl::StatusOr<Verdict> Get(uint32_t stream, Kind kind, std::string_view payload = "") {
    return table.OnFrame(Frame{stream, kind, payload});
  }
  absl::StatusOr<Verdict> GetData(uint32_t stream, size_t size) {
    const DataHeader header = EncodeDataHeader(stream, 0, 1);
    const std::string payload =
        std::string(header.data() + kHeaderSize, kDataAddressSize) + std::string(size, 'd');
    return Get(stream, Kind::kData, payload);
  }
  absl::StatusOr<Verdict> GetNumber(uint32_t stream, Kind kind, uint64_t number) {
    const std::string message = EncodeNumber(stream, kind, number);
    return Get(stream, kind, std::string_view(message).substr(kHeaderSize));
  }

  StreamTable table;
};

void ExpectDelivered(const absl::StatusOr<Verdict>& verdict) {
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(*verdict, Verdict::kDeliver);
}

void ExpectIgnored(const absl::StatusOr<Verdict>& verdict) {
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(*verdict, Verdict::kIgnore);
}

void ExpectBroken(const absl::StatusOr<Verdict>& verdict, const std::string& words) {
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(verdict.status().message()), HasSubstr(words));
}

TEST(StreamTable, CreditThatCameWithTheOpenCountsLikeACreditFrame) {
  StreamTable table(Side::kBroker, 4);
  const uint32_t id = table.OpenStream();
  table.AllowSending(id, 100);
  EXPECT_EQ(table.SendRoom(id), 100u);
  table.AllowSending(id, 50);
  EXPECT_EQ(table.SendRoom(id), 100u) << "credit never shrinks";
  table.OnDataSent(id, 60);
  EXPECT_EQ(table.SendRoom(id), 40u);
  table.AllowSending(id + 1, 100);
  EXPECT_EQ(table.SendRoom(id + 1), 0u) << "a stream that is not open has none";
}

TEST(StreamTableBroker, OpenedStreams_GetGrowingIds) {
  Table broker(Side::kBroker);
  EXPECT_EQ(broker.table.OpenStream(), 1u);
  EXPECT_EQ(broker.table.OpenStream(), 2u);
  broker.table.CloseStream(2);
  EXPECT_EQ(broker.table.OpenStream(), 3u);
  EXPECT_EQ(broker.table.open_streams(), 2u);
  EXPECT_TRUE(broker.table.IsOpen(1));
  EXPECT_FALSE(broker.table.IsOpen(2));
}

TEST(StreamTableBroker, AgentsOpenAndAck_AreOfTheWrongSide) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  ExpectBroken(broker.Get(stream, Kind::kOpen), "not a frame of that side");
  ExpectBroken(broker.GetNumber(stream, Kind::kAck, 1), "not a frame of that side");
}

TEST(StreamTableAgent, BrokersEnd_IsOfTheWrongSide) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  ExpectBroken(agent.Get(1, Kind::kEnd), "not a frame of that side");
}

TEST(StreamTable, StreamZero_CarriesNoExecution) {
  Table agent(Side::kAgent);
  ExpectBroken(agent.Get(0, Kind::kOpen), "stream 0");
  Table broker(Side::kBroker);
  ExpectBroken(broker.Get(0, Kind::kEvent), "stream 0");
}

TEST(StreamTableAgent, OpenIds_MustGrow) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(5, Kind::kOpen));
  ExpectBroken(agent.Get(5, Kind::kOpen), "must grow");
  ExpectBroken(agent.Get(4, Kind::kOpen), "must grow");
  ExpectDelivered(agent.Get(6, Kind::kOpen));
}

TEST(StreamTableAgent, ClosedId_IsNeverOpenedAgain) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  agent.table.CloseStream(1);
  ExpectBroken(agent.Get(1, Kind::kOpen), "must grow");
}

TEST(StreamTableAgent, StreamsAboveTheBound_AreRefusedUntilOneEnds) {
  Table agent(Side::kAgent, 2);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  ExpectDelivered(agent.Get(2, Kind::kOpen));
  ExpectBroken(agent.Get(3, Kind::kOpen), "more than 2 streams");
  agent.table.CloseStream(1);
  ExpectDelivered(agent.Get(3, Kind::kOpen));
}

TEST(StreamTable, FrameForAStreamNeverOpened_IsRefused) {
  Table agent(Side::kAgent);
  ExpectBroken(agent.Get(1, Kind::kEvent), "never opened");
  Table broker(Side::kBroker);
  broker.table.OpenStream();
  ExpectBroken(broker.Get(2, Kind::kEnd), "never opened");
}

TEST(StreamTable, FramesThatCrossAnEnd_AreIgnored) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  broker.table.CloseStream(stream);
  ExpectIgnored(broker.GetData(stream, 1000));
  ExpectIgnored(broker.Get(stream, Kind::kEvent));
  ExpectIgnored(broker.Get(stream, Kind::kEnd));
}

TEST(StreamTableBroker, End_ClosesTheStream) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  ExpectDelivered(broker.Get(stream, Kind::kEnd));
  EXPECT_FALSE(broker.table.IsOpen(stream));
  ExpectIgnored(broker.Get(stream, Kind::kEnd));
}

TEST(StreamTable, Reset_ClosesTheStreamOnEitherSide) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  ExpectDelivered(broker.Get(stream, Kind::kReset));
  EXPECT_FALSE(broker.table.IsOpen(stream));
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  ExpectDelivered(agent.Get(1, Kind::kReset));
  EXPECT_EQ(agent.table.open_streams(), 0u);
}

TEST(StreamTable, DataWithoutCredit_IsAnOverrun) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  ExpectDelivered(broker.GetData(stream, 0));
  ExpectBroken(broker.GetData(stream, 1), "credit overrun");
}

TEST(StreamTable, DataUpToTheLastByteOfCredit_IsTaken) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  EXPECT_TRUE(broker.table.GrantTotal(stream, 100));
  ExpectDelivered(broker.GetData(stream, 60));
  ExpectDelivered(broker.GetData(stream, 40));
  EXPECT_EQ(broker.table.received(stream), 100u);
  ExpectBroken(broker.GetData(stream, 1), "100 + 1 of 100");
}

TEST(StreamTable, DataWithACutAddress_IsRefused) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  broker.table.GrantTotal(stream, 100);
  ExpectBroken(broker.Get(stream, Kind::kData, "12345678"), "address");
}

TEST(StreamTable, GrantedTotal_OnlyGrows) {
  Table broker(Side::kBroker);
  const uint32_t stream = broker.table.OpenStream();
  EXPECT_TRUE(broker.table.GrantTotal(stream, 10));
  EXPECT_FALSE(broker.table.GrantTotal(stream, 10));
  EXPECT_FALSE(broker.table.GrantTotal(stream, 9));
  ExpectDelivered(broker.GetData(stream, 10));
  EXPECT_FALSE(broker.table.GrantTotal(stream + 1, 10));
}

TEST(StreamTable, PeersCredit_IsARunningTotalThatNeverShrinks) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  EXPECT_EQ(agent.table.SendRoom(1), 0u);
  ExpectDelivered(agent.GetNumber(1, Kind::kCredit, 100));
  agent.table.OnDataSent(1, 70);
  EXPECT_EQ(agent.table.SendRoom(1), 30u);
  ExpectDelivered(agent.GetNumber(1, Kind::kCredit, 50));
  ExpectDelivered(agent.GetNumber(1, Kind::kCredit, 100));
  EXPECT_EQ(agent.table.SendRoom(1), 30u);
  ExpectDelivered(agent.GetNumber(1, Kind::kCredit, 120));
  EXPECT_EQ(agent.table.SendRoom(1), 50u);
}

TEST(StreamTable, LargestCredit_DoesNotWrap) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  const uint64_t all = std::numeric_limits<uint64_t>::max();
  ExpectDelivered(agent.GetNumber(1, Kind::kCredit, all));
  agent.table.OnDataSent(1, 10);
  EXPECT_EQ(agent.table.SendRoom(1), all - 10);
}

TEST(StreamTable, NumberOfAnotherSize_IsRefused) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  ExpectBroken(agent.Get(1, Kind::kCredit, "1234567"), "7 bytes");
  ExpectBroken(agent.Get(1, Kind::kAck, "123456789"), "9 bytes");
  ExpectDelivered(agent.GetNumber(1, Kind::kAck, 5));
}

TEST(StreamTable, ClosedStream_HasNoRoomAndSendingOnItCountsNothing) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  ExpectDelivered(agent.GetNumber(1, Kind::kCredit, 100));
  agent.table.CloseStream(1);
  agent.table.OnDataSent(1, 1000);
  EXPECT_EQ(agent.table.SendRoom(1), 0u);
  EXPECT_EQ(agent.table.received(1), 0u);
}

TEST(StreamTable, Streams_HaveCreditOfTheirOwn) {
  Table broker(Side::kBroker);
  const uint32_t one = broker.table.OpenStream();
  const uint32_t two = broker.table.OpenStream();
  broker.table.GrantTotal(one, 10);
  ExpectDelivered(broker.GetData(one, 10));
  ExpectBroken(broker.GetData(two, 1), "credit overrun");
}

TEST(StreamTableDeathTest, SendingBeyondTheCredit_EndsTheProcess) {
  Table agent(Side::kAgent);
  ExpectDelivered(agent.Get(1, Kind::kOpen));
  EXPECT_DEATH(agent.table.OnDataSent(1, 1), "stream_table");
}

}  // namespace
}  // namespace sandbroker::wire
