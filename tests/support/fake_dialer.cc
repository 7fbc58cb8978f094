#include "tests/support/fake_dialer.h"

#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::testing {

std::string FakeDialer::Unprivileged() {
  return "Uid:\t1000\t1000\t1000\t1000\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
         "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n"
         "NoNewPrivs:\t1\nSeccomp:\t2\n";
}

void FakeDialer::Dial(const broker::DialTarget& target, Duration bound,
                      std::function<void(const absl::Status& why)> on_lost,
                      std::function<void(absl::StatusOr<Dialed>)> done) {
  dialed_.push_back(target.host);
  const auto call = std::make_shared<Call>();
  call->address = target.host;
  call->boot_id = target.expected_boot_id;
  call->on_lost = std::move(on_lost);
  call->done = std::move(done);
  const std::weak_ptr<Call> weak = call;
  const auto end = [this, weak](const absl::Status& status) {
    if (const auto alive = weak.lock()) Finish(*alive, status);
  };
  call->timer = scheduler_.After(bound, [end] {
    end(MakeError(Reason::kAgentUnreachable, "the agent did not answer in time"));
  });
  target.cancel.OnCancel([end] { end(MakeError(Reason::kCancelled, "not wanted any more")); });
  held_.push_back(call);
  if (hold_dials) return;
  scheduler_.Post([this, weak] {
    if (const auto alive = weak.lock()) Answer(*alive);
  });
}

void FakeDialer::AnswerDials() {
  hold_dials = false;
  const auto held = held_;
  for (const auto& call : held) Answer(*call);
}

void FakeDialer::Answer(Call& call) {
  if (!call.done) return;
  if (const auto refusal = refused.find(call.address); refusal != refused.end()) {
    return Finish(call, refusal->second);
  }
  const auto known = boot_ids.find(call.address);
  const std::string boot_id =
      known != boot_ids.end() ? known->second : StrCat("boot-", call.address);
  if (!call.boot_id.empty() && call.boot_id != boot_id) {
    return Finish(call, MakeError(Reason::kAgentUnreachable, "another incarnation answers"));
  }
  const auto link = std::make_shared<FakeAgentLink>(boot_id);
  link->on_open = [this](std::shared_ptr<FakeStream> stream) {
    if (stream->start().argv_size() != 2 || stream->start().argv(1) != "--print-status") return;
    ++probes_;
    if (hold_probes) return;
    scheduler_.Post([this, stream = std::move(stream)] {
      stream->SayReady();
      stream->Print(1, status_file);
      stream->Exit(0);
    });
  };
  links_[call.address] = link;
  on_lost_[call.address] = call.on_lost;
  Finish(call, Dialed{link});
}

void FakeDialer::Finish(Call& call, absl::StatusOr<Dialed> dialed) {
  const auto done = std::exchange(call.done, nullptr);
  call.timer.reset();
  std::erase_if(held_, [&](const auto& one) { return one->done == nullptr; });
  if (done) done(std::move(dialed));
}

std::shared_ptr<FakeAgentLink> FakeDialer::link(const std::string& address) const {
  const auto it = links_.find(address);
  return it == links_.end() ? nullptr : it->second;
}

void FakeDialer::Lose(const std::string& address) {
  const absl::Status why = absl::UnavailableError("the connection broke");
  links_.at(address)->Close(why);
  const auto lost = on_lost_.at(address);
  lost(why);
}

}  // namespace sandbroker::testing
