#include "lib/config/units.h"

#include <gtest/gtest.h>

#include "lib/config/address.h"

namespace sandbroker::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(ParseDuration, OneUnit_IsTaken) {
  EXPECT_EQ(*ParseDuration("10s"), Duration(seconds(10)));
  EXPECT_EQ(*ParseDuration("250ms"), Duration(milliseconds(250)));
  EXPECT_EQ(*ParseDuration("7ns"), nanoseconds(7));
  EXPECT_EQ(*ParseDuration("0"), Duration(0));
}

TEST(ParseDuration, SeveralUnitsInOrder_AreAdded) {
  EXPECT_EQ(*ParseDuration("1m30s"), Duration(seconds(90)));
  EXPECT_EQ(*ParseDuration("2h5ms"), Duration(hours(2)) + milliseconds(5));
}

TEST(ParseDuration, AnythingElse_IsRefused) {
  for (const char* text : {"", "10", "s", "-1s", "+1s", "1.5s", "1s1s", "1s1m", "10 s", " 1s",
                           "1s ", "1d", "1S", "99999999999999999999s", "4000000h", "0x1s"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(ParseDuration, Error_ShowsTheTextAndAnExample) {
  const std::string message(ParseDuration("10").status().message());
  EXPECT_EQ(message, "'10' is not a duration such as 250ms, 10s or 1m30s");
}

TEST(FormatDuration, WhatItWrites_ParsesToTheSame) {
  EXPECT_EQ(FormatDuration(seconds(90)), "1m30s");
  EXPECT_EQ(FormatDuration(Duration(0)), "0s");
  for (const Duration value : {Duration(1), Duration(999'999'999), Duration(hours(25)) + seconds(1),
                               Duration(minutes(10))}) {
    EXPECT_EQ(*ParseDuration(FormatDuration(value)), value);
  }
}

TEST(ParseByteSize, BinaryUnitsAndPlainBytes_AreTaken) {
  EXPECT_EQ(ParseByteSize("64MiB")->bytes, 64u << 20);
  EXPECT_EQ(ParseByteSize("1TiB")->bytes, 1ull << 40);
  EXPECT_EQ(ParseByteSize("512B")->bytes, 512u);
  EXPECT_EQ(ParseByteSize("4096")->bytes, 4096u);
}

TEST(ParseByteSize, AnythingElse_IsRefused) {
  for (const char* text : {"", "MiB", "64MB", "64M", "64 MiB", "-1", "1.5GiB", "1KiB1B",
                           "18446744073709551616", "16777216TiB"}) {
    EXPECT_FALSE(ParseByteSize(text).ok()) << text;
  }
}

TEST(FormatByteSize, WhatItWrites_ParsesToTheSame) {
  EXPECT_EQ(FormatByteSize({256u << 20}), "256MiB");
  EXPECT_EQ(FormatByteSize({0}), "0B");
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{1025}, uint64_t{3} << 40}) {
    EXPECT_EQ(ParseByteSize(FormatByteSize({bytes}))->bytes, bytes);
  }
}

TEST(ParseCount, OnlyDigitsInRange_AreTaken) {
  EXPECT_EQ(*ParseCount("4294967295"), 4294967295u);
  for (const char* text : {"", "-1", "4294967296", "1 ", "1e3", "0x10"}) {
    EXPECT_FALSE(ParseCount(text).ok()) << text;
  }
}

TEST(ParseAddress, NumericHostsAndLocalhost_AreTaken) {
  EXPECT_EQ(ParseAddress("127.0.0.1:7443")->ToString(), "127.0.0.1:7443");
  EXPECT_EQ(ParseAddress("[::1]:0")->ToString(), "[::1]:0");
  EXPECT_EQ(ParseAddress("localhost:80")->ToString(), "127.0.0.1:80");
}

TEST(ParseAddress, AnythingElse_IsRefused) {
  for (const char* text : {"", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "host:80",
                           "::1:80", "[127.0.0.1]:80", "127.1:80", "127.0.0.1:-1", "[::1:80"}) {
    EXPECT_FALSE(ParseAddress(text).ok()) << text;
  }
}

TEST(IsLoopback, OnlyThe127NetAndV6One_Are) {
  EXPECT_TRUE(ParseAddress("127.255.3.4:1")->IsLoopback());
  EXPECT_TRUE(ParseAddress("[::1]:1")->IsLoopback());
  for (const char* text : {"0.0.0.0:1", "128.0.0.1:1", "[::]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_FALSE(ParseAddress(text)->IsLoopback()) << text;
  }
}

}  // namespace
}  // namespace sandbroker::config
