// Execution over an AgentStream. States: opening -> attached -> (parked <-> attached) -> over.
// Parked means that the link is gone and the sandbox may get another one; the relay then attaches
// again at the offset it has reached, so its observer sees one uninterrupted stream. Input is kept
// until the agent's credit shows that it was taken. Loop thread only; shared by its
// sandbox, until it is over, and whoever made the call.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/scheduler.h"
#include "lib/broker/agent_link.h"
#include "lib/broker/execution.h"

namespace sandbroker::broker {

class ExecutionRelay;

// What a relay needs of its sandbox.
class RelayOwner {
 public:
  virtual ~RelayOwner() = default;
  // The relay has ended or its observer left: it holds no stream any more. May destroy nothing
  // during the call.
  virtual void OnRelayOver(ExecutionRelay* relay) = 0;
  virtual void OnActivity() = 0;
  virtual void OnOutput(uint64_t bytes) = 0;
  virtual void OnInput(uint64_t bytes) = 0;
  virtual void OnGapSeen() = 0;
  virtual void OnExecutionEnded(const agent::Ended& ended) = 0;
};

class ExecutionRelay final : public Execution,
                             public AgentStreamHandler,
                             public std::enable_shared_from_this<ExecutionRelay> {
 public:
  ExecutionRelay(Scheduler& scheduler, RelayOwner* owner, ExecutionObserver* observer,
                 agent::Start start, uint64_t window);
  ~ExecutionRelay() override;

  void Begin(AgentLink& link);
  // The same, unless it has begun, or ended, meanwhile.
  void BeginLate(AgentLink& link);
  // The sandbox has another link of the same incarnation.
  void Resume(AgentLink& link);
  // The sandbox is gone, with everything in it.
  void OnGone(const agent::Ended& ended);
  // The observer hears `status`, the program goes on.
  void Fail(const absl::Status& status);
  // Of the broker's own; the agent's come as events.
  void Warn(const std::string& reason, const std::string& message);
  bool over() const { return over_; }

  const std::string& id() const override { return start_.execution_id(); }
  void WriteInput(uint64_t offset, SharedBytes data) override;
  uint64_t pending_input() const override { return pending_bytes_; }
  void CloseInput(uint64_t offset) override;
  void Signal(int number) override;
  void Cancel(const std::string& by, Duration grace) override;
  void Consumed(uint64_t bytes) override;
  void Detach(Leave leave) override;

  void OnEvent(const agent::Event& event) override;
  void OnData(uint64_t offset, int fd, SharedBytes data) override;
  void OnInputRoom() override;
  void OnEnd(const agent::Ended& ended) override;
  void OnReset(const agent::Reset& reset) override;
  void OnLinkLost(const absl::Status& why) override;

 private:
  struct Input {
    uint64_t offset;
    SharedBytes data;
  };

  void Open(AgentLink& link, const agent::Open& open);
  void OnReadyEvent(const agent::Ready& ready);
  void PumpInput();
  // Kept for the next link while there is none; at most kMaxWaitingCommands.
  void SendCommand(const agent::Command& command);
  void AnnounceInputLimit();
  // The agent can't be believed any more: the observer hears an error, never a guess.
  void Broken(const char* what);
  // Ends the relay; the observer's last callback is made by the caller.
  ExecutionObserver* Finish();

  Scheduler& scheduler_;
  RelayOwner* owner_;
  ExecutionObserver* observer_;
  agent::Start start_;
  const uint64_t window_;
  std::unique_ptr<AgentStream> stream_;
  bool over_ = false;
  bool reopened_ = false;  // not on its first link any more
  std::deque<agent::Command> waiting_commands_;
  std::optional<agent::Command> cancel_;  // the last one asked for
  uint64_t unconsumed_ = 0;               // output the observer has and has not given back yet
  bool ready_seen_ = false;               // by the observer
  uint64_t next_offset_ = 0;
  uint64_t attempt_;
  std::string boot_id_;
  // Input: [taken_, sent_) is under way, [sent_, ...) waits in pending_.
  std::deque<Input> under_way_;
  std::deque<Input> pending_;
  uint64_t pending_bytes_ = 0;
  uint64_t sent_ = 0;
  uint64_t announced_limit_ = 0;
  bool input_closed_ = false;
  bool close_wanted_ = false;
  bool close_sent_ = false;
  uint64_t close_offset_ = 0;
};

}  // namespace sandbroker::broker
