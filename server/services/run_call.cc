#include "server/services/run_call.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "server/services/translate.h"

namespace sandbroker::services {

RunCall::RunCall(const RunSpec& spec, rpc::Responder<v1::RunResponse> responder)
    : responder_(std::move(responder)),
      cap_(spec.output_cap),
      has_id_(!spec.start.start.execution_id().empty()),
      kill_grace_(spec.start.start.kill_grace_ns()) {}

void RunCall::Begin(broker::Broker& broker, const broker::Principal& who, RunSpec spec,
                    std::string input, const CancelToken& cancel,
                    rpc::Responder<v1::RunResponse> responder) {
  if (cancel.cancelled()) {
    return responder.Finish(MakeError(Reason::kCancelled, "the caller went away"));
  }
  const std::shared_ptr<RunCall> run(new RunCall(spec, std::move(responder)));
  run->self_ = run;
  auto execution = broker.Start(who, std::move(spec.start), run.get());
  if (!execution.ok()) {
    run->self_.reset();
    return run->responder_.Finish(execution.status());
  }
  if (run->responder_.answered()) return;  // it was over before Start returned
  run->execution_ = *std::move(execution);
  if (run->owed_ > 0) run->execution_->Consumed(run->owed_);
  if (!input.empty()) {
    const uint64_t size = input.size();
    run->execution_->WriteInput(0, SharedBytes::Own(std::move(input)));
    run->execution_->CloseInput(size);
  }
  if (!run->responder_.answered()) cancel.OnCancel([run] { run->OnCancelled(); });
}

void RunCall::OnCancelled() {
  const auto self = std::exchange(self_, nullptr);
  if (responder_.answered()) return;
  if (has_id_) {
    execution_->Detach(broker::Execution::Leave::kLost);
  } else {
    execution_->Cancel("caller", kill_grace_);
    execution_->Detach(broker::Execution::Leave::kOnPurpose);
  }
  responder_.Finish(MakeError(Reason::kCancelled, "the caller went away"));
}

void RunCall::OnReady(const broker::agent::Ready& ready) {
  responder_.response().set_execution_id(ready.execution_id());
}

void RunCall::OnOutput(uint64_t, int fd, SharedBytes data) {
  v1::RunResponse& response = responder_.response();
  std::string& kept = fd == 1 ? *response.mutable_stdout() : *response.mutable_stderr();
  const size_t part = std::min(data.size(), cap_ - kept.size());
  kept.append(data.view().substr(0, part));
  const uint64_t cut = data.size() - part;
  if (cut > 0 && fd == 1) response.set_stdout_cut(response.stdout_cut() + cut);
  if (cut > 0 && fd != 1) response.set_stderr_cut(response.stderr_cut() + cut);
  if (execution_) {
    execution_->Consumed(data.size());
  } else {
    owed_ += data.size();
  }
}

void RunCall::OnGap(uint64_t, uint64_t) { gap_seen_ = true; }

void RunCall::OnEnded(const broker::agent::Ended& ended) {
  const auto self = std::exchange(self_, nullptr);
  v1::RunResponse& response = responder_.response();
  ToProto(ended, response.mutable_ended());
  // What fell out of the log before this call met the execution is not in its answer.
  if (gap_seen_) response.mutable_ended()->set_output_complete(false);
  responder_.Finish(absl::OkStatus());
}

void RunCall::OnFailed(const absl::Status& status) {
  const auto self = std::exchange(self_, nullptr);
  responder_.Finish(status);
}

}  // namespace sandbroker::services
