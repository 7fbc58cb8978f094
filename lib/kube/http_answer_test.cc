#include "lib/kube/http_answer.h"

#include <gtest/gtest.h>

namespace sandbroker::kube {
namespace {

// Feeds piece by piece; the head's end needs one more call, as documented.
bool FeedAll(HttpAnswer* answer, const std::string& text, size_t piece) {
  for (size_t at = 0; at < text.size(); at += piece) {
    if (!answer->Feed(text.substr(at, piece)) || !answer->Feed("")) return false;
  }
  return true;
}

const char* kPlain = "HTTP/1.1 200 OK\r\nRetry-After: 3\r\nContent-Length: 5\r\n\r\nhello";
const char* kChunked =
    "HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";

TEST(HttpAnswerTest, AnyCut_GivesTheSameAnswer) {
  for (const char* text : {kPlain, kChunked}) {
    for (size_t piece = 1; piece < 100; ++piece) {
      HttpAnswer answer(100);
      ASSERT_TRUE(FeedAll(&answer, text, piece)) << answer.error();
      EXPECT_TRUE(answer.done());
      EXPECT_TRUE(answer.keep_alive());
      EXPECT_EQ(answer.TakeBody(), "hello");
    }
  }
  HttpAnswer answer(100);
  ASSERT_TRUE(FeedAll(&answer, kPlain, 1000));
  EXPECT_EQ(answer.status(), 200);
  EXPECT_EQ(answer.Header("Retry-After"), "3");
  EXPECT_EQ(answer.Header("Date"), "");
}

TEST(HttpAnswerTest, EndInTheMiddle_IsNoAnswer_AnywhereButAtItsEnd) {
  const std::string text = kPlain;
  for (size_t size = 0; size < text.size(); ++size) {
    HttpAnswer answer(100);
    ASSERT_TRUE(FeedAll(&answer, text.substr(0, size), 1000));
    EXPECT_FALSE(answer.FeedEnd()) << size;
    EXPECT_EQ(answer.any(), size > 0);
  }
  HttpAnswer by_end(100);
  ASSERT_TRUE(FeedAll(&by_end, "HTTP/1.1 200 OK\r\n\r\nhello", 1000));
  EXPECT_FALSE(by_end.done());
  EXPECT_TRUE(by_end.FeedEnd());
  EXPECT_EQ(by_end.TakeBody(), "hello");
}

TEST(HttpAnswerTest, TooLarge_ByItsOwnWordOrByWhatComes_IsRefused) {
  for (const char* text :
       {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhello world"}) {
    HttpAnswer answer(8);
    EXPECT_FALSE(FeedAll(&answer, text, 1000)) << text;
    EXPECT_EQ(answer.error(), "the answer is too large");
    EXPECT_FALSE(answer.Feed("more"));
  }
  HttpAnswer head(8);
  EXPECT_FALSE(FeedAll(&head, "HTTP/1.1 200 OK\r\nA: " + std::string(2 * kMaxHeaders, 'x'), 4096));
}

TEST(HttpAnswerTest, WhatIsNoAnswer_IsRefused) {
  for (const char* text :
       {"hello world, this is no HTTP\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "\x15\x03\x01\x02\x02\x46\r\n\r\n"}) {
    HttpAnswer answer(100);
    EXPECT_FALSE(FeedAll(&answer, text, 1000)) << text;
    EXPECT_FALSE(answer.error().empty());
  }
}

TEST(HttpAnswerTest, ConnectionIsNotUsedAgain_AfterCloseOrWithBytesBehindTheAnswer) {
  HttpAnswer closing(100);
  ASSERT_TRUE(
      FeedAll(&closing, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 1000));
  EXPECT_TRUE(closing.done());
  EXPECT_FALSE(closing.keep_alive());
  HttpAnswer behind(100);
  ASSERT_TRUE(FeedAll(&behind, std::string(kPlain) + "HTTP/1.1 200 OK\r\n", 1000));
  EXPECT_TRUE(behind.done());
  EXPECT_FALSE(behind.keep_alive());
}

TEST(HttpAnswerTest, EndlessBody_IsTakenPieceByPiece) {
  HttpAnswer answer(8);
  ASSERT_TRUE(
      answer.Feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n"
                  "01234567890123456789\r\n"));
  ASSERT_TRUE(answer.head_done());
  answer.Endless();
  ASSERT_TRUE(answer.Feed(""));
  EXPECT_EQ(answer.TakeBody(), "01234567890123456789");
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(answer.Feed("3\r\nabc\r\n"));
    EXPECT_EQ(answer.TakeBody(), "abc");
  }
  ASSERT_TRUE(answer.Feed("0\r\n\r\n"));
  EXPECT_TRUE(answer.done());
}

}  // namespace
}  // namespace sandbroker::kube
