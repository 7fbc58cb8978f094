#include "tools/cli/flags.h"

#include <gtest/gtest.h>

namespace sandbroker::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(ParseDuration, ReadsUnitsFractionsAndSums) {
  EXPECT_EQ(*ParseDuration("30s"), seconds(30));
  EXPECT_EQ(*ParseDuration("1.5h"), minutes(90));
  EXPECT_EQ(*ParseDuration("1h30m"), minutes(90));
  EXPECT_EQ(*ParseDuration("250ms"), milliseconds(250));
  EXPECT_EQ(*ParseDuration("2m"), minutes(2));
  EXPECT_EQ(*ParseDuration("0s"), seconds(0));
}

TEST(ParseDuration, RefusesWhatIsNone) {
  for (const char* text :
       {"", "s", "abc", "1d", "1s2", "1 s", "1e3s", "nan", "infs", "0x1s", "-"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(ParseDuration, SaysWhatIsWrong) {
  EXPECT_EQ(ParseDuration("30").status().message(), "\"30\" has no unit: write 30s for seconds");
  EXPECT_EQ(ParseDuration("-5s").status().message(), "\"-5s\" is negative");
  EXPECT_EQ(ParseDuration("99999999999h").status().message(), "\"99999999999h\" is too long");
}

TEST(ParsePair, SplitsAtTheFirstEquals) {
  EXPECT_EQ(*ParsePair("a=b=c"), (std::pair<std::string, std::string>("a", "b=c")));
  EXPECT_EQ(*ParsePair("a="), (std::pair<std::string, std::string>("a", "")));
  EXPECT_FALSE(ParsePair("a").ok());
  EXPECT_FALSE(ParsePair("=b").ok());
}

TEST(ParseTime, ReadsTimesAndAges) {
  const std::chrono::system_clock::time_point now{hours(1000)};
  EXPECT_EQ(*ParseTime("10m", now), now - minutes(10));
  EXPECT_EQ(*ParseTime("1970-01-02T00:00:01Z", now),
            std::chrono::system_clock::time_point(hours(24) + seconds(1)));
  EXPECT_FALSE(ParseTime("yesterday", now).ok());
  EXPECT_FALSE(ParseTime("9999-01-01T00:00:00Z", now).ok());
}

}  // namespace
}  // namespace sandbroker::cli
