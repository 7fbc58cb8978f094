#include "lib/guest/core/end_decider.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace sandbroker::guest {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Action = EndDecider::Action;
const Time kStart = Time() + seconds(1000);

EndDecider::LeaderStatus Exit(int code) { return {code, 0, false}; }
EndDecider::LeaderStatus Killed(int signal) { return {std::nullopt, signal, false}; }

std::vector<Action> Actions(EndDecider* end) {
  std::vector<Action> actions;
  while (const auto action = end->NextAction()) actions.push_back(*action);
  return actions;
}

EndDecider Started(EndDecider::Settings settings = {}) {
  EndDecider end(settings);
  end.OnStarted(kStart);
  return end;
}

TEST(EndDecider, End_ComesAfterTheLastByteInEitherOrder) {
  EndDecider end = Started();
  end.OnLeaderEnded(kStart + seconds(1), Exit(3));
  EXPECT_FALSE(end.ended());
  end.OnOutputClosed(kStart + seconds(2));
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->exited().code(), 3);
  EXPECT_EQ(end.ended()->duration_ns(), Duration(seconds(1)).count());
  EXPECT_FALSE(end.ended()->output_open());
  EndDecider other = Started();
  other.OnOutputClosed(kStart);
  EXPECT_FALSE(other.ended());
  EXPECT_EQ(other.NextDeadline(), kNever);
  other.OnLeaderEnded(kStart, Killed(SIGSEGV));
  EXPECT_EQ(other.ended()->signaled().number(), SIGSEGV);
}

TEST(EndDecider, Timeout_TermGraceKill) {
  EndDecider end = Started({seconds(5), seconds(2)});
  EXPECT_EQ(end.NextDeadline(), kStart + seconds(5));
  end.OnTime(kStart + seconds(5));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  EXPECT_EQ(end.NextDeadline(), kStart + seconds(7));
  end.OnTime(kStart + seconds(7));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  end.OnLeaderEnded(kStart + seconds(7), Killed(SIGKILL));
  end.OnOutputClosed(kStart + seconds(7));
  EXPECT_FALSE(end.ended());  // something of it may live
  end.OnTreeGone(kStart + seconds(7));
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->timed_out().last_signal(), SIGKILL);
}

TEST(EndDecider, TimedOutProgramThatObeysTerm_EndsWhenNothingOfItIsLeft) {
  EndDecider end = Started({seconds(5), seconds(2)});
  end.OnTime(kStart + seconds(5));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  end.OnLeaderEnded(kStart + seconds(6), Exit(0));
  end.OnOutputClosed(kStart + seconds(6));
  EXPECT_FALSE(end.ended());  // others of its group may still clean up
  end.OnTreeGone(kStart + seconds(6));
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->timed_out().last_signal(), SIGTERM);
  EXPECT_TRUE(Actions(&end).empty());
}

TEST(EndDecider, ThoseWhoLeftTheSession_AreKilledOnceNobodyElseHearsTheTerm) {
  EndDecider end = Started({seconds(5), seconds(60)});
  end.OnTime(kStart + seconds(5));
  Actions(&end);
  end.OnLeaderEnded(kStart + seconds(6), Exit(0));
  end.OnOutputClosed(kStart + seconds(6));
  EXPECT_TRUE(Actions(&end).empty());
  end.OnSessionGone(kStart + seconds(6));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  EXPECT_FALSE(end.ended());
  end.OnTreeGone(kStart + seconds(6));
  EXPECT_TRUE(end.ended()->has_timed_out());
}

TEST(EndDecider, Cancel_WithoutGraceKillsAtOnceAndNamesWho) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"me", Duration::zero(), false});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  end.OnLeaderEnded(kStart, Killed(SIGKILL));
  end.OnOutputClosed(kStart);
  end.OnTreeGone(kStart);
  EXPECT_EQ(end.ended()->cancelled().by(), "me");
}

