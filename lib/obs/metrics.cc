// The list of metrics. Series are made when they are first counted and kept in a map of our own,
// because prometheus-cpp has no limit to their number.
#include "lib/obs/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <vector>

#include "lib/obs/log.h"

namespace sandbroker::obs {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using Buckets = Histogram::BucketBoundaries;

constexpr size_t kMaxSeries = 256;

// 100 us to 60 s: from a warm acquire to the longest wait in a queue.
const Buckets& AcquireBuckets() {
  static const Buckets* buckets =
      new Buckets{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60};
  return *buckets;
}

// 1 ms to an hour: from `true` to a build.
const Buckets& ExecutionBuckets() {
  static const Buckets* buckets =
      new Buckets{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600};
  return *buckets;
}

// One family and its series, by the values of its labels.
template <class Metric>
class Labelled {
 public:
  Labelled(prometheus::Family<Metric>& family, std::vector<std::string> labels)
      : family_(family), labels_(std::move(labels)) {}

  template <class... Args>
  Metric& Of(std::vector<std::string> values, const Args&... args) {
    const std::lock_guard lock(mutex_);
    if (const auto found = series_.find(values); found != series_.end()) return *found->second;
    if (series_.size() >= kMaxSeries) values.assign(labels_.size(), "other");
    Metric*& metric = series_[values];
    if (metric == nullptr) {
      prometheus::Labels named;
      for (size_t i = 0; i < labels_.size(); ++i) named.emplace(labels_[i], values[i]);
      metric = &family_.Add(named, args...);
    }
    return *metric;
  }

 private:
  prometheus::Family<Metric>& family_;
  const std::vector<std::string> labels_;
  std::mutex mutex_;
  std::map<std::vector<std::string>, Metric*> series_;
};

Labelled<Counter> Counters(Registry& registry, const char* name, const char* help,
                           std::vector<std::string> labels) {
  return {prometheus::BuildCounter().Name(name).Help(help).Register(registry), std::move(labels)};
}

Counter& OneCounter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

Gauge& OneGauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

Labelled<Gauge> PoolGauges(Registry& registry, const char* name, const char* help) {
  return {prometheus::BuildGauge().Name(name).Help(help).Register(registry), {"pool"}};
}

// What can't be counted stays as it was.
void CountEntries(const char* folder, Gauge& gauge) {
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  double count = 0;
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) ++count;
  if (!error) gauge.Set(count);
}

}  // namespace

struct Metrics::Families {
  explicit Families(Registry& r)
      : acquires(Counters(r, "sandbroker_acquires_total", "Acquire calls by pool and result",
                          {"pool", "result"})),
        acquire_seconds(prometheus::BuildHistogram()
                            .Name("sandbroker_acquire_seconds")
                            .Help("Time of successful acquires by source")
                            .Register(r),
                        {"source"}),
        releases(Counters(r, "sandbroker_releases_total", "Sandboxes ended, by cause", {"cause"})),
        executions(
            Counters(r, "sandbroker_executions_total", "Executions by the reason of end", {"end"})),
        execution_seconds(prometheus::BuildHistogram()
                              .Name("sandbroker_execution_seconds")
                              .Help("Time from start to end of executions")
                              .Register(r)
                              .Add({}, ExecutionBuckets())),
        output_bytes(OneCounter(r, "sandbroker_output_bytes_total", "Bytes of output relayed")),
        input_bytes(OneCounter(r, "sandbroker_input_bytes_total", "Bytes of input relayed")),
        gaps(OneCounter(r, "sandbroker_output_gaps_total", "Gaps in output announced to callers")),
        links_lost(Counters(r, "sandbroker_agent_links_lost_total", "Agent links lost, by cause",
                            {"cause"})),
        rpcs(Counters(r, "sandbroker_rpcs_total", "Finished calls by method and gRPC code",
                      {"method", "code"})),
        pool_ready(PoolGauges(r, "sandbroker_pool_ready", "Warm sandboxes waiting")),
        pool_pending(PoolGauges(r, "sandbroker_pool_pending", "Sandboxes being started")),
        pool_claimed(PoolGauges(r, "sandbroker_pool_claimed", "Sandboxes in callers' hands")),
        pool_waiting(PoolGauges(r, "sandbroker_pool_waiting_callers", "Callers queued in Acquire")),
        open_streams(OneGauge(r, "sandbroker_open_streams", "Exec calls attached now")),
        watchers(OneGauge(r, "sandbroker_watchers", "WatchSandboxes calls open now")),
        blocking_jobs(OneGauge(r, "sandbroker_blocking_jobs",
                               "Jobs waiting or running in the blocking pool")),
        threads(OneGauge(r, "sandbroker_threads", "Threads of this process")),
        open_fds(OneGauge(r, "sandbroker_open_fds", "File descriptors of this process")),
        log_dropped(OneCounter(r, "sandbroker_log_lines_dropped_total",
                               "Log lines given up because their reader stood still")) {
    prometheus::BuildGauge()
        .Name("sandbroker_build_info")
        .Help("Always 1; the version is the label")
        .Register(r)
        .Add({{"version", SANDBROKER_VERSION}})
        .Set(1);
  }

