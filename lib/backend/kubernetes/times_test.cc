#include "lib/backend/kubernetes/times.h"

#include <gtest/gtest.h>

namespace sandbroker::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr WallTime kTime = WallTime(seconds(1'764'458'760) + Duration(123'456'789));

TEST(Times, WrittenAsTheApiWantsThem) {
  EXPECT_EQ(FormatNanos(kTime), "2025-11-29T23:26:00.123456789Z");
  EXPECT_EQ(FormatMicros(kTime), "2025-11-29T23:26:00.123456Z");
  EXPECT_EQ(FormatNanos(WallTime()), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(FormatMicros(WallTime(seconds(951'782'400))), "2000-02-29T00:00:00.000000Z");
}

TEST(Times, ShutdownTime_IsWholeSecondsAndNeverEarlier) {
  EXPECT_EQ(FormatSeconds(kTime), "2025-11-29T23:26:01Z");
  EXPECT_EQ(FormatSeconds(WallTime(seconds(60))), "1970-01-01T00:01:00Z");
  EXPECT_EQ(FormatSeconds(WallTime(seconds(59) + Duration(1))), "1970-01-01T00:01:00Z");
}

TEST(Times, ComeBackAsTheyWere) {
  EXPECT_EQ(ParseTime(FormatNanos(kTime)), kTime);
  EXPECT_EQ(ParseTime(FormatSeconds(WallTime(seconds(77)))), WallTime(seconds(77)));
  EXPECT_EQ(ParseTime("1970-01-01T00:00:01.5Z"), WallTime(milliseconds(1500)));
  EXPECT_EQ(ParseTime("1970-01-01T02:00:00+01:30"), WallTime(seconds(1800)));
  EXPECT_EQ(ParseTime("1970-01-01T00:00:00-01:00"), WallTime(seconds(3600)));
  EXPECT_EQ(ParseTime("1970-01-01T00:00:00.1234567899Z"), WallTime(Duration(123'456'789)));
}

TEST(Times, WhatIsNoTimeIsRefused) {
  for (const char* text :
       {"", "now", "1970-01-01", "1970-01-01T00:00:00", "1970-01-01 00:00:00Z",
        "1970-01-01T00:00:00Z ", "1970-02-30T00:00:00Z", "1970-13-01T00:00:00Z",
        "1970-01-01T24:00:00Z", "1970-01-01T00:60:00Z", "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00", "9999-01-01T00:00:00Z", "1970-01-01T00:00:00.Z",
        "1970-1-1T00:00:00Z", "1970-01-01T00:00:00+0100", "-970-01-01T00:00:00Z",
        "1970-01-01T00:00:00.1111111111111111111111Z"}) {
    EXPECT_FALSE(ParseTime(text)) << text;
  }
}

}  // namespace
}  // namespace sandbroker::kubernetes
