// One Exec call: the caller's messages become calls on an Execution, the execution's callbacks
// become events. Reads the caller only while the program's side takes input, and gives credit back
// only for what gRPC has taken, so a stream holds one window of output and two messages of input.
// Owned by its stream; loop thread only.
//
//   state     message                  execution                    caller gone
//   waiting   start -> running, or     -                            over
//             settling -> running
//   running   stdin, signal, cancel    events; ended -> over (OK)   reader lost -> over
//                                      failed -> over (its status)
#pragma once

#include <memory>
#include <string>

#include "lib/broker/broker.h"
#include "lib/rpc/stream_session.h"
#include "sandbroker/v1/execution.pb.h"
#include "server/services/authoriser.h"
#include "server/services/exec_outbox.h"
#include "server/services/service_settings.h"

namespace sandbroker::services {

class ExecSession final : public rpc::StreamHandler<v1::ExecRequest>,
                          public broker::ExecutionObserver {
 public:
  // All of them outlive it. `outbox` belongs to `stream` and is used inside Send alone.
  ExecSession(rpc::StreamCore& stream, ExecOutbox* outbox, broker::Broker& broker,
              const Authoriser& authoriser, const rpc::Runtime& runtime,
              const ServiceSettings& settings);
  ~ExecSession() override;

  void OnRequest(v1::ExecRequest request) override;
  void OnReadsDone() override;
  void OnSent(uint64_t credit) override;
  void OnGone() override;

  void OnReady(const broker::agent::Ready& ready) override;
  void OnOutput(uint64_t offset, int fd, SharedBytes data) override;
  void OnGap(uint64_t from, uint64_t to) override;
  void OnWarning(const std::string& reason, const std::string& message) override;
  void OnInputClosed(uint64_t accepted) override;
  void OnInputLimit(uint64_t limit) override;
  void OnEnded(const broker::agent::Ended& ended) override;
  void OnFailed(const absl::Status& status) override;

 private:
  absl::Status Handle(v1::ExecRequest* request);
  absl::Status Start(const v1::ExecStart& start);
  absl::Status StartNow(const broker::Principal& who, broker::StartSpec spec);
  static Task<void> StartWhenSettled(ExecSession* session, std::shared_ptr<bool> alive,
                                     broker::Principal who, broker::StartSpec spec);
  absl::Status Input(v1::ExecStdin* input);
  absl::Status Cancel(const v1::ExecCancel& cancel);
  // Lets go of the program, which goes on.
  void Leave();
  void Over(const absl::Status& status);
  void Push(const v1::ExecResponse& event);
  template <class Change>
  void Send(const Change& change);
  void MaybeRead();
  void ArmHeartbeat(Duration delay);
  void OnHeartbeat();

  rpc::StreamCore& stream_;
  ExecOutbox* const outbox_;
  broker::Broker& broker_;
  const Authoriser& authoriser_;
  Scheduler& scheduler_;
  TaskScope& scope_;
  const ServiceSettings& settings_;

  std::shared_ptr<broker::Execution> execution_;
  bool started_ = false;
  bool settling_ = false;  // started; the broker is finding out about its sandbox
  bool over_ = false;
  bool takes_input_ = false;
  bool reads_done_ = false;
  Duration kill_grace_{0};
  uint64_t next_input_ = 0;   // an unset stdin offset means this
  uint64_t input_limit_ = 0;  // the caller was told
  uint64_t end_offset_ = 0;   // after the last output that was seen
  uint64_t uncredited_ = 0;   // taken by gRPC before execution_ was set
  Time last_sent_;
  std::unique_ptr<Timer> heartbeat_;
  // Lets what waits for the broker find that the call is over.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbroker::services
