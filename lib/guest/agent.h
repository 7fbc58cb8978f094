// The agent: listens, owns links and executions, obeys signals from outside, and ends itself when
// its backstop runs out. Everything runs on the thread that calls Run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "lib/guest/core/execution_table.h"
#include "lib/guest/execution.h"
#include "lib/guest/link.h"
#include "lib/guest/listener.h"
#include "lib/guest/options.h"

namespace sandbroker::guest {

class Agent final : public LinkOwner {
 public:
  Agent(boost::asio::io_context& io, AgentOptions options);
  ~Agent() override;

  // Prepares the process (signals, limits, environment) and listens.
  absl::Status Start(Credentials credentials);
  // Until told to end; answers the exit code.
  int Run();

  agent::v1::AgentHello Hello() const override;
  const LinkProof& proof() const override { return listener_->proof(); }
  Workshop& shop() override { return shop_; }
  absl::StatusOr<Opened> OpenExecution(const agent::v1::Open& open,
                                       ExecutionStream* stream) override;
  agent::v1::Report MakeReport() const override;
  void SetBackstop(Duration left) override;
  void OnLinkClosed(Link* link) override;

 private:
  absl::Status Listen(Credentials credentials);
  absl::Status WatchSignals();
  void OnConnection(std::shared_ptr<LinkSocket> socket);
  bool MakeRoomForStranger();
  void WaitForSignals();
  void OnSignals();
  absl::StatusOr<std::shared_ptr<Execution>> FindOrStart(const agent::v1::Start& start,
                                                         bool* repeated);
  absl::StatusOr<std::shared_ptr<Execution>> StartNew(const ExecutionTable::StartKey& key,
                                                      const agent::v1::Start& start);
  void OnExecutionChanged(Execution& execution);
  void NoteServed(Execution& execution);
  void Drop(const std::string& id);
  enum class Need { kSpace, kUrgent };
  bool DropOne(Need need);
  bool DropLeftoverOutput(Time now);
  void DropForMemory();
  void DropServedOutput();
  void DropExpired();
  void ArmSweep();
  void Shutdown(const std::string& why);
  void FinishShutdown();
  void KillEverything();

  boost::asio::io_context& io_;
  const AgentOptions options_;
  Workshop shop_;
  ExecutionTable table_;
  std::map<std::string, std::shared_ptr<Execution>> executions_;
  std::set<std::string> leftovers_;                        // ended ones that left processes behind
  std::map<uint64_t, std::shared_ptr<Execution>> served_;  // in order; their output may go
  uint64_t last_served_ = 0;
  uint64_t served_bytes_ = 0;  // of their output
  std::set<std::shared_ptr<Link>> links_;
  std::unique_ptr<Listener> listener_;
  Descriptor signals_;
  AgentTimer backstop_;
  AgentTimer sweep_;
  bool sweep_armed_ = false;
  AgentTimer shutdown_;
  bool shutting_down_ = false;
  bool killing_ = false;  // its last step
};

}  // namespace sandbroker::guest
