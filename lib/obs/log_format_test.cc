#include "lib/obs/log_format.h"

#include <gtest/gtest.h>

namespace sandbroker::obs {
namespace {

using namespace std::string_literals;

constexpr std::chrono::system_clock::time_point kWhen{std::chrono::milliseconds(1700000000123)};
constexpr std::string_view kStamp = "2023-11-14T22:13:20.123Z";

std::string Json(std::string_view message, std::initializer_list<Field> fields) {
  return FormatLine(LogFormat::kJson, kWhen, Level::kInfo, message, fields);
}

std::string Text(std::string_view message, std::initializer_list<Field> fields) {
  return FormatLine(LogFormat::kText, kWhen, Level::kWarning, message, fields);
}

// The value of field "k" as it stands in the JSON line, quotes included.
std::string JsonValue(std::string value) {
  const std::string line = Json("m", {{"k", std::move(value)}});
  const std::string before = "\"k\":";
  const size_t at = line.find(before) + before.size();
  return line.substr(at, line.size() - at - 1);
}

TEST(FormatLine, Json_HasTimeLevelMessageAndFields) {
  EXPECT_EQ(Json("sandbox ended", {{"pool", "default"}, {"count", 3}}),
            "{\"time\":\"" + std::string(kStamp) +
                "\",\"level\":\"info\",\"message\":\"sandbox ended\",\"pool\":\"default\","
                "\"count\":3}");
}

TEST(FormatLine, JsonStrings_AreEscaped) {
  EXPECT_EQ(JsonValue("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(JsonValue("a\nb\x01\x7f"), R"("a\u000ab\u0001\u007f")");
  EXPECT_EQ(JsonValue("nul\0nul"s), R"("nul\u0000nul")");
  EXPECT_EQ(JsonValue("{\"level\":\"error\"}"), R"("{\"level\":\"error\"}")");
}

TEST(FormatLine, JsonStrings_AreValidUtf8Whatever) {
  EXPECT_EQ(JsonValue("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
  const std::string replaced = "\"\xEF\xBF\xBD\"";
  EXPECT_EQ(JsonValue("\xFF"), replaced);
  EXPECT_EQ(JsonValue("\xC3"), replaced) << "cut short";
  EXPECT_EQ(JsonValue("\xC0\xAF").size(), 8u) << "overlong: one mark a byte";
  EXPECT_EQ(JsonValue("\xED\xA0\x80").size(), 11u) << "surrogate";
  EXPECT_EQ(JsonValue("\xF4\x90\x80\x80").size(), 14u) << "beyond U+10FFFF";
}

TEST(FormatLine, Text_QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(Text("pool is dry", {{"pool", "default"}, {"n", 5}, {"why", "no more uids"}}),
            std::string(kStamp) + " warning pool is dry pool=default n=5 why=\"no more uids\"");
  EXPECT_TRUE(Text("m", {{"k", ""}}).ends_with(" k=\"\""));
}

TEST(FormatLine, Text_StaysOneLine) {
  const std::string line = Text("m\nerror forged", {{"k", "v\nerror forged"}, {"j", "a b=c"}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find("k=\"v\\u000aerror forged\""), std::string::npos);
  EXPECT_NE(line.find("j=\"a b=c\""), std::string::npos);
}

}  // namespace
}  // namespace sandbroker::obs
