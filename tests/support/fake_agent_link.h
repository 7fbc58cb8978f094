// An AgentLink that a test plays the agent of: it says what comes on each stream and sees what the
// broker sent. Loop thread only, hooks included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/broker/agent_link.h"

namespace sandbroker::testing {

namespace agent = ::sandbroker::agent::v1;

// One stream, seen from the agent's side. Outlives the broker's view of it: what is said on a
// stream that the broker has left goes nowhere.
class FakeStream {
 public:
  FakeStream(agent::Open open, uint64_t window, broker::AgentStreamHandler* handler)
      : open_(std::move(open)), handler_(handler), allowed_(window) {}

  const agent::Open& open() const { return open_; }
  const agent::Start& start() const { return open_.start(); }
  // The broker has let go of it.
  bool left() const { return handler_ == nullptr; }

  // Answers Open with an execution that begins now.
  void SayReady();
  void Say(const agent::Event& event);
  // Output at the next offset; the test respects credit() or means not to.
  void Print(int fd, std::string_view data);
  void Print(int fd, SharedBytes data);
  void Gap(uint64_t bytes);
  void GiveInputRoom(uint64_t bytes);
  void CloseInput();
  // Fills in final_offset and output_complete.
  void End(agent::Ended ended);
  void Exit(int code);
  void Reset(std::string_view reason, std::string_view message);
  void LoseLink(const absl::Status& why);

  uint64_t credit() const { return allowed_ - printed_; }
  uint64_t printed() const { return printed_; }
  const std::string& input() const { return input_; }
  const std::vector<agent::Command>& commands() const { return commands_; }
  // End of input has been asked for, at this offset.
  bool input_ended() const { return input_ended_; }

  std::function<void()> on_credit;
  std::function<void()> on_input;
  std::function<void(const agent::Command&)> on_command;
  std::function<void()> on_left;

 private:
  friend class FakeStreamEnd;

  agent::Open open_;
  broker::AgentStreamHandler* handler_;
  uint64_t allowed_;
  uint64_t printed_ = 0;
  uint64_t offset_ = 0;
  uint64_t input_room_ = 0;
  std::string input_;
  bool input_ended_ = false;
  std::vector<agent::Command> commands_;
};

class FakeAgentLink final : public broker::AgentLink {
 public:
  explicit FakeAgentLink(std::string boot_id);

  // Called for every stream the broker opens, from inside Open: post what should come later.
  std::function<void(std::shared_ptr<FakeStream>)> on_open;
  // Bind is answered with this; unset = never, until `answer_binds` is called.
  bool hold_binds = false;
  void AnswerBinds(const absl::Status& status);

  // Query waits for AnswerQueries.
  bool hold_queries = false;
  void AnswerQueries();
  // Query is answered with it instead of what the streams show.
  std::optional<absl::StatusOr<agent::Report>> report;

  const std::vector<std::shared_ptr<FakeStream>>& streams() const { return streams_; }
  const std::vector<agent::EnvVar>& bound_env() const { return bound_env_; }
  Time backstop() const { return backstop_; }

  const broker::AgentInfo& info() const override { return info_; }
  std::unique_ptr<broker::AgentStream> Open(const agent::Open& open, uint64_t window,
                                            broker::AgentStreamHandler* handler) override;
  void Bind(const agent::Bind& bind, std::function<void(absl::Status)> done) override;
  void Query(std::function<void(absl::StatusOr<agent::Report>)> done) override;
  void SetBackstop(Time until) override { backstop_ = until; }
  void Close(const absl::Status& why) override;
  bool open() const override { return open_; }

 private:
  broker::AgentInfo info_;
  bool open_ = true;
  Time backstop_ = kNever;
  std::vector<std::shared_ptr<FakeStream>> streams_;
  std::vector<agent::EnvVar> bound_env_;
  std::vector<std::function<void(absl::Status)>> held_binds_;
  std::vector<std::function<void(absl::StatusOr<agent::Report>)>> held_queries_;
};

}  // namespace sandbroker::testing
