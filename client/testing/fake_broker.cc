// Programs of the fake, by argv[0]:
//   print TEXT, complain TEXT   to stdout, stderr; exit 0
//   exit N, die N               exited{N}, signaled{N}
//   end REASON                  that end: timed_out, agent_lost, ...
//   cat                         input to output in order, until its end; exit 0
//   ignore-input                input_limit 8, reads on only for a signal N; exit N
//   closed-input                says input_closed; exit 0 after the next signal
//   wait                        signaled{N} by a signal, cancelled by a cancel
//   print-then-wait TEXT        both
//   stubborn                    ends by nothing but the loss of its caller
//   flood N                     N outputs of 64 KiB; exit 0
//   twice                       `ended` two times, different codes
//   vanish                      OK without `ended`
//   drop                        ready, then UNAVAILABLE
//   refuse                      NOT_FOUND before ready
//   lossy                       a warning, a gap, and an end with incomplete output; exit 0
#include "client/testing/fake_broker.h"

#include <cstdlib>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace sandbroker::client::testing {
namespace {

constexpr uint64_t kWindow = 64 * 1024;

v1::ExecEnded Exited(int code) {
  v1::ExecEnded ended;
  ended.mutable_exited()->set_code(code);
  ended.set_output_complete(true);
  return ended;
}

v1::ExecEnded Signaled(int number) {
  v1::ExecEnded ended;
  ended.mutable_signaled()->set_number(number);
  ended.set_output_complete(true);
  return ended;
}

v1::ExecEnded EndNamed(const std::string& reason) {
  v1::ExecEnded ended;
  ended.set_output_complete(true);
  if (reason == "timed_out") ended.mutable_timed_out()->set_last_signal(15);
  if (reason == "out_of_memory") ended.mutable_out_of_memory();
  if (reason == "cancelled") ended.mutable_cancelled()->set_by("release");
  if (reason == "not_found" || reason == "no_access") {
    ended.mutable_start_failed()->set_error_number(reason == "not_found" ? 2 : 13);
    ended.mutable_start_failed()->set_step("exec");
  }
  if (reason == "lease_expired") ended.mutable_lease_expired();
  if (reason == "agent_lost") ended.mutable_agent_lost()->set_detail("killed");
  if (reason == "sandbox_gone") ended.mutable_sandbox_gone()->set_cause("released");
  if (reason == "outcome_unknown") ended.mutable_outcome_unknown()->set_detail("no answer");
  return ended;
}

}  // namespace

// Writes the events of one program; offsets grow by themselves.
class FakeBroker::Player {
 public:
  explicit Player(grpc::ServerReaderWriter<v1::ExecResponse, v1::ExecRequest>& stream)
      : stream_(stream) {}

  void Ready(const std::string& execution_id, uint64_t input_limit) {
    v1::ExecResponse event;
    event.mutable_ready()->set_execution_id(execution_id);
    event.mutable_ready()->set_incarnation("i1");
    event.mutable_ready()->set_input_limit(input_limit);
    stream_.Write(event);
  }
  void Output(v1::OutputStream output, const std::string& data) {
    v1::ExecResponse event;
    event.mutable_output()->set_stream(output);
    event.mutable_output()->set_offset(offset_);
    event.mutable_output()->set_data(data);
    offset_ += data.size();
    stream_.Write(event);
  }
  void Window(uint64_t limit) {
    v1::ExecResponse event;
    event.mutable_input_window()->set_limit(limit);
    stream_.Write(event);
  }
  void InputClosed() {
    v1::ExecResponse event;
    event.mutable_input_closed();
    stream_.Write(event);
  }
  void Lossy() {
    v1::ExecResponse event;
    event.mutable_heartbeat();
    stream_.Write(event);
    event.mutable_warning()->set_reason("LEASE_ENDING");
    event.mutable_warning()->set_message("60 s left");
    stream_.Write(event);
    event.mutable_gap()->set_to_offset(10);
    stream_.Write(event);
  }
  void End(v1::ExecEnded ended) {
    v1::ExecResponse event;
    ended.set_final_offset(offset_);
    *event.mutable_ended() = std::move(ended);
    stream_.Write(event);
  }

 private:
  grpc::ServerReaderWriter<v1::ExecResponse, v1::ExecRequest>& stream_;
  uint64_t offset_ = 0;
};

