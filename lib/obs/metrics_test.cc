#include "lib/obs/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace sandbroker::obs {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, WhatIsCounted_IsRendered) {
  Metrics metrics;
  metrics.CountAcquire("default", "warm");
  metrics.CountAcquire("default", "warm");
  metrics.ObserveAcquire("warm", 0.0002);
  metrics.CountRelease("caller");
  metrics.CountExecution("exited");
  metrics.ObserveExecution(0.5);
  metrics.AddOutputBytes(10);
  metrics.AddInputBytes(20);
  metrics.CountGap();
  metrics.CountLinkLost("silent");
  metrics.CountRpc("Run", "OK");
  metrics.SetPool("default", 2, 1, 3, 4);
  metrics.AddOpenStreams(2);
  metrics.AddOpenStreams(-1);
  metrics.AddWatchers(3);
  metrics.SetBlockingJobs(7);
  const std::string text = metrics.Render();
  for (const char* line : {
           "sandbroker_acquires_total{pool=\"default\",result=\"warm\"} 2",
           "sandbroker_acquire_seconds_bucket{source=\"warm\",le=\"0.0003\"} 1",
           "sandbroker_releases_total{cause=\"caller\"} 1",
           "sandbroker_executions_total{end=\"exited\"} 1",
           "sandbroker_execution_seconds_sum 0.5",
           "sandbroker_output_bytes_total 10",
           "sandbroker_input_bytes_total 20",
           "sandbroker_output_gaps_total 1",
           "sandbroker_agent_links_lost_total{cause=\"silent\"} 1",
           "sandbroker_pool_ready{pool=\"default\"} 2",
           "sandbroker_pool_pending{pool=\"default\"} 1",
           "sandbroker_pool_claimed{pool=\"default\"} 3",
           "sandbroker_pool_waiting_callers{pool=\"default\"} 4",
           "sandbroker_open_streams 1",
           "sandbroker_watchers 3",
           "sandbroker_blocking_jobs 7",
           "sandbroker_log_lines_dropped_total 0",
           // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one text around a macro.
           "sandbroker_build_info{version=\"" SANDBROKER_VERSION "\"} 1",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("method=\"Run\""));
}

TEST(Metrics, EveryName_HasThePrefix) {
  const std::string text = Metrics().Render();
  size_t names = 0;
  for (size_t at = text.find("# TYPE "); at != std::string::npos;
       at = text.find("# TYPE ", at + 1)) {
    EXPECT_EQ(text.substr(at + 7, 11), "sandbroker_");
    ++names;
  }
  EXPECT_GT(names, 0u);
}

TEST(Metrics, LabelValuesWithoutEnd_AreCountedTogether) {
  Metrics metrics;
  for (int i = 0; i < 1000; ++i) metrics.CountAcquire("pool" + std::to_string(i), "POOL_NOT_FOUND");
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("sandbroker_acquires_total{pool=\"other\",result=\"other\"} 744\n"));
  EXPECT_THAT(text, HasSubstr("pool=\"pool255\""));
  EXPECT_THAT(text, Not(HasSubstr("pool=\"pool256\"")));
}

double ValueOf(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
}

TEST(Metrics, T144_ThreadsAndDescriptors_AreCountedWhenAsked) {
  const Metrics metrics;
  EXPECT_GE(ValueOf(metrics.Render(), "sandbroker_threads"), 1);
  const double before = ValueOf(metrics.Render(), "sandbroker_open_fds");
  EXPECT_GE(before, 3);
  const int extra = ::dup(0);
  EXPECT_EQ(ValueOf(metrics.Render(), "sandbroker_open_fds"), before + 1);
  ::close(extra);
  EXPECT_EQ(ValueOf(metrics.Render(), "sandbroker_open_fds"), before);
}

TEST(Metrics, LabelValue_IsEscaped) {
  Metrics metrics;
  metrics.CountRelease("a\"b\n");
  EXPECT_THAT(metrics.Render(), HasSubstr("{cause=\"a\\\"b\\n\"} 1"));
}

}  // namespace
}  // namespace sandbroker::obs
