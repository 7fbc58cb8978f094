// One Run call: observes its execution, keeps the first bytes of each output, counts the rest, and
// never holds the program back. If the caller goes away, a program without an execution_id is
// cancelled (TERM, grace, KILL), since nobody can ask for its result any more; one with an id goes
// on, since a repeated Run with that id meets it again. Owns itself until the execution is over;
// loop thread only.
#pragma once

#include <memory>
#include <string>

#include "lib/broker/broker.h"
#include "lib/rpc/unary.h"
#include "sandbroker/v1/execution.pb.h"
#include "server/services/execution_fields.h"

namespace sandbroker::services {

class RunCall final : public broker::ExecutionObserver {
 public:
  static void Begin(broker::Broker& broker, const broker::Principal& who, RunSpec spec,
                    std::string input, const CancelToken& cancel,
                    rpc::Responder<v1::RunResponse> responder);

  void OnReady(const broker::agent::Ready& ready) override;
  void OnOutput(uint64_t offset, int fd, SharedBytes data) override;
  void OnGap(uint64_t from, uint64_t to) override;
  void OnWarning(const std::string&, const std::string&) override {}
  void OnInputClosed(uint64_t) override {}
  void OnInputLimit(uint64_t) override {}
  void OnEnded(const broker::agent::Ended& ended) override;
  void OnFailed(const absl::Status& status) override;

 private:
  RunCall(const RunSpec& spec, rpc::Responder<v1::RunResponse> responder);
  void OnCancelled();

  rpc::Responder<v1::RunResponse> responder_;
  const uint32_t cap_;
  const bool has_id_;
  const Duration kill_grace_;
  bool gap_seen_ = false;
  uint64_t owed_ = 0;  // credit from before execution_ was set
  std::shared_ptr<broker::Execution> execution_;
  std::shared_ptr<RunCall> self_;
};

}  // namespace sandbroker::services
