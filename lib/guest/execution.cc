#include "lib/guest/execution.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "lib/base/status.h"
#include "lib/guest/sessions.h"

namespace sandbroker::guest {
namespace {

OutputLog::Settings LogSettings(const agent::v1::Start& start, const OutputBudget& budget) {
  OutputLog::Settings settings;
  if (start.log_bytes() != 0) settings.capacity = std::min(start.log_bytes(), budget.total());
  if (start.window_bytes() != 0) settings.window = start.window_bytes();
  if (start.reattach_window_ns() != 0) {
    settings.reattach_window = Duration(start.reattach_window_ns());
  }
  return settings;
}

EndDecider::Settings EndSettings(const agent::v1::Start& start) {
  EndDecider::Settings settings;
  settings.timeout = Duration(start.timeout_ns());
  settings.kill_grace = Duration(start.kill_grace_ns());
  if (start.children() != agent::v1::CHILDREN_UNSPECIFIED) settings.children = start.children();
  if (start.children_bound_ns() != 0) settings.children_bound = Duration(start.children_bound_ns());
  return settings;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Execution>> Execution::Create(
    Workshop* shop, const agent::v1::Start& start, std::function<void(Execution&)> on_changed) {
  auto log = OutputLog::Create(LogSettings(start, shop->budget), &shop->budget, Now());
  if (!log.ok()) return log.status();
  return std::shared_ptr<Execution>(
      new Execution(shop, start, *std::move(log), std::move(on_changed)));
}

Execution::Execution(Workshop* shop, const agent::v1::Start& start, std::unique_ptr<OutputLog> log,
                     std::function<void(Execution&)> on_changed)
    : shop_(shop),
      id_(start.execution_id()),
      on_changed_(std::move(on_changed)),
      log_(std::move(log)),
      ledger_(start.stdin()),
      end_(EndSettings(start)),
      timer_(shop->io) {}

void Execution::Launch(const agent::v1::Start& start) {
  Launched launched;
  const Time now = Now();
  if (const auto failure = guest::Launch(start, shop_->environment, shop_->launch, &launched)) {
    end_.OnStartFailed(failure->error_number, failure->step, failure->message);
    Finish();
    return;
  }
  end_.OnStarted(now);
  Adopt(std::move(launched));
  ArmTimer();
}

void Execution::Adopt(Launched launched) {
  pid_ = launched.pid;
  reaped_ = false;
  const std::weak_ptr<Execution> weak = weak_from_this();
  shop_->reaper.Watch(
      pid_, [self = shared_from_this()](const siginfo_t& info) { self->OnLeaderEnded(info); });
  pipes_[0] = std::make_shared<OutputPipe>(shop_->io, std::move(launched.output), 1);
  pipes_[1] = std::make_shared<OutputPipe>(shop_->io, std::move(launched.error), 2);
  for (const auto& pipe : pipes_) WatchPipe(pipe);
  if (!launched.input.valid()) return;
  InputPipe::Events events;
  events.on_room = [weak] {
    const auto self = weak.lock();
    if (!self) return;
    for (const Attachment& attachment : self->attachments_) {
      if (attachment.epoch != 0 && attachment.epoch == self->ledger_.epoch()) {
        return attachment.stream->OnInputRoom(self->input_->room());
      }
    }
  };
  events.on_closed = [weak] {
    if (const auto self = weak.lock()) self->OnInputGone();
  };
  input_ = std::make_shared<InputPipe>(shop_->io, std::move(launched.input), std::move(events));
  input_->Start();
}

void Execution::OnLeaderEnded(const siginfo_t& info) {
  EndDecider::LeaderStatus status;
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
    status.core_dumped = info.si_code == CLD_DUMPED;
  }
  const auto self = shared_from_this();
  const Time now = Now();
  end_.OnLeaderEnded(now, status);
  if (input_) input_->Close();
  if (end_.terminating()) CheckSession();
  if (!shop_->reaper.can_keep() && !reaped_) {
    reaped_ = true;
    shop_->reaper.Reap(pid_);
  }
  Act();
  // Whoever gets the end at once needs no word about its input.
  if (!ended()) OnInputGone();
}

void Execution::CheckSession() {
  if (ended() || reaped_ || !end_.leader_ended() || !end_.terminating()) return;
  if (SessionHasOthers(pid_)) return;
  end_.OnSessionGone(Now());
  Act();
}

// Carries out what the decider wants; every event ends here.
void Execution::Act() {
  const auto self = shared_from_this();
  while (const auto action = end_.NextAction()) {
    switch (*action) {
      case EndDecider::Action::kTerm:
        if (!reaped_) SignalGroup(pid_, SIGTERM);
        break;
      case EndDecider::Action::kKill:
        if (!reaped_) KillSession(pid_);
        break;
      case EndDecider::Action::kCutOutput:
        CutOutput();
        break;
    }
  }
  if (ended()) {
    Finish();
  } else {
    ArmTimer();
  }
}

void Execution::Finish() {
  if (armed_for_ != kNever) timer_.cancel();
  armed_for_ = kNever;
  if (pid_ != 0 && !std::exchange(reaped_, true)) shop_->reaper.Reap(pid_);
  if (log_finished_) return;
  log_finished_ = true;
  log_->Finish();
  ledger_.OnProgramClosed();
  const auto self = shared_from_this();
  on_changed_(*this);
  // A stream that takes its end leaves the list meanwhile.
  const std::vector<Attachment> attached = attachments_;
  for (const Attachment& attachment : attached) {
    if (Find(attachment.stream) != nullptr) attachment.stream->OnOutputReady();
  }
}

void Execution::ArmTimer() {
  Time next = end_.NextDeadline();
  if (paused_) next = std::min(next, log_->RoomChangesAt(Now()));
  // One that fires too early looks again; moving it all the time would cost more.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(next));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->ended()) return;
    self->armed_for_ = kNever;
    self->ResumePipes();
    self->end_.OnTime(Now());
    self->Act();
  });
}

void Execution::OnSignal(int number) {
  if (!reaped_ && !end_.leader_ended() && number > 0 && number <= SIGRTMAX) {
    SignalGroup(pid_, number);
  }
}

void Execution::OnCancel(const agent::v1::Cancel& cancel) {
  if (ended()) return;
  end_.OnCancel(Now(), {cancel.by(), Duration(cancel.kill_grace_ns()), cancel.lease_expired()});
  CheckSession();
  Act();
}

void Execution::Terminate(Duration grace) {
  agent::v1::Cancel cancel;
  cancel.set_by("agent");
  cancel.set_kill_grace_ns(grace.count());
  OnCancel(cancel);
}

Time Execution::droppable_from() const {
  if (!attachments_.empty()) return kNever;
  return served() ? SaturatingAdd(served_at_, kRedelivery) : log_->hold_until();
}

}  // namespace sandbroker::guest
