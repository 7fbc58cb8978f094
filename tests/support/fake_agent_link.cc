#include "tests/support/fake_agent_link.h"

#include <utility>

#include "absl/status/status.h"
#include "lib/base/status.h"

namespace sandbroker::testing {

// The broker's side of a FakeStream.
class FakeStreamEnd final : public broker::AgentStream {
 public:
  explicit FakeStreamEnd(std::shared_ptr<FakeStream> stream) : stream_(std::move(stream)) {}
  ~FakeStreamEnd() override {
    stream_->handler_ = nullptr;
    if (stream_->on_left) stream_->on_left();
  }

  void Send(const agent::Command& command) override {
    stream_->commands_.push_back(command);
    if (command.has_close_input()) stream_->input_ended_ = true;
    if (stream_->on_command) stream_->on_command(command);
  }
  uint64_t InputRoom() const override { return stream_->input_room_; }
  void SendInput(uint64_t, SharedBytes data) override {
    stream_->input_room_ -= data.size();
    stream_->input_ += data.view();
    if (stream_->on_input) stream_->on_input();
  }
  void Consumed(uint64_t bytes) override {
    stream_->allowed_ += bytes;
    if (stream_->on_credit) stream_->on_credit();
  }
  void Ack(uint64_t) override {}

 private:
  std::shared_ptr<FakeStream> stream_;
};

void FakeStream::SayReady() {
  agent::Event event;
  agent::Ready& ready = *event.mutable_ready();
  ready.set_execution_id(start().execution_id());
  ready.set_boot_id(start().boot_id());
  ready.set_state(agent::STATE_RUNNING);
  ready.set_pid(42);
  Say(event);
}

void FakeStream::Say(const agent::Event& event) {
  if (handler_ != nullptr) handler_->OnEvent(event);
}

void FakeStream::Print(int fd, std::string_view data) { Print(fd, SharedBytes::Copy(data)); }

void FakeStream::Print(int fd, SharedBytes data) {
  const uint64_t offset = offset_;
  offset_ += data.size();
  printed_ += data.size();
  if (handler_ != nullptr) handler_->OnData(offset, fd, std::move(data));
}

void FakeStream::Gap(uint64_t bytes) {
  agent::Event event;
  event.mutable_gap()->set_from(offset_);
  offset_ += bytes;
  event.mutable_gap()->set_to(offset_);
  Say(event);
}

void FakeStream::GiveInputRoom(uint64_t bytes) {
  input_room_ += bytes;
  if (handler_ != nullptr) handler_->OnInputRoom();
}

void FakeStream::CloseInput() {
  agent::Event event;
  event.mutable_input_closed()->set_accepted(input_.size());
  Say(event);
}

void FakeStream::End(agent::Ended ended) {
  ended.set_final_offset(offset_);
  ended.set_output_complete(true);
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnEnd(ended);
}

void FakeStream::Exit(int code) {
  agent::Ended ended;
  ended.mutable_exited()->set_code(code);
  ended.set_duration_ns(1'000'000);
  End(std::move(ended));
}

void FakeStream::Reset(std::string_view reason, std::string_view message) {
  agent::Reset reset;
  reset.set_code(static_cast<uint32_t>(CodeOf(ReasonFromName(reason))));
  reset.set_reason(std::string(reason));
  reset.set_message(std::string(message));
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnReset(reset);
}

void FakeStream::LoseLink(const absl::Status& why) {
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnLinkLost(why);
}

FakeAgentLink::FakeAgentLink(std::string boot_id) {
  info_.boot_id = std::move(boot_id);
  info_.agent_version = "fake";
}

std::unique_ptr<broker::AgentStream> FakeAgentLink::Open(const agent::Open& open, uint64_t window,
                                                         broker::AgentStreamHandler* handler) {
  auto stream = std::make_shared<FakeStream>(open, window, handler);
  streams_.push_back(stream);
  auto end = std::make_unique<FakeStreamEnd>(stream);
  if (on_open) on_open(std::move(stream));
  return end;
}

void FakeAgentLink::Bind(const agent::Bind& bind, std::function<void(absl::Status)> done) {
  bound_env_.assign(bind.env().begin(), bind.env().end());
  if (hold_binds) {
    held_binds_.push_back(std::move(done));
  } else {
    done(open_ ? absl::OkStatus() : absl::UnavailableError("the link is closed"));
  }
}

void FakeAgentLink::AnswerBinds(const absl::Status& status) {
  hold_binds = false;
  for (const auto& done : std::exchange(held_binds_, {})) done(status);
}

void FakeAgentLink::Query(std::function<void(absl::StatusOr<agent::Report>)> done) {
  if (!open_) return done(absl::UnavailableError("the link is closed"));
  if (hold_queries) return held_queries_.push_back(std::move(done));
  if (report) return done(*report);
  agent::Report seen;
  for (const auto& stream : streams_) {
    if (stream->left()) continue;
    seen.set_running(seen.running() + 1);
    seen.set_attached(seen.attached() + 1);
    seen.add_running_ids(stream->start().execution_id());
  }
  done(seen);
}

void FakeAgentLink::AnswerQueries() {
  hold_queries = false;
  for (auto& done : std::exchange(held_queries_, {})) Query(std::move(done));
}

void FakeAgentLink::Close(const absl::Status& why) {
  if (!std::exchange(open_, false)) return;
  AnswerBinds(why);
  const auto streams = streams_;
  for (const auto& stream : streams) stream->LoseLink(why);
}

}  // namespace sandbroker::testing
