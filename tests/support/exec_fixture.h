// Exec calls of a test against the service behind a real gRPC server.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/service_fixture.h"

namespace sandbroker::testing {

inline constexpr size_t kPiece = 64 * 1024;

// Prints `total` bytes as fast as credit allows, then exits.
inline void PrintAll(const std::shared_ptr<FakeStream>& stream, uint64_t total) {
  auto* agent = stream.get();
  agent->on_credit = [agent, total] {
    while (agent->printed() < total && agent->credit() >= kPiece) {
      agent->Print(1, std::string(kPiece, static_cast<char>('a' + agent->printed() / kPiece % 26)));
    }
    if (agent->printed() >= total) agent->Exit(0);
  };
  agent->on_credit();
}

inline v1::ExecRequest Input(std::string data, bool eof = false) {
  v1::ExecRequest request;
  request.mutable_stdin()->set_data(std::move(data));
  request.mutable_stdin()->set_eof(eof);
  return request;
}

class ExecTest : public ServiceFixture {
 protected:
  ExecTest() = default;
  explicit ExecTest(services::ServiceSettings settings) : ServiceFixture(std::move(settings)) {}

  struct Client {
    grpc::ClientContext context;
    std::unique_ptr<ExecStream> stream;
    v1::ExecResponse event;

    bool Read() { return stream->Read(&event); }
  };
  std::unique_ptr<Client> Open(const v1::ExecRequest& first, Stub* stub = nullptr) {
    auto client = std::make_unique<Client>();
    SetDeadline(&client->context);
    client->stream = (stub == nullptr ? stub_.get() : stub)->Exec(&client->context);
    client->stream->Write(first);
    return client;
  }
  std::shared_ptr<FakeStream> OnlyStream() {
    const auto link = backend_.only_link();
    return link == nullptr || link->streams().empty() ? nullptr : link->streams().back();
  }
  // The status of a call whose messages were `requests`.
  CallError Fails(const std::vector<v1::ExecRequest>& requests) {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto stream = stub_->Exec(&context);
    for (const v1::ExecRequest& request : requests) stream->Write(request);
    v1::ExecResponse event;
    while (stream->Read(&event)) {
    }
    return ErrorOf(stream->Finish());
  }
};

}  // namespace sandbroker::testing
