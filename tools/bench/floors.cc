#include "tools/bench/floors.h"

#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include "tools/bench/floor_servers.h"

namespace sandbroker::bench {
namespace {

constexpr const char* kExec = "/sandbroker.v1.SandboxBroker/Exec";

// The isolation that the local backend asks for, without its limits and filters.
std::vector<std::string> InsideBubblewrap(const std::string& program) {
  return {"bwrap",      "--unshare-all", "--cap-drop", "ALL",       "--new-session",
          "--as-pid-1", "--ro-bind",     "/usr",       "/usr",      "--symlink",
          "usr/lib",    "/lib",          "--symlink",  "usr/lib64", "/lib64",
          "--proc",     "/proc",         "--dev",      "/dev",      "--tmpfs",
          "/tmp",       "--ro-bind",     program,      "/spawner",  "/spawner"};
}

v1::ExecRequest StartRequest(std::vector<std::string> argv) {
  v1::ExecRequest request;
  for (std::string& word : argv) request.mutable_start()->mutable_spec()->add_argv(std::move(word));
  return request;
}

}  // namespace

Floors::Floors(const std::string& dir, const std::string& spawner)
    : grpc_server_({SelfPath(), "--role", "grpc"}),
      websocket_server_({SelfPath(), "--role", "websocket", dir + "/floor.sock"}),
      spawner_command_(InsideBubblewrap(spawner)),
      spawner_(spawner_command_),
      pipe_({SelfPath(), "--role", "pipe"}),
      chunk_(4 * kChunk) {
  channel_ = grpc::CreateChannel("127.0.0.1:" + grpc_server_.ReadLine(),
                                 grpc::InsecureChannelCredentials());
  stub_ = v1::SandboxBroker::NewStub(channel_);
  websocket_server_.ReadLine();
  socket_.next_layer().connect(Local::endpoint(dir + "/floor.sock"));
  socket_.handshake("localhost", "/");
  socket_.binary(true);
  socket_.auto_fragment(false);
  socket_.write_buffer_bytes(kChunk + 64);
  buffer_.reserve(2 * kChunk);
  char plus = 0;
  spawner_.ReadExactly(&plus, 1);
  pipe_.EnlargePipe();
}

void Floors::CallUnary() {
  v1::RunRequest request;
  request.mutable_spec()->add_argv("true");
  grpc::ClientContext context;
  v1::RunResponse response;
  if (!stub_->Run(&context, request, &response).ok()) Fail("gRPC echo");
}

void Floors::UnaryEcho(int count) {
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    CallUnary();
    unary.Add(watch.Micros());
  }
}

void Floors::BidiEcho(int count) {
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  request.mutable_stdin()->set_data("x");
  v1::ExecResponse response;
  for (int i = 0; i <= count; ++i) {
    const Stopwatch watch;
    if (!stream->Write(request) || !stream->Read(&response)) Fail("gRPC stream echo");
    if (i > 0) bidi.Add(watch.Micros());  // the first opens the stream
  }
  stream->WritesDone();
  if (!stream->Finish().ok()) Fail("gRPC stream echo");
}

void Floors::EchoOverWebSocket() {
  // About as long as the frames of an execution that prints nothing.
  static const std::string message(48, 'x');
  socket_.write(boost::asio::buffer(message));
  socket_.read(buffer_);
  buffer_.consume(buffer_.size());
}

void Floors::WebSocketEcho(int count) {
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    EchoOverWebSocket();
    websocket.Add(watch.Micros());
  }
}

double Floors::SpawnedIn() {
  uint64_t nanos = 0;
  spawner_.ReadExactly(&nanos, sizeof(nanos));
  return static_cast<double>(nanos) / 1000;
}

void Floors::Spawn(int count) {
  spawner_.Write("s " + std::to_string(count) + "\n");
  for (int i = 0; i < count; ++i) spawn.Add(SpawnedIn());
}

void Floors::LegsInTurn(int count) {
  for (int i = 0; i < count; ++i) {
    Stopwatch watch;
    CallUnary();
    EchoOverWebSocket();
    const double messages = watch.Micros();
    // The spawner's own clock: its pipe to us is no leg.
    spawner_.Write("s 1\n");
    legs_in_turn.Add(messages + SpawnedIn());
  }
}

void Floors::SpawnAtOnce(int count) {
  spawner_.Write("b " + std::to_string(count) + "\n");
  uint64_t nanos = 0;
  spawner_.ReadExactly(&nanos, sizeof(nanos));
  spawn_at_once.Add(static_cast<double>(nanos) / 1000);
}

void Floors::BubblewrapStart(int count) {
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    Child child(spawner_command_);
    char plus = 0;
    child.ReadExactly(&plus, 1);
    bubblewrap.Add(watch.Micros());
  }
}

void Floors::PipeStream(uint64_t chunks) {
  pipe_.Write(std::to_string(chunks) + "\n");
  uint64_t left = chunks * kChunk;
  const Stopwatch watch;
  while (left > 0) {
    const ssize_t got = read(pipe_.out(), chunk_.data(), std::min<uint64_t>(left, chunk_.size()));
    if (got <= 0) Fail("pipe");
    left -= static_cast<uint64_t>(got);
  }
  pipe_stream.Add(MegabytesPerSecond(static_cast<double>(chunks * kChunk), watch.Micros()));
}

void Floors::WebSocketStream(uint64_t chunks) {
  socket_.write(boost::asio::buffer("stream " + std::to_string(chunks)));
  const Stopwatch watch;
  for (uint64_t i = 0; i < chunks; ++i) {
    socket_.read(buffer_);
    buffer_.consume(buffer_.size());
  }
  websocket_stream.Add(MegabytesPerSecond(static_cast<double>(chunks * kChunk), watch.Micros()));
}

void Floors::GrpcStream(uint64_t chunks) {
  // Raw buffers: what a client does with the bytes is not gRPC's cost.
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  grpc::GenericStub stub(channel_);
  const auto call = stub.PrepareCall(&context, kExec, &queue);
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const grpc::Slice slice(StartRequest({"stream", std::to_string(chunks)}).SerializeAsString());
  call->StartCall(nullptr);
  if (!done()) Fail("gRPC stream");
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  if (!done()) Fail("gRPC stream");
  const Stopwatch watch;
  uint64_t got = 0;
  for (grpc::ByteBuffer message;; ++got) {
    call->Read(&message, nullptr);
    if (!done()) break;
  }
  grpc_stream.Add(MegabytesPerSecond(static_cast<double>(got * kChunk), watch.Micros()));
  grpc::Status status;
  call->Finish(&status, nullptr);
  if (!done() || !status.ok() || got != chunks) Fail("gRPC stream");
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace sandbroker::bench