TEST(EndDecider, FirstCause_NamesTheEndAndALaterCancelOnlyHurries) {
  EndDecider end = Started({seconds(5), seconds(60)});
  end.OnTime(kStart + seconds(5));
  Actions(&end);
  end.OnCancel(kStart + seconds(6), {"me", Duration::zero(), true});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  end.OnLeaderEnded(kStart + seconds(6), Killed(SIGKILL));
  end.OnOutputClosed(kStart + seconds(6));
  end.OnTreeGone(kStart + seconds(6));
  EXPECT_TRUE(end.ended()->has_timed_out());
}

TEST(EndDecider, Lease_HasItsOwnReason) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"", seconds(1), true});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  end.OnLeaderEnded(kStart, Killed(SIGTERM));
  end.OnTreeGone(kStart);
  end.OnOutputClosed(kStart);
  EXPECT_TRUE(end.ended()->has_lease_expired());
}

TEST(EndDecider, StartFailed_IsAnEndAndNothingFollows) {
  EndDecider end({seconds(1), seconds(1)});
  end.OnStartFailed(2, "exec", "exec /x: No such file or directory");
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->start_failed().error_number(), 2);
  end.OnCancel(kStart, {"me", Duration::zero(), false});
  end.OnTime(kStart + seconds(100));
  EXPECT_TRUE(Actions(&end).empty());
  EXPECT_EQ(end.NextDeadline(), kNever);
}

TEST(EndDecider, BoundedChildren_AreCutAfterTheBoundOfQuietReading) {
  EndDecider end = Started();
  end.OnLeaderEnded(kStart, Exit(0));
  EXPECT_EQ(end.NextDeadline(), kStart + seconds(5));
  end.OnReading(kStart + seconds(2), false);  // the log is full: the clock stands
  EXPECT_EQ(end.NextDeadline(), kNever);
  end.OnTime(kStart + seconds(50));
  EXPECT_TRUE(Actions(&end).empty());
  end.OnReading(kStart + seconds(100), true);
  EXPECT_EQ(end.NextDeadline(), kStart + seconds(103));
  end.OnTime(kStart + seconds(103));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kCutOutput});
  EXPECT_FALSE(end.ended());
  end.OnOutputCut(kStart + seconds(103));
  ASSERT_TRUE(end.ended());
  EXPECT_TRUE(end.ended()->output_open());
  EXPECT_EQ(end.ended()->exited().code(), 0);
  EXPECT_EQ(end.ended()->duration_ns(), 0);
}

TEST(EndDecider, WaitedForChildren_AreNeverCutButCanBeCancelled) {
  EndDecider end = Started({Duration::zero(), Duration::zero(), agent::v1::CHILDREN_WAIT});
  end.OnLeaderEnded(kStart, Exit(4));
  EXPECT_EQ(end.NextDeadline(), kNever);
  end.OnCancel(kStart + seconds(9), {"me", Duration::zero(), false});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  end.OnOutputClosed(kStart + seconds(9));
  end.OnTreeGone(kStart + seconds(9));
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->exited().code(), 4);  // the program's own end was before
}

TEST(EndDecider, DetachedChildren_AreCutAtOnce) {
  EndDecider end = Started({Duration::zero(), Duration::zero(), agent::v1::CHILDREN_DETACH});
  end.OnLeaderEnded(kStart, Exit(0));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kCutOutput});
}

TEST(EndDecider, PipeHeldByAnotherExecution_IsCutSoonAfterAllElseIsGone) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"me", seconds(10), false});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  end.OnLeaderEnded(kStart + seconds(1), Killed(SIGTERM));
  EXPECT_TRUE(Actions(&end).empty());
  end.OnSessionGone(kStart + seconds(1));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  // As long as it is being killed, its pipes are worth waiting for.
  EXPECT_EQ(end.NextDeadline(), kStart + seconds(1) + EndDecider::kKillBound);
  end.OnTreeGone(kStart + seconds(2));
  const Time cut = kStart + seconds(2) + EndDecider::kBoundAfterKill;
  EXPECT_EQ(end.NextDeadline(), cut);
  end.OnTime(cut);
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kCutOutput});
  end.OnOutputCut(cut);
  EXPECT_TRUE(end.ended()->has_cancelled());
  EXPECT_TRUE(end.ended()->output_open());
}

