#include "server/app/app.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <memory>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"
#include "server/app/files.h"
#include "server/app/settings.h"

namespace sandbroker::app {
namespace {

using obs::Level;

// Over drain.delay and drain.grace: for ending the sandboxes and the threads.
constexpr std::chrono::seconds kStopBound(20);
// For answers that are on their way when the grace is over.
constexpr std::chrono::seconds kFarewell(2);

// Runs `fn` on the loop and waits for its result.
template <class Fn, class Result = std::invoke_result_t<Fn>>
Result OnLoop(Loop& loop, Fn fn) {
  // Shared, because the loop may still be inside set_value when the waiting side has its result.
  const auto task = std::make_shared<std::packaged_task<Result()>>(std::move(fn));
  std::future<Result> result = task->get_future();
  loop.Post([task] { (*task)(); });
  return result.get();
}

// Logs how long a step of the shutdown took.
class Step {
 public:
  explicit Step(std::string_view name, std::string_view message = "stopping")
      : name_(name), message_(message) {}
  ~Step() {
    const auto took = std::chrono::steady_clock::now() - begin_;
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
    obs::Log(Level::kInfo, message_, {{"step", name_}, {"took_ms", millis}});
  }

 private:
  const std::string_view name_;
  const std::string_view message_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

ExitCode App::Run() {
  Signals::Block();
  obs::ConfigureLog(ToLogFormat(config_.log), ToLogLevel(config_.log));
  RouteGrpcLog();
  if (!config_.server.port_file.empty()) unlink(config_.server.port_file.c_str());

  const absl::StatusOr<StateDir> state = StateDir::Open(config_.server.state_dir);
  if (!state.ok()) return Fail(ExitCode::kEnvironment, state.status());
  Parts parts(config_, *state);
  Signals signals([&parts] { parts.grpc.CancelAll(); });
  if (const auto status = parts.engine->Prepare(); !status.ok()) {
    return Fail(ExitCode::kEnvironment, status);
  }
  if (const auto status = Open(parts); !status.ok()) {
    return Fail(ExitCode::kCannotListen, status);
  }
  parts.loop.Start();
  ExitCode failure = ExitCode::kEnvironment;
  absl::Status served = Recover(parts);
  if (served.ok()) {
    failure = ExitCode::kCannotListen;
    served = Listen(parts);
  }
  if (served.ok()) {
    failure = ExitCode::kEnvironment;
    served = Serve(parts);
  }
  if (served.ok()) {
    signals.WaitForStop();
    Drain(parts, signals);
  } else {
    // Nobody was served: what an earlier broker left stays for one that can.
    OnLoop(parts.loop, [&parts] { parts.engine->KeepSandboxes(); });
  }
  Stop(parts, signals);
  if (!served.ok()) return Fail(failure, served);
  obs::FlushLog();
  return signals.quick() ? ExitCode::kForced : ExitCode::kOk;
}

// What can be opened without serving anybody.
absl::Status App::Open(Parts& parts) {
  const config::ServerConfig& server = config_.server;
  if (const auto admin = ToAddress(server.admin)) {
    SANDBROKER_RETURN_IF_ERROR(parts.admin.Open(*admin));
  }
  if (server.unix_socket.empty()) return absl::OkStatus();
  return parts.unix_listener.Open(server.unix_socket);
}

// Before anybody is served: a caller must not hear that its sandbox is gone while it is only not
// found yet.
absl::Status App::Recover(Parts& parts) {
  const Step step("recover", "starting");
  const auto done = std::make_shared<std::promise<absl::Status>>();
  parts.loop.Post([&parts, done] {
    const auto task = [](Parts* all,
                         std::shared_ptr<std::promise<absl::Status>> tell) -> Task<void> {
      absl::Status status = co_await all->engine->Recover();
      if (status.ok()) all->broker.UseHandleKey(all->engine->handle_key());
      tell->set_value(std::move(status));
    };
    parts.scope.Spawn("recover", task(&parts, done));
  });
  return done->get_future().get();
}

// gRPC comes last: it serves from then on, and all that can still fail afterwards takes the way
// through Stop.
absl::Status App::Listen(Parts& parts) {
  return parts.grpc.Start(ToAddress(config_.server.listen),
                          {{v1::SandboxBroker::service_full_name(), parts.service}});
}

absl::Status App::Serve(Parts& parts) {
  OnLoop(parts.loop, [&] {
    parts.engine->Start();
    parts.broker.StartSweeping();
    if (!config_.server.unix_socket.empty()) parts.unix_listener.Start();
    if (!config_.server.admin.empty()) parts.admin.Start();
  });
  parts.grpc.SetServing(GrpcServer::Serving::kYes);
  parts.ready = true;
  const std::string address = parts.grpc.address().empty()
                                  ? StrCat("unix:", config_.server.unix_socket)
                                  : parts.grpc.address();
  LogStart(parts, address);
  if (config_.server.port_file.empty()) return absl::OkStatus();
  return WriteFileAtomically(config_.server.port_file, address + "\n", 0644);
}

void App::Drain(Parts& parts, Signals& signals) {
  const Duration delay = config_.drain.delay;
  const Duration grace = config_.drain.grace;
  signals.SetDeadline(Signals::Clock::now() + delay + grace + kStopBound);
  parts.ready = false;
  parts.grpc.SetServing(GrpcServer::Serving::kNo);
  const Step step("drain delay");
  signals.WaitUnlessQuick(delay);
}

void App::Stop(Parts& parts, Signals& signals) {
  signals.SetDeadline(Signals::Clock::now() + config_.drain.grace + kStopBound);
  {
    const Step step("calls");
    OnLoop(parts.loop, [&parts] {
      parts.unix_listener.Stop();
      parts.broker.Drain();
    });
    WaitForCalls(parts, signals);
    parts.grpc.Shutdown(std::chrono::system_clock::now() + kFarewell);
  }
  {
    const Step step("sandboxes");
    const auto joined = std::make_shared<std::promise<void>>();
    parts.loop.Post([&parts, joined] {
      parts.admin.Stop();
      if (parts.engine->keeps_sandboxes()) parts.broker.LetGo();
      parts.scope.Spawn("end or leave all sandboxes", parts.engine->Shutdown());
      parts.scope.Join([joined] { joined->set_value(); });
    });
    joined->get_future().wait();
  }
  const Step step("loop");
  parts.loop.Stop();
  if (!config_.server.port_file.empty()) unlink(config_.server.port_file.c_str());
}

// Programs with a caller may end within the grace; then their calls hear SERVER_DRAINING.
void App::WaitForCalls(Parts& parts, Signals& signals) {
  const auto end = Signals::Clock::now() + config_.drain.grace;
  while (!signals.quick() && Signals::Clock::now() < end) {
    const size_t open = OnLoop(parts.loop, [&parts] { return parts.broker.open_executions(); });
    if (open == 0) break;
    signals.WaitUnlessQuick(std::chrono::milliseconds(50));
  }
  OnLoop(parts.loop, [&parts] { parts.broker.FailOpenExecutions(); });
}

ExitCode App::Fail(ExitCode code, const absl::Status& why) const {
  obs::Log(Level::kError, "cannot serve",
           {{"why", MessageOf(why)}, {"exit_code", static_cast<int>(code)}});
  obs::FlushLog();
  return code;
}

void App::LogStart(const Parts& parts, const std::string& address) const {
  obs::Log(Level::kInfo, "serving",
           {{"version", SANDBROKER_VERSION},
            {"address", address},
            {"unix_socket", config_.server.unix_socket},
            {"admin", config_.server.admin.empty() ? "off" : parts.admin.address()},
            {"backend", parts.engine->backend().name()},
            {"pools", StrJoin(parts.engine->backend().pools(), ",")},
            {"isolation", parts.engine->isolation()},
            {"state_dir", config_.server.state_dir},
            {"pid", getpid()}});
  for (const local::Protection& one : parts.engine->protections()) {
    obs::Log(Level::kInfo, "protection",
             {{"name", one.name},
              {"state", local::StateName(one.state)},
              {"detail", one.detail},
              {"remedy", one.remedy}});
  }
}

}  // namespace sandbroker::app
