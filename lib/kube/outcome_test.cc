#include "lib/kube/outcome.h"

#include <gtest/gtest.h>

#include <string>

namespace sandbroker::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Exchanged Answer(int status, std::string body, std::string retry_after = "") {
  Exchanged exchanged;
  exchanged.sent = exchanged.any_answer = exchanged.whole = true;
  exchanged.status = status;
  exchanged.body = std::move(body);
  exchanged.retry_after = std::move(retry_after);
  return exchanged;
}

const char* kConflict =
    R"({"kind":"Status","status":"Failure","message":"someone else","reason":"Conflict","code":409})";

TEST(ToResultTest, WhatWasNotHandedOver_IsNotSent_AndTheRestUnknown) {
  Exchanged exchanged;
  exchanged.error = "connect: refused";
  EXPECT_EQ(ToResult(exchanged, true).outcome, Outcome::kNotSent);
  EXPECT_EQ(ToResult(exchanged, true).message, "connect: refused");
  exchanged.sent = true;
  EXPECT_EQ(ToResult(exchanged, true).outcome, Outcome::kUnknown);
  exchanged.any_answer = true;
  EXPECT_EQ(ToResult(exchanged, true).outcome, Outcome::kUnknown);
}

TEST(ToResultTest, Statuses_DoneRefusedOrUnknown) {
  EXPECT_TRUE(ToResult(Answer(201, "{\"a\":1}"), true).ok());
  const Result conflict = ToResult(Answer(409, kConflict), true);
  EXPECT_TRUE(conflict.Is(409));
  EXPECT_EQ(conflict.reason, "Conflict");
  EXPECT_EQ(conflict.message, "someone else");
  // A write that a server stumbled over may have been made.
  EXPECT_EQ(ToResult(Answer(500, "{}"), true).outcome, Outcome::kUnknown);
  EXPECT_EQ(ToResult(Answer(504, "{}"), true).http_status, 504);
  EXPECT_TRUE(ToResult(Answer(500, "{}"), false).Is(500));
  EXPECT_TRUE(ToResult(Answer(301, ""), true).Is(301));
}

TEST(ToResultTest, AnswersThatAreNoObject_AreUnknown) {
  for (const char* body : {"", "[]", "null", "{", "<html>", "{\"a\":1}x"}) {
    EXPECT_EQ(ToResult(Answer(200, body), true).outcome, Outcome::kUnknown) << body;
  }
  const size_t depth = kMaxJsonDepth + 1;
  const std::string deep =
      std::string("{\"a\":") + std::string(depth, '[') + std::string(depth, ']') + "}";
  EXPECT_EQ(ToResult(Answer(200, deep), false).outcome, Outcome::kUnknown);
}

TEST(ToResultTest, RefusalThatIsNoStatusObject_IsShownShortAndPrintable) {
  const Result result = ToResult(Answer(502, std::string("\x01") + std::string(1000, 'x')), false);
  EXPECT_TRUE(result.Is(502));
  EXPECT_EQ(result.message.substr(0, 5), "\\x01x");
  EXPECT_LT(result.message.size(), 300u);
  EXPECT_EQ(result.reason, "");
}

TEST(RetryAfterTest, SecondsAreClamped_AndAnythingElseIsNone) {
  EXPECT_EQ(ParseRetryAfter("0"), Duration(0));
  EXPECT_EQ(ParseRetryAfter("3"), seconds(3));
  EXPECT_EQ(ParseRetryAfter("999999"), kMaxRetryAfter);
  for (const char* text : {"", "-1", "1.5", " 1", "99999999999", "Sun, 06 Nov 1994 08:49:37 GMT"}) {
    EXPECT_FALSE(ParseRetryAfter(text)) << text;
  }
}

TEST(HttpDateTest, ReadsTheOneFormInUse) {
  EXPECT_EQ(ParseHttpDate("Sun, 06 Nov 1994 08:49:37 GMT"), WallTime(seconds(784111777)));
  for (const char* text : {"", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 32 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nix 1994 08:49:37 GMT", "Sun, 06 Nov 9999 08:49:37 GMT",
                           "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 06 Nov 1994 08:-1:37 GMT",
                           "Sun, 06 Nov 1994T08:49:37 GMT"}) {
    EXPECT_FALSE(ParseHttpDate(text)) << text;
  }
}

