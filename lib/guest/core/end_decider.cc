#include "lib/guest/core/end_decider.h"

#include <signal.h>

#include <algorithm>

namespace sandbroker::guest {

void EndDecider::OnStarted(Time now) {
  started_at_ = now;
  if (settings_.timeout > Duration::zero()) timeout_at_ = SaturatingAdd(now, settings_.timeout);
}

void EndDecider::OnStartFailed(int error_number, const std::string& step,
                               const std::string& message) {
  start_failed_ = true;
  tree_gone_ = true;
  ended_.emplace();
  auto* failed = ended_->mutable_start_failed();
  failed->set_error_number(error_number);
  failed->set_step(step);
  failed->set_message(message);
}

void EndDecider::OnLeaderEnded(Time now, const LeaderStatus& status) {
  if (leader_ended()) return;
  leader_ = status;
  leader_ended_at_ = now;
  // The kernel kills with the signal that anybody can send: it was the kernel when its count rose
  // and nobody here sent it.
  out_of_memory_ = status.oom_kills && !status.code && status.signal == SIGKILL && !killed_ &&
                   !kill_signal_sent_;
  reading_since_ = now;
  Settle(now);
}

void EndDecider::OnSessionGone(Time now) {
  session_gone_ = true;
  Settle(now);
}

void EndDecider::OnTreeGone(Time now) {
  tree_gone_ = true;
  session_gone_ = true;
  if (killed_) AwaitPipes(now);
  Settle(now);
}

void EndDecider::OnSupervisorKilled(Time now) {
  if (killed_) return;
  terminating_ = true;
  BeginKilled(now);
  Settle(now);
}

void EndDecider::OnOutputClosed(Time now) {
  output_closed_ = true;
  Settle(now);
}

void EndDecider::OnOutputCut(Time now) {
  output_cut_ = true;
  Settle(now);
}

bool EndDecider::CutRuns() const {
  if (!leader_ || output_closed_ || output_cut_ || cut_asked_) return false;
  if (terminating_) return killed_ && (tree_gone_ || given_up_);
  return settings_.children != agent::v1::CHILDREN_WAIT;
}

Duration EndDecider::CutBound() const {
  if (given_up_) return Duration::zero();
  if (killed_) return kBoundAfterKill;
  if (settings_.children == agent::v1::CHILDREN_DETACH) return Duration::zero();
  return settings_.children_bound;
}

void EndDecider::OnReading(Time now, bool reading) {
  if (reading == reading_) return;
  if (leader_ && reading_) waited_ += now - reading_since_;
  reading_ = reading;
  reading_since_ = now;
  Settle(now);
}

void EndDecider::Terminate(Time now, Duration grace) {
  if (killed_ || (ended_ && tree_gone_)) return;
  if (!terminating_ && grace > Duration::zero()) actions_.push_back(Action::kTerm);
  terminating_ = true;
  kill_at_ = std::min(kill_at_, SaturatingAdd(now, grace));
  if (grace <= Duration::zero()) Kill(now);
}

void EndDecider::Kill(Time now) {
  if (killed_) return;
  BeginKilled(now);
  actions_.push_back(Action::kKill);
}

// The kill is under way, whoever does it.
void EndDecider::BeginKilled(Time now) {
  killed_ = true;
  kill_at_ = kNever;
  if (!tree_gone_) give_up_at_ = SaturatingAdd(now, kKillBound);
  AwaitPipes(now);
}

// The bound for those who still hold a pipe starts anew.
void EndDecider::AwaitPipes(Time now) {
  waited_ = Duration::zero();
  reading_since_ = now;
}

void EndDecider::OnCancel(Time now, const CancelRequest& request) {
  if (!leader_ended() && cause_ == Cause::kNone) {
    cause_ = request.lease_expired ? Cause::kLease : Cause::kCancel;
    cancelled_by_ = request.by;
  }
  Terminate(now, request.kill_grace);
  Settle(now);
}

void EndDecider::OnTime(Time now) {
  if (now >= timeout_at_ && !ended_) {
    timeout_at_ = kNever;
    if (!leader_ && cause_ == Cause::kNone) cause_ = Cause::kTimeout;
    Terminate(now, settings_.kill_grace);
  }
  if (now >= kill_at_) Kill(now);
  if (now >= give_up_at_) given_up_ = true;
  Settle(now);
}

void EndDecider::Settle(Time now) {
  if (!leader_) return;
  // Whoever lives or holds a pipe after that is outside the session, and deaf to our TERM.
  const bool deaf = session_gone_ && !(tree_gone_ && (output_closed_ || ended_));
  if (terminating_ && !killed_ && deaf) Kill(now);
  if (ended_) return;
  if (CutRuns() && reading_ && waited_ + (now - reading_since_) >= CutBound()) {
    cut_asked_ = true;
    actions_.push_back(Action::kCutOutput);
  }
  const bool output_final = output_closed_ || output_cut_;
  const bool nobody_left = !terminating_ || tree_gone_ || given_up_;
  if (!output_final || !nobody_left) return;
  ended_.emplace();
  FillReason(&*ended_);
  ended_->set_duration_ns((leader_ended_at_ - started_at_).count());
  ended_->set_output_open(!output_closed_);
}

void EndDecider::FillReason(agent::v1::Ended* ended) const {
  switch (cause_) {
    case Cause::kTimeout:
      ended->mutable_timed_out()->set_last_signal(
          killed_ && !leader_->code && leader_->signal == SIGKILL ? SIGKILL : SIGTERM);
      return;
    case Cause::kCancel:
      ended->mutable_cancelled()->set_by(cancelled_by_);
      return;
    case Cause::kLease:
      ended->mutable_lease_expired();
      return;
    case Cause::kNone:
      break;
  }
  if (leader_->code) {
    ended->mutable_exited()->set_code(*leader_->code);
    return;
  }
  if (out_of_memory_) {
    ended->mutable_out_of_memory();
    return;
  }
  ended->mutable_signaled()->set_number(leader_->signal);
  ended->mutable_signaled()->set_core_dumped(leader_->core_dumped);
}

Time EndDecider::NextDeadline() const {
  if (tree_gone_ && ended_) return kNever;
  if (ended_) return kill_at_;
  Time next = std::min(timeout_at_, kill_at_);
  if (leader_ && !tree_gone_ && !given_up_) next = std::min(next, give_up_at_);
  if (CutRuns() && reading_) {
    next = std::min(next, SaturatingAdd(reading_since_, CutBound() - waited_));
  }
  return next;
}

std::optional<EndDecider::Action> EndDecider::NextAction() {
  if (actions_.empty()) return std::nullopt;
  const Action action = actions_.front();
  actions_.pop_front();
  return action;
}

}  // namespace sandbroker::guest