  Labelled<Counter> acquires;
  Labelled<Histogram> acquire_seconds;
  Labelled<Counter> releases;
  Labelled<Counter> executions;
  Histogram& execution_seconds;
  Counter& output_bytes;
  Counter& input_bytes;
  Counter& gaps;
  Labelled<Counter> links_lost;
  Labelled<Counter> rpcs;
  Labelled<Gauge> pool_ready;
  Labelled<Gauge> pool_pending;
  Labelled<Gauge> pool_claimed;
  Labelled<Gauge> pool_waiting;
  Gauge& open_streams;
  Gauge& watchers;
  Gauge& blocking_jobs;
  Gauge& threads;
  Gauge& open_fds;
  Counter& log_dropped;
  std::mutex render_mutex;
};

Metrics::Metrics()
    : registry_(std::make_shared<Registry>()), families_(std::make_unique<Families>(*registry_)) {}

Metrics::~Metrics() = default;

void Metrics::CountAcquire(const std::string& pool, const std::string& result) {
  families_->acquires.Of({pool, result}).Increment();
}

void Metrics::ObserveAcquire(const std::string& source, double seconds) {
  families_->acquire_seconds.Of({source}, AcquireBuckets()).Observe(seconds);
}

void Metrics::CountRelease(const std::string& cause) {
  families_->releases.Of({cause}).Increment();
}

void Metrics::CountExecution(const std::string& end) {
  families_->executions.Of({end}).Increment();
}

void Metrics::ObserveExecution(double seconds) { families_->execution_seconds.Observe(seconds); }

void Metrics::AddOutputBytes(double bytes) { families_->output_bytes.Increment(bytes); }

void Metrics::AddInputBytes(double bytes) { families_->input_bytes.Increment(bytes); }

void Metrics::CountGap() { families_->gaps.Increment(); }

void Metrics::CountLinkLost(const std::string& cause) {
  families_->links_lost.Of({cause}).Increment();
}

void Metrics::CountRpc(const std::string& method, const std::string& code) {
  families_->rpcs.Of({method, code}).Increment();
}

void Metrics::SetPool(const std::string& pool, int ready, int pending, int claimed, int waiting) {
  families_->pool_ready.Of({pool}).Set(ready);
  families_->pool_pending.Of({pool}).Set(pending);
  families_->pool_claimed.Of({pool}).Set(claimed);
  families_->pool_waiting.Of({pool}).Set(waiting);
}

void Metrics::AddOpenStreams(int delta) { families_->open_streams.Increment(delta); }

void Metrics::AddWatchers(int delta) { families_->watchers.Increment(delta); }

void Metrics::SetBlockingJobs(int count) { families_->blocking_jobs.Set(count); }

std::string Metrics::Render() const {
  {
    const std::lock_guard lock(families_->render_mutex);
    Counter& dropped = families_->log_dropped;
    dropped.Increment(static_cast<double>(DroppedLogLines()) - dropped.Value());
  }
  CountEntries("/proc/self/task", families_->threads);
  CountEntries("/proc/self/fd", families_->open_fds);
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

}  // namespace sandbroker::obs
