// The real log with its thread, written to a pipe instead of stderr.
#include "lib/obs/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace sandbroker::obs {
namespace {

// Puts a pipe in place of stderr while it lives.
class StderrPipe {
 public:
  StderrPipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_ = ends[0];
    saved_ = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
  }
  ~StderrPipe() {
    Restore();
    close(reader_);
  }

  // All that was logged so far; what comes later goes to stderr again.
  std::string Finish() {
    std::string all;
    std::thread reader([this, &all] {
      char buffer[4096];
      for (ssize_t got; (got = read(reader_, buffer, sizeof buffer)) > 0;) all.append(buffer, got);
    });
    FlushLog();
    Restore();
    reader.join();
    return all;
  }

 private:
  void Restore() {
    if (saved_ < 0) return;
    dup2(saved_, STDERR_FILENO);  // the last writing end: the reader sees the end
    close(saved_);
    saved_ = -1;
  }
  int reader_ = -1;
  int saved_ = -1;
};

TEST(Log, BelowTheLowestLevel_IsNotWritten) {
  StderrPipe captured;
  ConfigureLog(LogFormat::kText, Level::kWarning);
  Log(Level::kInfo, "quiet");
  Log(Level::kWarning, "loud", {{"k", 1}});
  const std::string all = captured.Finish();
  EXPECT_EQ(all.find("quiet"), std::string::npos);
  EXPECT_NE(all.find(" warning loud k=1\n"), std::string::npos);
}

TEST(Log, LinesOfManyThreads_AreWholeAndAllThere) {
  constexpr int kThreads = 4;
  constexpr int kLines = 100;
  StderrPipe captured;
  ConfigureLog(LogFormat::kJson, Level::kInfo);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < kLines; ++line) Log(Level::kInfo, "hello", {{"n", line}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string all = captured.Finish();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), kThreads * kLines);
  EXPECT_EQ(DroppedLogLines(), 0u);
}

// T137: a queue of log lines has a cap, and what it costs is counted.
TEST(Log, T137_ReaderThatStandsStill_CostsLinesAndNotTime) {
  StderrPipe captured;  // holds 64 KiB, then blocks its writer
  ConfigureLog(LogFormat::kText, Level::kInfo);
  const std::string filler(200, 'x');
  for (int i = 0; i < 30000; ++i) Log(Level::kInfo, "much", {{"filler", filler}});
  EXPECT_GT(DroppedLogLines(), 0u);
  EXPECT_NE(captured.Finish().find("much"), std::string::npos);
}

}  // namespace
}  // namespace sandbroker::obs
