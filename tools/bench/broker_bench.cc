#include "tools/bench/broker_bench.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <fstream>
#include <thread>
#include <vector>

#include "tools/bench/floor_servers.h"

namespace sandbroker::bench {
namespace {

using std::chrono::milliseconds;

// Two pools: one that always has some waiting, one that never has.
constexpr const char* kConfiguration = R"(pools:
  default:
    warm: 4
  cold:
    warm: 0
)";

void Must(const grpc::Status& status, const char* what) {
  if (!status.ok()) Fail(std::string(what) + ": " + status.error_message());
}

// The program prints from one buffer, so that the stream and not its source is measured.
constexpr const char* kPrinter =
    "import os,sys\n"
    "chunk = bytes(65536)\n"
    "for _ in range(int(sys.argv[1])):\n"
    "    os.write(1, chunk)\n";

}  // namespace

BrokerBench::BrokerBench(const std::string& program, const std::string& dir) {
  const std::string config = dir + "/config.yaml";
  const std::string port_file = dir + "/port";
  std::ofstream(config) << kConfiguration;
  server_ = std::make_unique<Child>(std::vector<std::string>{
      program, "--config", config, "--listen", "127.0.0.1:0", "--port-file", port_file,
      "--state-dir", dir + "/state", "--log-level", "warning"});
  std::string address;
  for (int i = 0; i < 3000 && address.empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    std::ifstream(port_file) >> address;
  }
  if (address.empty()) Fail(program + " did not serve within 30 s");
  stub_ =
      v1::SandboxBroker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  AwaitWarm("default");
  sandbox_id_ = Acquire("default", v1::FALLBACK_WARM_ONLY);
}

BrokerBench::~BrokerBench() { Release(sandbox_id_); }

std::string BrokerBench::Acquire(const std::string& pool, v1::Fallback fallback) {
  v1::AcquireRequest request;
  request.mutable_task()->set_pool(pool);
  request.set_fallback(fallback);
  v1::AcquireResponse response;
  grpc::ClientContext context;
  Must(stub_->Acquire(&context, request, &response), "Acquire");
  return response.sandbox().sandbox_id();
}

void BrokerBench::Release(const std::string& sandbox_id) {
  v1::ReleaseRequest request;
  request.set_sandbox_id(sandbox_id);
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  Must(stub_->Release(&context, request, &response), "Release");
}

void BrokerBench::AwaitWarm(const std::string& pool) {
  v1::ReadTaskCapacityRequest request;
  request.set_pool(pool);
  for (int i = 0; i < 10000; ++i) {
    v1::ReadTaskCapacityResponse response;
    grpc::ClientContext context;
    Must(stub_->ReadTaskCapacity(&context, request, &response), "ReadTaskCapacity");
    const v1::PoolCapacity& state = response.pools(0);
    if (state.ready() >= state.wanted() && state.pending() == 0) return;
    std::this_thread::sleep_for(milliseconds(2));
  }
  Fail("the pool does not fill");
}

v1::RunRequest BrokerBench::TrueRequest() const {
  v1::RunRequest request;
  request.set_sandbox_id(sandbox_id_);
  request.mutable_spec()->add_argv("/usr/bin/true");
  return request;
}

void BrokerBench::RunTrue(int count) {
  const v1::RunRequest request = TrueRequest();
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    grpc::ClientContext context;
    v1::RunResponse response;
    Must(stub_->Run(&context, request, &response), "Run");
    run.Add(watch.Micros());
    if (!response.ended().has_exited() || response.ended().exited().code() != 0)
      Fail("Run of true");
  }
}

void BrokerBench::WarmAcquire(int count) {
  for (int i = 0; i < count; ++i) {
    AwaitWarm("default");
    const Stopwatch watch;
    const std::string id = Acquire("default", v1::FALLBACK_WARM_ONLY);
    warm_acquire.Add(watch.Micros());
    Release(id);
  }
  AwaitWarm("default");
}

void BrokerBench::ColdAcquire(int count) {
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    const std::string id = Acquire("cold", v1::FALLBACK_COLD_OK);
    cold_acquire.Add(watch.Micros());
    Release(id);
  }
}

void BrokerBench::RunAtOnce(int count) {
  struct Call {
    grpc::ClientContext context;
    v1::RunResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::RunResponse>> reader;
    Stopwatch watch;
  };
  const v1::RunRequest request = TrueRequest();
  grpc::CompletionQueue queue;
  std::deque<Call> calls;
  const Stopwatch all;
  for (int i = 0; i < count; ++i) {
    Call& call = calls.emplace_back();
    call.reader = stub_->AsyncRun(&call.context, request, &queue);
    call.reader->Finish(&call.response, &call.status, &call);
  }
  for (int i = 0; i < count; ++i) {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) Fail("completion queue");
    const Call& call = *static_cast<Call*>(tag);
    Must(call.status, "Run, many at once");
    if (!call.response.ended().has_exited()) Fail("Run of true, many at once");
    run_each_of_many.Add(call.watch.Micros());
  }
  run_all_of_many.Add(all.Micros());
}

void BrokerBench::InputEcho(int count) {
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  request.mutable_start()->set_sandbox_id(sandbox_id_);
  request.mutable_start()->set_stdin(true);
  request.mutable_start()->mutable_spec()->add_argv("/usr/bin/cat");
  v1::ExecResponse response;
  if (!stream->Write(request) || !stream->Read(&response)) Fail("Exec of cat");
  request.mutable_stdin()->set_data("x");
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    if (!stream->Write(request)) Fail("Exec of cat");
    do {
      if (!stream->Read(&response)) Fail("Exec of cat");
    } while (!response.has_output());
    input_echo.Add(watch.Micros());
  }
  request.mutable_stdin()->clear_data();
  request.mutable_stdin()->set_eof(true);
  stream->WriteLast(request, grpc::WriteOptions());
  while (stream->Read(&response)) {
  }
  Must(stream->Finish(), "Exec of cat");
}

void BrokerBench::OutputStream(uint64_t chunks) {
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  request.mutable_start()->set_sandbox_id(sandbox_id_);
  for (const std::string& word : {std::string("/usr/bin/python3"), std::string("-c"),
                                  std::string(kPrinter), std::to_string(chunks)}) {
    request.mutable_start()->mutable_spec()->add_argv(word);
  }
  if (!stream->Write(request)) Fail("Exec of a printer");
  stream->WritesDone();
  // From the first byte on: the interpreter's start is not part of the stream.
  std::unique_ptr<Stopwatch> watch;
  uint64_t bytes = 0;
  uint64_t first = 0;
  v1::ExecResponse response;
  while (stream->Read(&response)) {
    if (!response.has_output()) continue;
    bytes += response.output().data().size();
    if (watch == nullptr) {
      watch = std::make_unique<Stopwatch>();
      first = bytes;
    }
  }
  if (bytes != chunks * kChunk) Fail("the printer's output is incomplete");
  output_stream.Add(MegabytesPerSecond(static_cast<double>(bytes - first), watch->Micros()));
  Must(stream->Finish(), "Exec of a printer");
}

}  // namespace sandbroker::bench
