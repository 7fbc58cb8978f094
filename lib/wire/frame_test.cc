// The frame codec: what is built parses to the same, and everything else is refused with words
// that say what was seen.
#include "lib/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace sandbroker::wire {
namespace {

using ::testing::HasSubstr;

std::string Raw(uint8_t kind, std::string_view payload = "") {
  std::string message = EncodeFrame(7, Kind::kEvent, payload);
  message[4] = static_cast<char>(kind);
  return message;
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(Frame, Header_IsLittleEndianWithZeroReserve) {
  const Header header = EncodeHeader(0x01020304, Kind::kAck);
  EXPECT_EQ(std::string(header.data(), header.size()),
            std::string("\x04\x03\x02\x01\x05\0\0\0", 8));
}

TEST(Frame, EveryKind_ParsesToWhatWasBuilt) {
  for (const Kind kind : {Kind::kOpen, Kind::kEvent, Kind::kEnd, Kind::kReset}) {
    const std::string message = EncodeFrame(0xfffffffe, kind, "payload");
    const auto frame = ParseFrame(message);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->stream, 0xfffffffe);
    EXPECT_EQ(frame->kind, kind);
    EXPECT_EQ(frame->payload, "payload");
  }
}

TEST(Frame, EveryKind_HasItsName) {
  EXPECT_EQ(KindName(Kind::kOpen), "OPEN");
  EXPECT_EQ(KindName(Kind::kData), "DATA");
  EXPECT_EQ(KindName(Kind::kEvent), "EVENT");
  EXPECT_EQ(KindName(Kind::kCredit), "CREDIT");
  EXPECT_EQ(KindName(Kind::kAck), "ACK");
  EXPECT_EQ(KindName(Kind::kEnd), "END");
  EXPECT_EQ(KindName(Kind::kReset), "RESET");
  EXPECT_EQ(KindName(static_cast<Kind>(99)), "unknown");
}

TEST(Frame, EveryHeaderCutShort_IsRefused) {
  const std::string message = EncodeFrame(1, Kind::kEvent, "");
  for (size_t size = 0; size < kHeaderSize; ++size) {
    const auto frame = ParseFrame(std::string_view(message).substr(0, size));
    ASSERT_FALSE(frame.ok());
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(frame.status()), HasSubstr(std::to_string(size)));
  }
}

TEST(Frame, EachReservedByte_MustBeZero) {
  for (const size_t at : {5, 6, 7}) {
    std::string message = EncodeFrame(1, Kind::kEvent, "");
    message[at] = 1;
    EXPECT_THAT(MessageOf(ParseFrame(message).status()), HasSubstr("reserved"));
  }
}

TEST(Frame, EveryUnknownKind_IsRefusedByNumber) {
  for (int kind = 0; kind < 256; ++kind) {
    const bool known = kind >= 1 && kind <= 7;
    const auto frame = ParseFrame(Raw(static_cast<uint8_t>(kind)));
    EXPECT_EQ(frame.ok(), known) << kind;
    if (!known) {
      EXPECT_THAT(MessageOf(frame.status()), HasSubstr("unknown kind " + std::to_string(kind)));
    }
  }
}

TEST(Frame, PayloadAtItsLimit_IsTaken_OneByteMoreIsNot) {
  const std::pair<Kind, size_t> limits[] = {
      {Kind::kOpen, kMaxOpen},
      {Kind::kData, kDataAddressSize + kMaxData},
      {Kind::kEvent, kMaxControl},
      {Kind::kCredit, 8},
      {Kind::kAck, 8},
      {Kind::kEnd, kMaxControl},
      {Kind::kReset, kMaxControl},
  };
  for (const auto& [kind, limit] : limits) {
    EXPECT_TRUE(ParseFrame(EncodeFrame(1, kind, std::string(limit, 'x'))).ok()) << KindName(kind);
    const auto over = ParseFrame(EncodeFrame(1, kind, std::string(limit + 1, 'x')));
    ASSERT_FALSE(over.ok()) << KindName(kind);
    EXPECT_THAT(MessageOf(over.status()), HasSubstr(std::to_string(limit)));
  }
}

TEST(Frame, LargestPayload_FitsTheTransportsLimit) {
  EXPECT_LE(kHeaderSize + kDataAddressSize + kMaxData, kMaxMessage);
  EXPECT_LE(kHeaderSize + kMaxControl, kMaxMessage);
}

TEST(Data, HeaderThenBytes_ParseToWhatWasBuilt) {
  const uint64_t offset = 0x0102030405060708;
  const DataHeader header = EncodeDataHeader(9, offset, 2);
  const std::string message = std::string(header.data(), header.size()) + std::string("a\0b", 3);
  const auto frame = ParseFrame(message);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->stream, 9u);
  EXPECT_EQ(frame->kind, Kind::kData);
  const auto data = ParseData(frame->payload);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->offset, offset);
  EXPECT_EQ(data->fd, 2);
  EXPECT_EQ(data->bytes, std::string_view("a\0b", 3));
}

TEST(Data, EveryAddressCutShort_IsRefused) {
  const std::string address(kDataAddressSize, '\0');
  for (size_t size = 0; size < kDataAddressSize; ++size) {
    const auto data = ParseData(std::string_view(address).substr(0, size));
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
  EXPECT_TRUE(ParseData(address).ok());
}

TEST(Data, OffsetThatWraps_IsRefused) {
  const DataHeader header = EncodeDataHeader(1, std::numeric_limits<uint64_t>::max(), 1);
  const std::string payload(header.data() + kHeaderSize, kDataAddressSize);
  EXPECT_TRUE(ParseData(payload).ok());
  EXPECT_THAT(MessageOf(ParseData(payload + "x").status()), HasSubstr("overflows"));
}

TEST(Number, AnyValue_ParsesToWhatWasBuilt) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{0x8070605040302010},
                                std::numeric_limits<uint64_t>::max()}) {
    const std::string message = EncodeNumber(3, Kind::kCredit, number);
    const auto frame = ParseFrame(message);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->kind, Kind::kCredit);
    const auto parsed = ParseNumber(frame->payload);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, number);
  }
}

TEST(Number, OtherThanEightBytes_IsRefused) {
  for (const size_t size : {0, 7, 9}) {
    const auto number = ParseNumber(std::string(size, '\0'));
    EXPECT_THAT(MessageOf(number.status()), HasSubstr(std::to_string(size)));
  }
}

}  // namespace
}  // namespace sandbroker::wire