Result With(Outcome outcome, int status = 0) {
  Result result;
  result.outcome = outcome;
  result.http_status = status;
  return result;
}

TEST(RetryPolicyTest, Reads_GoAgainAfterAnythingThatMayPass) {
  const auto next = [](const Result& result, bool hostile = false) {
    return RetryPolicy(false).Next(result, hostile, seconds(60), 0.5).has_value();
  };
  EXPECT_TRUE(next(With(Outcome::kNotSent)));
  EXPECT_TRUE(next(With(Outcome::kUnknown)));
  EXPECT_TRUE(next(With(Outcome::kRefused, 429)));
  EXPECT_TRUE(next(With(Outcome::kRefused, 503)));
  EXPECT_FALSE(next(With(Outcome::kUnknown), true));
  EXPECT_FALSE(next(With(Outcome::kUnknown, 200)));
  for (const int status : {400, 403, 404, 409, 410, 422}) {
    EXPECT_FALSE(next(With(Outcome::kRefused, status))) << status;
  }
}

TEST(RetryPolicyTest, Writes_GoAgainOnlyIfTheyWereNotSent) {
  const auto next = [](const Result& result) {
    return RetryPolicy(true).Next(result, false, seconds(60), 0.5).has_value();
  };
  EXPECT_TRUE(next(With(Outcome::kNotSent)));
  EXPECT_FALSE(next(With(Outcome::kUnknown)));
  EXPECT_FALSE(next(With(Outcome::kUnknown, 503)));
  EXPECT_FALSE(next(With(Outcome::kRefused, 429)));
}

TEST(RetryPolicyTest, Delays_GrowWithJitterUpToABoundAndStayWithinTheCall) {
  RetryPolicy policy(false);
  const Result result = With(Outcome::kNotSent);
  EXPECT_EQ(*policy.Next(result, false, seconds(60), 0), milliseconds(50));
  EXPECT_EQ(*policy.Next(result, false, seconds(60), 0), milliseconds(100));
  for (int i = 0; i < 100; ++i) {
    const auto delay = policy.Next(result, false, seconds(60), 0.999);
    ASSERT_TRUE(delay);
    EXPECT_LE(*delay, RetryPolicy::kMaxDelay);
  }
  EXPECT_FALSE(policy.Next(result, false, milliseconds(900), 0));
}

TEST(RetryPolicyTest, RetryAfter_IsKeptTo) {
  Result result = With(Outcome::kRefused, 429);
  result.retry_after = seconds(2);
  EXPECT_EQ(*RetryPolicy(false).Next(result, false, seconds(60), 0), milliseconds(2050));
  EXPECT_FALSE(RetryPolicy(false).Next(result, false, seconds(2), 0));
}

TEST(ClockOffsetTest, RangesOfWholeSeconds_NarrowDown) {
  ClockOffset offset;
  EXPECT_FALSE(offset.offset());
  const WallTime start(seconds(1000));
  // Their clock is 10.3 s ahead; the header shows it cut to the second.
  offset.Add(WallTime(seconds(1010)), start, start);  // theirs: 1010.3
  EXPECT_EQ(*offset.offset(), milliseconds(10500));
  offset.Add(WallTime(seconds(1010)), start + milliseconds(690), start + milliseconds(690));
  offset.Add(WallTime(seconds(1011)), start + milliseconds(710), start + milliseconds(710));
  EXPECT_NEAR(static_cast<double>(offset.offset()->count()), 10.3e9, 0.06e9);
}

TEST(ClockOffsetTest, ClockThatWasSet_VoidsWhatWasKnown) {
  ClockOffset offset;
  const WallTime start(seconds(1000));
  offset.Add(WallTime(seconds(1000)), start, start);
  offset.Add(WallTime(seconds(5000)), start, start);
  EXPECT_EQ(*offset.offset(), milliseconds(4000500));
  offset.Add(WallTime(seconds(9)), start, start - seconds(1));  // ours was set meanwhile
  EXPECT_EQ(*offset.offset(), milliseconds(4000500));
}

}  // namespace
}  // namespace sandbroker::kube
