#include "tools/cli/exec_session.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>

#include "lib/base/strings.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"
#include "tools/cli/stdin_pump.h"

namespace sandbroker::cli {

ExecSession::ExecSession(const client::Client& client, const std::string& sandbox_id,
                         const SessionOptions& options)
    : options_(options), execution_(client.Exec(sandbox_id, options.program, options.exec)) {}

int ExecSession::Run(Interrupts& interrupts) {
  interrupts.SetHandler([this](int signal) { OnSignal(signal); });
  StdinPump pump(execution_);
  if (options_.exec.input == client::Stdin::kPipe) pump.Start();
  absl::Status status;
  while (true) {
    absl::StatusOr<std::optional<client::Event>> event = execution_.Next();
    status = event.status();
    if (!event.ok() || !event->has_value()) break;
    OnEvent(**event);
  }
  interrupts.SetHandler(nullptr);
  execution_.Detach();
  pump.Stop();
  return Finish(status);
}

void ExecSession::OnSignal(int signal) {
  // Refused when the program has ended meanwhile, which is what was wanted.
  switch (policy_.Take(signal)) {
    case InterruptAction::kForward:
      (void)execution_.Signal(SIGINT);
      break;
    case InterruptAction::kCancel:
      Complain("cancelling the program; once more to leave it");
      (void)execution_.Cancel();
      break;
    case InterruptAction::kLeave:
      left_ = true;
      execution_.Detach();
      break;
  }
}

void ExecSession::OnEvent(const client::Event& event) {
  if (event.has_ready()) ready_ = true;
  if (event.has_ended()) end_ = event.ended();
  if (options_.json) {
    Print(STDOUT_FILENO, ToJson(event) + "\n");
    return;
  }
  if (event.has_output()) {
    const bool err = event.output().stream() == v1::OUTPUT_STREAM_STDERR;
    Print(err ? STDERR_FILENO : STDOUT_FILENO, event.output().data());
  } else if (event.has_gap()) {
    Complain(StrCat("output from ", event.gap().from_offset(), " to ", event.gap().to_offset(),
                    " was dropped"));
  } else if (event.has_warning()) {
    Complain(StrCat("warning: ", event.warning().reason(), ": ", event.warning().message()));
  }
}

void ExecSession::Print(int fd, const std::string& data) {
  if (closed_[fd]) return;
  const WriteResult result = WriteAll(fd, data);
  if (result == WriteResult::kDone) return;
  closed_[fd] = true;
  if (result == WriteResult::kFailed) {
    write_error_ = StrCat(fd == STDERR_FILENO ? "stderr" : "stdout", ": ", ErrorText(errno));
    return;
  }
  // The program learns of the closed pipe as it would have on this side.
  (void)execution_.Signal(SIGPIPE);
}

int ExecSession::Finish(const absl::Status& status) {
  if (!end_) {
    if (left_) {
      Complain(StrCat("left execution ", execution_.execution_id(),
                      " before its end; it may go on in the sandbox"));
      return kExitOutcomeUnknown;
    }
    Complain(Describe(status));
    return ready_ ? kExitOutcomeUnknown : kExitFailure;
  }
  const Outcome outcome = OutcomeOf(*end_);
  if (!outcome.message.empty()) Complain(outcome.message);
  if (!end_->output_complete()) Complain("some of the program's output is missing");
  if (write_error_.empty()) return outcome.exit_code;
  Complain(StrCat(write_error_, ": the program's output is not complete; its own exit code was ",
                  outcome.exit_code));
  return kExitFailure;
}

}  // namespace sandbroker::cli