TEST(EndDecider, WhatCannotBeKilled_IsNotWaitedForBeyondTheBound) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"me", Duration::zero(), false});
  Actions(&end);
  EXPECT_EQ(end.NextDeadline(), kNever);  // without the leader's status there is no end
  end.OnLeaderEnded(kStart, Killed(SIGKILL));
  const Time bound = kStart + EndDecider::kKillBound;
  EXPECT_EQ(end.NextDeadline(), bound);
  end.OnTime(bound);
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kCutOutput});
  end.OnOutputCut(bound);
  ASSERT_TRUE(end.ended());
  EXPECT_TRUE(end.ended()->output_open());
  EXPECT_TRUE(end.lingering());
  EXPECT_EQ(end.NextDeadline(), kNever);
  end.OnTreeGone(bound + seconds(1));
  EXPECT_FALSE(end.lingering());
}

TEST(EndDecider, ProcessesLeftBehind_AreEndedByALaterCancelAndTheEndStays) {
  EndDecider end = Started();
  end.OnLeaderEnded(kStart, Exit(6));
  end.OnOutputClosed(kStart);
  ASSERT_TRUE(end.ended());
  EXPECT_TRUE(end.lingering());
  EXPECT_EQ(end.NextDeadline(), kNever);
  end.OnCancel(kStart + seconds(9), {"me", seconds(2), false});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  EXPECT_EQ(end.NextDeadline(), kStart + seconds(11));
  end.OnTime(kStart + seconds(11));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  EXPECT_EQ(end.NextDeadline(), kNever);
  end.OnTreeGone(kStart + seconds(11));
  EXPECT_FALSE(end.lingering());
  EXPECT_EQ(end.ended()->exited().code(), 6);
  end.OnCancel(kStart + seconds(12), {"me", Duration::zero(), false});
  EXPECT_TRUE(Actions(&end).empty());
}

TEST(EndDecider, TimeoutAfterTheEnd_TouchesNothingLeftBehind) {
  EndDecider end = Started({seconds(5), seconds(2)});
  end.OnLeaderEnded(kStart, Exit(0));
  end.OnOutputClosed(kStart);
  end.OnTime(kStart + seconds(6));
  EXPECT_TRUE(Actions(&end).empty());
}

TEST(EndDecider, KilledSupervisor_EndsWithWhatBecameOfTheProgram) {
  EndDecider end = Started();
  end.OnSupervisorKilled(kStart);
  EXPECT_TRUE(Actions(&end).empty());  // the shell is at it
  end.OnLeaderEnded(kStart, Killed(SIGKILL));
  end.OnOutputClosed(kStart);
  EXPECT_FALSE(end.ended());
  end.OnTreeGone(kStart);
  EXPECT_EQ(end.ended()->signaled().number(), SIGKILL);
  // It had ended by itself before it could be killed.
  EndDecider other = Started();
  other.OnSupervisorKilled(kStart);
  other.OnLeaderEnded(kStart, Exit(0));
  other.OnTreeGone(kStart);
  other.OnOutputClosed(kStart);
  EXPECT_EQ(other.ended()->exited().code(), 0);
}

EndDecider::LeaderStatus Killed(int signal, bool oom_kills) {
  return {std::nullopt, signal, false, oom_kills};
}

agent::v1::Ended::ReasonCase ReasonOf(EndDecider end, const EndDecider::LeaderStatus& status) {
  end.OnLeaderEnded(kStart, status);
  end.OnOutputClosed(kStart);
  end.OnTreeGone(kStart);
  return end.ended() ? end.ended()->reason_case() : agent::v1::Ended::REASON_NOT_SET;
}

