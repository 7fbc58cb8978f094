// One execution: its processes, its pipes and the machines that decide about them (output_log,
// input_ledger, end_decider), and the streams attached to it. Lives in the agent from its start
// until its id becomes a tombstone. Agent thread only.
#pragma once

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/guest/core/end_decider.h"
#include "lib/guest/core/input_ledger.h"
#include "lib/guest/core/output_log.h"
#include "lib/guest/environment.h"
#include "lib/guest/execution_stream.h"
#include "lib/guest/input_pipe.h"
#include "lib/guest/launch.h"
#include "lib/guest/oom_counter.h"
#include "lib/guest/output_pipe.h"
#include "lib/guest/process_tree.h"
#include "lib/guest/reaper.h"

namespace sandbroker::guest {

using AgentTimer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                      boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::io_context::executor_type>;

inline Time Now() { return std::chrono::steady_clock::now(); }

// What all executions of an agent share. Outlives them.
struct Workshop {
  Workshop(boost::asio::io_context& context, std::string own_boot_id, uint64_t output_budget)
      : io(context), boot_id(std::move(own_boot_id)), budget(output_budget), reaper(context) {}

  boost::asio::io_context& io;
  const std::string boot_id;
  Environment environment;
  LaunchSettings launch;
  OutputBudget budget;
  Reaper reaper;
  OomCounter oom;
  ReadBuffer read_buffer;
  Time last_activity = Time::min();  // a byte of input or output moved

  // Pipes that outlived their execution; beyond the limit the oldest is closed.
  static constexpr size_t kMaxDrains = 512;
  std::deque<std::weak_ptr<OutputPipe>> drains;
  void KeepDraining(const std::shared_ptr<OutputPipe>& pipe);
};

class Execution : public std::enable_shared_from_this<Execution> {
 public:
  // `on_changed` runs when it ended, and after that when its last stream left, when it is known
  // that processes of it live on, and when nothing of it is left. CAPACITY when its output does not
  // fit the sandbox's budget.
  static absl::StatusOr<std::shared_ptr<Execution>> Create(
      Workshop* shop, const agent::v1::Start& start, std::function<void(Execution&)> on_changed);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Starts the program. A failure is an end like any other.
  void Launch(const agent::v1::Start& start);

  struct Roles {
    const agent::v1::Reader* reader = nullptr;
    const agent::v1::Writer* writer = nullptr;
  };
  struct Greeting {
    agent::v1::Ready ready;
    std::optional<agent::v1::Gap> gap;
  };
  // With no role the stream only waits for the end and may send commands.
  absl::StatusOr<Greeting> Attach(ExecutionStream* stream, const Roles& roles);
  // After the greeting was sent: credit for input, and output or the end if there is some.
  void Resume(ExecutionStream* stream);

  // From the attached streams; what comes from one that is not attached is ignored.
  void OnInput(ExecutionStream* stream, uint64_t offset, std::string_view bytes);
  void OnCloseInput(ExecutionStream* stream, uint64_t offset);
  void OnAck(ExecutionStream* stream, uint64_t offset);
  void OnSignal(int number);
  void OnCancel(const agent::v1::Cancel& cancel);
  enum class Leave { kLost, kOnPurpose, kServed };
  void OnLeave(ExecutionStream* stream, Leave how);

  bool HasOutput(ExecutionStream* stream) const;
  std::optional<OutputLog::Piece> Next(ExecutionStream* stream, uint64_t max);
  // The end, once everything before it was fetched by this stream.
  std::optional<agent::v1::Ended> EndFor(ExecutionStream* stream) const;

  const std::string& id() const { return id_; }
  bool ended() const { return end_.ended().has_value(); }
  bool attached() const { return !attachments_.empty(); }
  // The end may still be on its way when a link drops; until then it can be asked for once more.
  static constexpr Duration kRedelivery = std::chrono::milliseconds(500);
  // When an ended one that has no stream may be dropped: at once if it was served to its end. Not
  // while processes of it live, so that they stay known by its id.
  Time droppable_from() const { return end_.lingering() ? kNever : output_droppable_from(); }
  Time output_droppable_from() const;
  // It ended and processes that it started live on.
  bool left_processes() const { return end_.lingering() && (others_remain_ || end_.terminating()); }
  // The end was fetched by a reader, so its output is only there for those who read it again.
  bool served() const { return served_at_ != kNever; }
  uint64_t log_cost() const { return log_->cost(); }
  // Of an ended one without streams: the record stays, the output goes.
  void DropOutput() { log_->DropOutput(); }
  // For the agent's own shutdown.
  void Terminate(Duration grace);

  // The agent's notes: its table knows of the end; its place among the served ones and what its
  // output was counted as there.
  bool told_ended = false;
  uint64_t served_place = 0;
  uint64_t served_bytes = 0;

 private:
  struct Attachment {
    ExecutionStream* stream = nullptr;
    uint64_t reader = 0;  // of the log; 0 = does not read
    uint64_t epoch = 0;   // of the ledger; 0 = does not write
    bool gap = false;
  };

  Execution(Workshop* shop, const agent::v1::Start& start, std::unique_ptr<OutputLog> log,
            std::function<void(Execution&)> on_changed);
  void Adopt(Launched launched);
  std::shared_ptr<ProcessTree> MakeTree(Supervised supervised);
  void TakeInput(UniqueFd fd);
  void WatchPipe(const std::shared_ptr<OutputPipe>& pipe);
  void ReadPipe(const std::shared_ptr<OutputPipe>& pipe);
  enum class Pace { kOfTheReader, kFinal };
  bool ReadOnce(OutputPipe& pipe, Pace pace);
  void PausePipes();
  void ResumePipes();
  void ClosePipe(OutputPipe& pipe);
  void CutOutput();
  void OnLeaderEnded(const ProcessTree::End& end);
  void OnOthersRemain();
  void OnSupervisorKilled();
  void OnTreeGone();
  void OnInputGone();
  void Act();
  void Finish();
  void ArmTimer();
  void NotifyReader();
  void ResetStream(ExecutionStream* stream, const absl::Status& why);
  absl::Status AttachReader(const agent::v1::Reader& reader, Attachment* attachment,
                            uint64_t* live_from, std::optional<agent::v1::Gap>* gap);
  absl::Status AttachWriter(const agent::v1::Writer& writer, Attachment* attachment);
  void DisplaceReader(uint64_t reader, ExecutionStream* by);
  void DisplaceWriter(ExecutionStream* by);
  Attachment* Find(ExecutionStream* stream);
  const Attachment* Find(ExecutionStream* stream) const;

  Workshop* const shop_;
  const std::string id_;
  const std::function<void(Execution&)> on_changed_;
  std::unique_ptr<OutputLog> log_;
  InputLedger ledger_;
  EndDecider end_;
  pid_t pid_ = 0;
  std::shared_ptr<ProcessTree> tree_;  // none when it could not be started
  bool others_remain_ = false;
  uint64_t oom_kills_before_ = 0;
  bool paused_ = false;  // the log is full; the program waits
  bool unread_ = false;  // the log was closed over bytes that were still in a pipe
  bool log_finished_ = false;
  // When an end was handed to a reader; kNever = not yet.
  Time served_at_ = kNever;
  std::shared_ptr<InputPipe> input_;
  std::array<std::shared_ptr<OutputPipe>, 2> pipes_;
  std::vector<Attachment> attachments_;
  AgentTimer timer_;
  Time armed_for_ = kNever;  // not after the time it is wanted for
};

}  // namespace sandbroker::guest