grpc::Status ErrorStatus(grpc::StatusCode code, const std::string& reason,
                         const std::string& message, int retry_seconds, const std::string& field) {
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("sandbroker.dev");
  (*info.mutable_metadata())["pool"] = "dry";
  details.add_details()->PackFrom(info);
  if (retry_seconds != 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_seconds);
    details.add_details()->PackFrom(retry);
  }
  if (!field.empty()) {
    google::rpc::BadRequest request;
    google::rpc::BadRequest::FieldViolation* violation = request.add_field_violations();
    violation->set_field(field);
    violation->set_description(message);
    details.add_details()->PackFrom(request);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

FakeBroker::FakeBroker() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(5 * 1024 * 1024);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

FakeBroker::~FakeBroker() { server_->Shutdown(std::chrono::system_clock::now()); }

FakeRecord FakeBroker::record() {
  std::lock_guard lock(mutex_);
  return record_;
}

void FakeBroker::FailReleases(grpc::Status status) {
  std::lock_guard lock(mutex_);
  release_status_ = std::move(status);
}

grpc::Status FakeBroker::Acquire(grpc::ServerContext* context, const v1::AcquireRequest* request,
                                 v1::AcquireResponse* response) {
  size_t number = 0;
  Record([&](FakeRecord& record) {
    record.acquires.push_back(*request);
    number = record.acquires.size();
  });
  if (request->task().pool() == "dry") {
    return ErrorStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "POOL_EXHAUSTED",
                       "pool \"dry\" has none", 2);
  }
  if (request->task().pool() == "slow") {
    std::unique_lock lock(mutex_);
    for (int i = 0; i < 1000 && !context->IsCancelled(); ++i) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    ++record_.given_up;
    changed_.notify_all();
    return grpc::Status(grpc::StatusCode::CANCELLED, "given up");
  }
  v1::Sandbox* sandbox = response->mutable_sandbox();
  sandbox->set_sandbox_id("sb1_fake" + std::to_string(number));
  sandbox->set_state(v1::SANDBOX_STATE_READY);
  sandbox->set_kind(v1::SANDBOX_KIND_TASK);
  sandbox->set_pool("default");
  *sandbox->mutable_labels() = request->labels();
  sandbox->mutable_lease()->mutable_remaining()->set_seconds(600);
  response->set_source(v1::ACQUIRE_SOURCE_WARM);
  response->mutable_timing()->mutable_total()->set_nanos(700'000);
  return grpc::Status::OK;
}

grpc::Status FakeBroker::Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                                 v1::ReleaseResponse*) {
  Record([&](FakeRecord& record) { record.released.push_back(request->sandbox_id()); });
  std::lock_guard lock(mutex_);
  return release_status_;
}

grpc::Status FakeBroker::ReleaseTaskSandboxes(grpc::ServerContext*,
                                              const v1::ReleaseTaskSandboxesRequest* request,
                                              v1::ReleaseTaskSandboxesResponse* response) {
  Record([&](FakeRecord& record) { record.bulk_releases.push_back(*request); });
  response->add_results()->set_sandbox_id("sb1_a");
  v1::ReleaseResult* failed = response->add_results();
  failed->set_sandbox_id("sb1_b");
  failed->set_code(grpc::StatusCode::UNAVAILABLE);
  failed->set_message("does not answer");
  return grpc::Status::OK;
}

grpc::Status FakeBroker::ReadTaskCapacity(grpc::ServerContext*, const v1::ReadTaskCapacityRequest*,
                                          v1::ReadTaskCapacityResponse* response) {
  v1::PoolCapacity* pool = response->add_pools();
  pool->set_pool("default");
  pool->set_wanted(2);
  pool->set_limit(16);
  return grpc::Status::OK;
}

grpc::Status FakeBroker::ListSandboxes(grpc::ServerContext*,
                                       const v1::ListSandboxesRequest* request,
                                       v1::ListSandboxesResponse* response) {
  const bool first = request->page_token().empty();
  v1::Sandbox* sandbox = response->add_sandboxes();
  sandbox->set_sandbox_id(first ? "sb1_one" : "sb1_two");
  sandbox->set_pool("default");
  sandbox->set_state(v1::SANDBOX_STATE_READY);
  if (first) response->set_next_page_token("next");
  return grpc::Status::OK;
}

grpc::Status FakeBroker::WatchSandboxes(grpc::ServerContext* context,
                                        const v1::WatchSandboxesRequest* request,
                                        grpc::ServerWriter<v1::WatchSandboxesResponse>* writer) {
  v1::WatchSandboxesResponse event;
  event.mutable_added()->set_sandbox_id("sb1_one");
  event.mutable_added()->set_pool("default");
  event.mutable_added()->set_state(v1::SANDBOX_STATE_READY);
  (*event.mutable_added()->mutable_labels())["app"] = "ci";
  writer->Write(event);
  event.mutable_synced();
  writer->Write(event);
  event.mutable_removed()->set_sandbox_id("sb1_one");
  event.mutable_removed()->set_reason("SANDBOX_GONE");
  event.mutable_removed()->set_cause("released");
  writer->Write(event);
  std::unique_lock lock(mutex_);
  for (int i = 0; request->label_selector() == "wait" && i < 1000; ++i) {
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    changed_.wait_for(lock, std::chrono::milliseconds(10));
  }
  return ErrorStatus(grpc::StatusCode::UNAVAILABLE, "SERVER_DRAINING", "going away", 1);
}

