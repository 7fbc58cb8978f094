// sandbroker-bench: floors and measures in turn, round by round, so that what disturbs the machine
// disturbs both; then the table. With --role it is the far end of a floor.
#include <malloc.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "tools/bench/broker_bench.h"
#include "tools/bench/child.h"
#include "tools/bench/floor_servers.h"
#include "tools/bench/floors.h"
#include "tools/bench/report.h"

namespace sandbroker::bench {
namespace {

constexpr int kAtOnce = 200;

struct Options {
  std::string role;
  std::string role_path;
  std::string json;
  int rounds = 20;
  uint64_t stream_mib = 256;
  bool floors_only = false;
};

// Without a broker only the floors.
void Round(Floors& floors, BrokerBench* broker, uint64_t chunks) {
  floors.UnaryEcho(100);
  if (broker != nullptr) broker->RunTrue(100);
  floors.WebSocketEcho(100);
  floors.Spawn(100);
  floors.LegsInTurn(100);
  if (broker != nullptr) broker->WarmAcquire(10);
  floors.BidiEcho(100);
  if (broker != nullptr) broker->InputEcho(100);
  floors.BubblewrapStart(5);
  if (broker != nullptr) broker->ColdAcquire(5);
  floors.SpawnAtOnce(kAtOnce);
  if (broker != nullptr) broker->RunAtOnce(kAtOnce);
  floors.PipeStream(chunks);
  if (broker != nullptr) broker->OutputStream(chunks);
  floors.WebSocketStream(chunks);
  floors.GrpcStream(chunks);
}

Row FloorRow(std::string name, std::string unit, const Samples& samples) {
  return {std::move(name), std::move(unit), &samples, samples.Percentile(0.5), {}, "", {}};
}

std::vector<Row> FloorRows(const Floors& f) {
  return {FloorRow("floor_grpc_unary_echo", "us", f.unary),
          FloorRow("floor_grpc_bidi_echo", "us", f.bidi),
          FloorRow("floor_websocket_echo", "us", f.websocket),
          FloorRow("floor_spawn_true", "us", f.spawn),
          FloorRow("floor_legs_in_turn", "us", f.legs_in_turn),
          FloorRow("floor_spawn_200", "us", f.spawn_at_once),
          FloorRow("floor_bubblewrap_start", "us", f.bubblewrap),
          FloorRow("floor_pipe_stream", "MB/s", f.pipe_stream),
          FloorRow("floor_websocket_stream", "MB/s", f.websocket_stream),
          FloorRow("floor_grpc_stream", "MB/s", f.grpc_stream)};
}

// Latencies: what a leg costs is its p50 also where the row is about the tail.
void AddLatencyRows(const Floors& f, const BrokerBench& b, std::vector<Row>& rows) {
  const auto p50 = [](const Samples& s) { return s.Percentile(0.5); };
  const auto p99 = [](const Samples& s) { return s.Percentile(0.99); };
  const double unary = p50(f.unary);
  const double run_floor = unary + p50(f.websocket) + p50(f.spawn);
  const std::string run_text = "unary + websocket + spawn";
  const auto at_most = [](double us) { return Goal{Goal::Kind::kValueAtMost, us}; };
  rows.push_back({"run_true_p50", "us", &b.run, p50(b.run), run_floor, run_text,
                  Goal{Goal::Kind::kRatioAtMost, 1.25}});
  rows.push_back({"run_true_p50_in_turn",
                  "us",
                  &b.run,
                  p50(b.run),
                  p50(f.legs_in_turn),
                  "the three legs in turn, caches as a Run finds them",
                  {}});
  rows.push_back({"run_true_p99", "us", &b.run, p99(b.run), run_floor, run_text, {}});
  rows.push_back({"broker_addition_p99",
                  "us",
                  &b.run,
                  p99(b.run) - run_floor,
                  {},
                  "run p99 less the floors' p50",
                  at_most(3000)});
  rows.push_back({"input_echo_p50",
                  "us",
                  &b.input_echo,
                  p50(b.input_echo),
                  p50(f.bidi) + p50(f.websocket),
                  "bidi + websocket; cat's own turn is in",
                  {}});
  rows.push_back({"acquire_warm_p50", "us", &b.warm_acquire, p50(b.warm_acquire), unary, "unary",
                  at_most(1000)});
  rows.push_back({"acquire_cold_p50", "us", &b.cold_acquire, p50(b.cold_acquire),
                  unary + p50(f.bubblewrap), "unary + bubblewrap", at_most(50'000)});
  rows.push_back(
      {"run_200_each_p50", "us", &b.run_each_of_many, p50(b.run_each_of_many), {}, "", {}});
  rows.push_back({"run_200_all_p50",
                  "us",
                  &b.run_all_of_many,
                  p50(b.run_all_of_many),
                  p50(f.spawn_at_once),
                  "200 spawns at once",
                  {}});
}

void AddStreamRow(const Floors& f, const BrokerBench& b, std::vector<Row>& rows) {
  const std::pair<double, std::string> legs[] = {{f.pipe_stream.Percentile(0.5), "pipe"},
                                                 {f.websocket_stream.Percentile(0.5), "websocket"},
                                                 {f.grpc_stream.Percentile(0.5), "gRPC stream"}};
  const auto slowest = *std::min_element(std::begin(legs), std::end(legs));
  rows.push_back({"output_stream", "MB/s", &b.output_stream, b.output_stream.Percentile(0.5),
                  slowest.first, "slowest leg: " + slowest.second,
                  Goal{Goal::Kind::kRatioAtLeast, 0.8}});
}

int Bench(const Options& options) {
  // Large messages are allocated and freed all the time; by default each goes back to the kernel.
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  const std::filesystem::path bin = std::filesystem::path(SelfPath()).parent_path();
  std::string dir = std::filesystem::temp_directory_path() / "sandbroker-bench.XXXXXX";
  if (mkdtemp(dir.data()) == nullptr) Fail("mkdtemp");
  {
    Floors floors(dir, bin / "sandbroker-bench-spawner");
    std::optional<BrokerBench> broker;
    if (!options.floors_only) broker.emplace(bin / "sandbrokerd", dir);
    const uint64_t chunks = (options.stream_mib << 20) / kChunk;
    for (int i = 0; i < options.rounds; ++i) {
      std::fprintf(stderr, "\rround %d of %d", i + 1, options.rounds);
      Round(floors, broker ? &*broker : nullptr, chunks);
    }
    std::fputs("\n", stderr);
    std::vector<Row> rows = FloorRows(floors);
    if (broker) AddLatencyRows(floors, *broker, rows);
    if (broker) AddStreamRow(floors, *broker, rows);
    PrintTable(rows);
    if (!options.json.empty()) WriteJson(rows, options.json);
  }
  std::filesystem::remove_all(dir);
  return 0;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Ratios of sandbroker's speed to the floors of this machine");
  app.add_option("--json", options.json, "also write the table there, as JSON");
  app.add_option("--rounds", options.rounds, "rounds of all floors and measures")
      ->check(CLI::Range(1, 10000));
  app.add_option("--stream-mib", options.stream_mib, "MiB of each stream in a round")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--floors-only", options.floors_only, "without a sandbrokerd");
  app.add_option("--role", options.role)->group("");
  app.add_option("path", options.role_path)->group("");
  CLI11_PARSE(app, argc, argv);
  if (options.role == "grpc") return ServeGrpc();
  if (options.role == "websocket") return ServeWebSocket(options.role_path);
  if (options.role == "pipe") return ServePipe();
  return Bench(options);
}

}  // namespace
}  // namespace sandbroker::bench

int main(int argc, char** argv) { return sandbroker::bench::Main(argc, argv); }
