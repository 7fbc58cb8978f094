// Log lines and metrics from many threads: no race, no line torn, no count lost.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "lib/obs/log.h"
#include "lib/obs/metrics.h"

namespace sandbroker::obs {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 200;

template <class Fn>
void InThreads(Fn fn) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([fn, i] { fn(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(LogStress, LinesOfManyThreads_ComeWhole) {
  ConfigureLog(LogFormat::kJson, Level::kInfo);
  testing::internal::CaptureStderr();
  InThreads([](int thread) {
    for (int i = 0; i < kRounds; ++i) {
      Log(Level::kInfo, "stress", {{"thread", thread}, {"round", i}, {"text", "a \"b\"\n"}});
      Log(Level::kDebug, "below the level", {});
    }
  });
  FlushLog();
  const std::string text = testing::internal::GetCapturedStderr();
  int lines = 0;
  for (size_t from = 0; from < text.size(); ++lines) {
    const size_t to = text.find('\n', from);
    ASSERT_NE(to, std::string::npos);
    const std::string line = text.substr(from, to - from);
    EXPECT_EQ(line.front(), '{') << line;
    EXPECT_EQ(line.back(), '}') << line;
    EXPECT_NE(line.find("stress"), std::string::npos) << line;
    from = to + 1;
  }
  EXPECT_EQ(lines, kThreads * kRounds);
}

TEST(MetricsStress, CountsOfManyThreads_AddUp) {
  Metrics metrics;
  InThreads([&metrics](int thread) {
    for (int i = 0; i < kRounds; ++i) {
      metrics.CountAcquire("default", i % 2 == 0 ? "warm" : "cold");
      metrics.ObserveAcquire("warm", 0.001);
      metrics.CountExecution("exited");
      metrics.AddOutputBytes(10);
      metrics.SetPool("default", thread, 0, i, 0);
      metrics.AddOpenStreams(1);
      metrics.AddOpenStreams(-1);
      if (i % 50 == 0) {
        EXPECT_FALSE(metrics.Render().empty());
      }
    }
  });
  const std::string text = metrics.Render();
  EXPECT_NE(text.find("sandbroker_executions_total{end=\"exited\"} 1600"), std::string::npos)
      << text;
  EXPECT_NE(text.find("sandbroker_output_bytes_total 16000"), std::string::npos) << text;
  EXPECT_NE(text.find("sandbroker_open_streams 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace sandbroker::obs