grpc::Status FakeBroker::RenewLeases(grpc::ServerContext*, const v1::RenewLeasesRequest* request,
                                     v1::RenewLeasesResponse* response) {
  for (const std::string& id : request->sandbox_ids()) {
    v1::RenewResult* result = response->add_results();
    result->set_sandbox_id(id);
    if (id.ends_with("1")) {
      result->mutable_lease()->mutable_remaining()->set_seconds(600);
    } else {
      result->set_code(grpc::StatusCode::FAILED_PRECONDITION);
      result->set_reason("LEASE_EXPIRED");
      result->set_message("the lease is over");
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeBroker::Run(grpc::ServerContext*, const v1::RunRequest* request,
                             v1::RunResponse* response) {
  Record([&](FakeRecord& record) { record.runs.push_back(*request); });
  *response->mutable_ended() = Exited(3);
  response->set_execution_id(request->execution_id());
  response->set_stdout(request->stdin());
  return grpc::Status::OK;
}

grpc::Status FakeBroker::GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                                       v1::GetServerInfoResponse* response) {
  response->set_version("0.0.0-fake");
  response->add_backends()->set_name("local");
  return grpc::Status::OK;
}

bool FakeBroker::ReadMessage(ExecServerStream& stream, v1::ExecRequest& message) {
  if (!stream.Read(&message)) {
    Record([](FakeRecord& record) { ++record.abandoned; });
    return false;
  }
  Record([&](FakeRecord& record) { record.messages.push_back(message); });
  return true;
}

grpc::Status FakeBroker::PlayCat(ExecServerStream& stream, Player& player) {
  v1::ExecRequest message;
  uint64_t received = 0;
  while (ReadMessage(stream, message)) {
    if (!message.has_stdin()) continue;
    const v1::ExecStdin& input = message.stdin();
    if (input.offset() != received) return grpc::Status(grpc::StatusCode::ABORTED, "a hole");
    if (input.data().size() > kWindow) return grpc::Status(grpc::StatusCode::ABORTED, "too much");
    received += input.data().size();
    if (!input.data().empty()) player.Output(v1::OUTPUT_STREAM_STDOUT, input.data());
    player.Window(received + kWindow);
    if (input.eof()) {
      player.End(Exited(0));
      break;
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeBroker::PlayWaiting(ExecServerStream& stream, Player& player,
                                     const std::string& name) {
  if (name == "closed-input") player.InputClosed();
  v1::ExecRequest message;
  while (ReadMessage(stream, message)) {
    if (name == "stubborn") continue;
    if (!message.has_signal() && !message.has_cancel()) continue;
    const int signal = message.signal().number();
    player.End(message.has_cancel()     ? EndNamed("cancelled")
               : name == "closed-input" ? Exited(0)
               : name == "ignore-input" ? Exited(signal)
                                        : Signaled(signal));
    break;
  }
  return grpc::Status::OK;
}

grpc::Status FakeBroker::PlayPlain(Player& player, const std::string& name,
                                   const std::string& argument) {
  const int number = std::atoi(argument.c_str());
  if (name == "drop") return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection reset");
  if (name == "vanish") return grpc::Status::OK;
  if (name == "print") player.Output(v1::OUTPUT_STREAM_STDOUT, argument);
  if (name == "complain") player.Output(v1::OUTPUT_STREAM_STDERR, argument);
  if (name == "lossy") player.Lossy();
  for (int i = 0; name == "flood" && i < number; ++i) {
    player.Output(v1::OUTPUT_STREAM_STDOUT,
                  std::string(64 * 1024, static_cast<char>('a' + i % 26)));
  }
  v1::ExecEnded ended = name == "die"   ? Signaled(number)
                        : name == "end" ? EndNamed(argument)
                                        : Exited(name == "exit" ? number : 0);
  if (name == "lossy") ended.set_output_complete(false);
  player.End(std::move(ended));
  if (name == "twice") player.End(Exited(9));
  return grpc::Status::OK;
}

grpc::Status FakeBroker::Exec(grpc::ServerContext*, ExecServerStream* stream) {
  v1::ExecRequest message;
  if (!stream->Read(&message)) return grpc::Status::OK;
  const v1::ExecStart start = message.start();
  Record([&](FakeRecord& record) {
    record.starts.push_back(start);
    record.messages.clear();
  });
  const std::string name = start.spec().argv(0);
  const std::string argument = start.spec().argv_size() > 1 ? start.spec().argv(1) : "";
  if (name == "refuse") {
    return ErrorStatus(grpc::StatusCode::NOT_FOUND, "SANDBOX_NOT_FOUND", "no such sandbox");
  }
  Player player(*stream);
  player.Ready(start.execution_id(), name == "ignore-input" ? 8 : kWindow);
  if (name == "cat") return PlayCat(*stream, player);
  if (name == "print-then-wait") player.Output(v1::OUTPUT_STREAM_STDOUT, argument);
  if (name == "wait" || name == "ignore-input" || name == "closed-input" || name == "stubborn" ||
      name == "print-then-wait") {
    return PlayWaiting(*stream, player, name);
  }
  return PlayPlain(player, name, argument);
}

}  // namespace sandbroker::client::testing