TEST(EndDecider, T61_KernelKillForWantOfMemory_IsNotJustASignal) {
  using Ended = agent::v1::Ended;
  EXPECT_EQ(ReasonOf(Started(), Killed(SIGKILL, true)), Ended::kOutOfMemory);
  // Somebody's SIGKILL, while no memory was wanting.
  EXPECT_EQ(ReasonOf(Started(), Killed(SIGKILL, false)), Ended::kSignaled);
  // Another process of the sandbox was the kernel's victim.
  EXPECT_EQ(ReasonOf(Started(), Killed(SIGSEGV, true)), Ended::kSignaled);
  EndDecider::LeaderStatus shell = Exit(137);
  shell.oom_kills = true;
  EXPECT_EQ(ReasonOf(Started(), shell), Ended::kExited);
}

TEST(EndDecider, T61_OurOwnKill_IsNeverCalledOutOfMemory) {
  using Ended = agent::v1::Ended;
  EndDecider by_caller = Started();
  by_caller.OnKillSignalSent();
  EXPECT_EQ(ReasonOf(by_caller, Killed(SIGKILL, true)), Ended::kSignaled);
  EndDecider cancelled = Started();
  cancelled.OnCancel(kStart, {"me", Duration(0), false});
  EXPECT_EQ(ReasonOf(cancelled, Killed(SIGKILL, true)), Ended::kCancelled);
  EndDecider timed_out = Started({seconds(1), seconds(0)});
  timed_out.OnTime(kStart + seconds(1));
  EXPECT_EQ(ReasonOf(timed_out, Killed(SIGKILL, true)), Ended::kTimedOut);
}

TEST(EndDecider, T61_OutOfMemory_StaysWhatItWasWhenTheRestIsKilled) {
  EndDecider end = Started();
  end.OnLeaderEnded(kStart, Killed(SIGKILL, true));
  end.OnCancel(kStart, {"me", Duration(0), false});
  end.OnTreeGone(kStart);
  end.OnOutputClosed(kStart);
  ASSERT_TRUE(end.ended());
  EXPECT_TRUE(end.ended()->has_out_of_memory());
}

// Where a cancel can meet a program that succeeds: each has one end, and which is decided by what
// the agent knew first.
TEST(EndDecider, CancelledButItAlsoSucceeded_AtEveryPoint) {
  const EndDecider::CancelRequest gentle{"me", seconds(2), false};
  const EndDecider::CancelRequest hard{"me", Duration::zero(), false};
  for (const auto& cancel : {gentle, hard}) {
    // Before its end is known: the cancel names the end, whatever status comes.
    EndDecider before = Started();
    before.OnCancel(kStart, cancel);
    before.OnLeaderEnded(kStart, Exit(0));
    before.OnOutputClosed(kStart);
    before.OnTreeGone(kStart);
    EXPECT_EQ(before.ended()->cancelled().by(), "me");
    // Within the grace, with children that are still to be ended.
    EndDecider grace = Started();
    grace.OnCancel(kStart, gentle);
    grace.OnLeaderEnded(kStart + seconds(1), Exit(0));
    grace.OnCancel(kStart + seconds(1), cancel);
    grace.OnTime(kStart + seconds(2));
    grace.OnTreeGone(kStart + seconds(2));
    grace.OnOutputClosed(kStart + seconds(2));
    EXPECT_EQ(grace.ended()->cancelled().by(), "me");
    // After it, while its output is not at its end.
    EndDecider after = Started();
    after.OnLeaderEnded(kStart, Exit(0));
    after.OnCancel(kStart, cancel);
    after.OnTime(kStart + seconds(2));
    after.OnTreeGone(kStart + seconds(2));
    after.OnOutputClosed(kStart + seconds(2));
    EXPECT_EQ(after.ended()->exited().code(), 0);
    EXPECT_FALSE(after.ended()->output_open());
    // After the end was told.
    EndDecider told = Started();
    told.OnLeaderEnded(kStart, Exit(0));
    told.OnOutputClosed(kStart);
    told.OnCancel(kStart, cancel);
    told.OnTreeGone(kStart);
    EXPECT_EQ(told.ended()->exited().code(), 0);
  }
}

}  // namespace
}  // namespace sandbroker::guest
