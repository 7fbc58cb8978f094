// Process metrics in Prometheus form. Every name starts with sandbroker_ and is made here, so the
// whole list can be read in one place (metrics.cc) and in docs/operations.md. Any thread.
#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace sandbroker::obs {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // sandbroker_acquires_total{pool, result}: result = warm | cold | repeated | a reason's name.
  void CountAcquire(const std::string& pool, const std::string& result);
  // sandbroker_acquire_seconds{source}.
  void ObserveAcquire(const std::string& source, double seconds);
  // sandbroker_releases_total{cause}: released | lease_expired | agent_lost | start_failed |
  // caller_left | receipt_lost.
  void CountRelease(const std::string& cause);
  // sandbroker_executions_total{end}: end = exited | signaled | ... (the names in ExecEnded).
  void CountExecution(const std::string& end);
  // sandbroker_execution_seconds.
  void ObserveExecution(double seconds);
  // sandbroker_output_bytes_total, sandbroker_input_bytes_total.
  void AddOutputBytes(double bytes);
  void AddInputBytes(double bytes);
  // sandbroker_output_gaps_total.
  void CountGap();
  // sandbroker_agent_links_lost_total{cause}.
  void CountLinkLost(const std::string& cause);
  // sandbroker_rpcs_total{method, code}.
  void CountRpc(const std::string& method, const std::string& code);
  // sandbroker_pool_{ready,pending,claimed,waiting_callers}{pool}.
  void SetPool(const std::string& pool, int ready, int pending, int claimed, int waiting);
  // sandbroker_open_streams: Exec calls attached now. sandbroker_running_executions.
  void AddOpenStreams(int delta);
  // sandbroker_watchers: WatchSandboxes calls open now.
  void AddWatchers(int delta);
  // sandbroker_blocking_jobs: jobs waiting or running in the blocking pool.
  void SetBlockingJobs(int count);

  // sandbroker_build_info{version} = 1, sandbroker_log_lines_dropped_total, sandbroker_threads and
  // sandbroker_open_fds need no call.
  // A family keeps at most 256 series; further label values are counted under "other", so that
  // nobody can fill the memory with names.

  // Text exposition of all of them.
  std::string Render() const;

 private:
  struct Families;
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<Families> families_;
};

}  // namespace sandbroker::obs
