// The gRPC floor: callback API, no thread of our own in the path, answers prepared ahead as
// buffers, so that nothing is serialized while the clock runs.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "sandbroker/v1/broker.grpc.pb.h"
#include "tools/bench/child.h"
#include "tools/bench/floor_servers.h"

namespace sandbroker::bench {
namespace {

using v1::SandboxBroker;

grpc::ByteBuffer Prepared(size_t bytes) {
  v1::ExecResponse response;
  response.mutable_output()->set_data(std::string(bytes, 'x'));
  const grpc::Slice slice(response.SerializeAsString());
  return {&slice, 1};
}

class EchoReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  EchoReactor() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    if (first_) {
      first_ = false;
      left_ = ChunksWanted();
    }
    StartWrite(left_ > 0 ? &Chunk() : &Byte());
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (left_ == 0) return StartRead(&request_);
    if (--left_ == 0) return Finish(grpc::Status::OK);
    StartWrite(&Chunk());
  }

  void OnDone() override { delete this; }

 private:
  static const grpc::ByteBuffer& Chunk() {
    static const grpc::ByteBuffer buffer = Prepared(kChunk);
    return buffer;
  }
  static const grpc::ByteBuffer& Byte() {
    static const grpc::ByteBuffer buffer = Prepared(1);
    return buffer;
  }

  uint64_t ChunksWanted() {
    grpc::Slice slice;
    v1::ExecRequest request;
    if (!request_.DumpToSingleSlice(&slice).ok() ||
        !request.ParseFromArray(slice.begin(), static_cast<int>(slice.size())) ||
        request.start().spec().argv_size() != 2) {
      return 0;
    }
    return std::strtoull(request.start().spec().argv(1).c_str(), nullptr, 10);
  }

  grpc::ByteBuffer request_;
  bool first_ = true;
  uint64_t left_ = 0;
};

class EchoService final : public SandboxBroker::WithCallbackMethod_Run<
                              SandboxBroker::WithRawCallbackMethod_Exec<SandboxBroker::Service>> {
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, const v1::RunRequest*,
                                v1::RunResponse* response) override {
    response->mutable_ended()->mutable_exited()->set_code(0);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exec(
      grpc::CallbackServerContext*) override {
    return new EchoReactor;
  }
};

}  // namespace

int ServeGrpc() {
  EchoService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) Fail("the gRPC floor can't listen");
  std::printf("%d\n", port);
  std::fflush(stdout);
  char ignored;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  server->Shutdown();
  return 0;
}

}  // namespace sandbroker::bench
