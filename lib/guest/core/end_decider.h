// What ends an execution: the program's own end, its timeout, a cancel, the lease, or that it
// never started; when to signal whom on the way; and exactly one record of it. Owned by one
// execution. Pure: time is passed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::guest {

class EndDecider {
 public:
  struct Settings {
    Duration timeout{0};  // 0 = none
    Duration kill_grace{0};
    agent::v1::Children children = agent::v1::CHILDREN_BOUNDED;
    Duration children_bound = std::chrono::seconds(5);
  };
  // Once nothing of it is left, pipes that are still open were given to another execution.
  static constexpr Duration kBoundAfterKill = std::chrono::milliseconds(500);
  // What can't be killed in this time is stuck in the kernel; the end does not wait for it.
  static constexpr Duration kKillBound = std::chrono::seconds(10);

  explicit EndDecider(const Settings& settings) : settings_(settings) {}

  void OnStarted(Time now);
  void OnStartFailed(int error_number, const std::string& step, const std::string& message);

  struct LeaderStatus {
    std::optional<int> code;  // unset: it was ended by `signal`
    int signal = 0;
    bool core_dumped = false;
    // The kernel ended processes of the sandbox for want of memory while this one ran.
    bool oom_kills = false;
  };
  void OnLeaderEnded(Time now, const LeaderStatus& status);
  // Nothing but the leader's own remains is left of the session: nobody else hears a TERM.
  void OnSessionGone(Time now);
  // Nothing of all it started is left. After OnLeaderEnded.
  void OnTreeGone(Time now);
  // A program killed what holds the execution together; the shell kills all that is left of it.
  void OnSupervisorKilled(Time now);
  // Both pipes are at their end and everything from them is in the log.
  void OnOutputClosed(Time now);
  // Whether the pipes are empty and being read: only then the children's bound runs.
  void OnReading(Time now, bool reading);

  // A caller's own SIGKILL: the leader's end by it is no lack of memory.
  void OnKillSignalSent() { kill_signal_sent_ = true; }

  struct CancelRequest {
    std::string by;
    Duration kill_grace{0};
    bool lease_expired = false;
  };
  void OnCancel(Time now, const CancelRequest& request);
  void OnTime(Time now);

  // When OnTime wants to be called; kNever = not.
  Time NextDeadline() const;

  enum class Action {
    kTerm,       // SIGTERM to the process group
    kKill,       // SIGKILL to everything it started, wherever that has gone
    kCutOutput,  // the log is final although pipes are open
  };
  // What to do now, in order, until it answers nothing.
  std::optional<Action> NextAction();

  // The shell did kCutOutput.
  void OnOutputCut(Time now);

  bool leader_ended() const { return leader_.has_value() || start_failed_; }
  // TERM was sent for whatever reason; survivors get KILL.
  bool terminating() const { return terminating_; }
  // It has its end, and processes that live on are ended only by a further cancel.
  bool lingering() const { return ended_.has_value() && !tree_gone_; }
  // The one end. Final offset and completeness are the log's to say.
  const std::optional<agent::v1::Ended>& ended() const { return ended_; }

 private:
  enum class Cause { kNone, kTimeout, kCancel, kLease };

  void Terminate(Time now, Duration grace);
  void Kill(Time now);
  void BeginKilled(Time now);
  void AwaitPipes(Time now);
  void Settle(Time now);
  void FillReason(agent::v1::Ended* ended) const;
  bool CutRuns() const;
  Duration CutBound() const;

  const Settings settings_;
  Time started_at_{};
  Time timeout_at_ = kNever;
  Time kill_at_ = kNever;
  Cause cause_ = Cause::kNone;
  std::string cancelled_by_;
  bool terminating_ = false;
  bool killed_ = false;
  bool kill_signal_sent_ = false;
  bool out_of_memory_ = false;
  bool session_gone_ = false;
  bool tree_gone_ = false;
  Time give_up_at_ = kNever;
  bool given_up_ = false;
  bool start_failed_ = false;
  std::optional<LeaderStatus> leader_;
  Time leader_ended_at_{};
  bool output_closed_ = false;
  bool output_cut_ = false;
  bool cut_asked_ = false;
  // How long the pipes were empty and read since the leader ended.
  bool reading_ = true;
  Time reading_since_{};
  Duration waited_{0};
  std::deque<Action> actions_;
  std::optional<agent::v1::Ended> ended_;
};

}  // namespace sandbroker::guest
