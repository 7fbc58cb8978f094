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
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->timed_out().last_signal(), SIGKILL);
}

TEST(EndDecider, TimedOutProgramThatObeysTerm_EndsWhenItsSessionIsGone) {
  EndDecider end = Started({seconds(5), seconds(2)});
  end.OnTime(kStart + seconds(5));
  end.OnLeaderEnded(kStart + seconds(6), Exit(0));
  end.OnOutputClosed(kStart + seconds(6));
  EXPECT_FALSE(end.ended());  // others of its group may still clean up
  end.OnSessionGone(kStart + seconds(6));
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->timed_out().last_signal(), SIGTERM);
}

TEST(EndDecider, Cancel_WithoutGraceKillsAtOnceAndNamesWho) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"me", Duration::zero(), false});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  end.OnLeaderEnded(kStart, Killed(SIGKILL));
  end.OnOutputClosed(kStart);
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
  EXPECT_TRUE(end.ended()->has_timed_out());
}

TEST(EndDecider, Lease_HasItsOwnReason) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"", seconds(1), true});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  end.OnLeaderEnded(kStart, Killed(SIGTERM));
  end.OnSessionGone(kStart);
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
  ASSERT_TRUE(end.ended());
  EXPECT_EQ(end.ended()->exited().code(), 4);  // the program's own end was before
}

TEST(EndDecider, DetachedChildren_AreCutAtOnce) {
  EndDecider end = Started({Duration::zero(), Duration::zero(), agent::v1::CHILDREN_DETACH});
  end.OnLeaderEnded(kStart, Exit(0));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kCutOutput});
}

TEST(EndDecider, PipeHeldOutsideTheSession_IsCutSoonAfterTheKill) {
  EndDecider end = Started();
  end.OnCancel(kStart, {"me", seconds(10), false});
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kTerm});
  end.OnLeaderEnded(kStart + seconds(1), Killed(SIGTERM));
  EXPECT_TRUE(Actions(&end).empty());
  end.OnSessionGone(kStart + seconds(1));
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kKill});
  const Time cut = kStart + seconds(1) + EndDecider::kBoundAfterKill;
  EXPECT_EQ(end.NextDeadline(), cut);
  end.OnTime(cut);
  EXPECT_EQ(Actions(&end), std::vector<Action>{Action::kCutOutput});
  end.OnOutputCut(cut);
  EXPECT_TRUE(end.ended()->has_cancelled());
  EXPECT_TRUE(end.ended()->output_open());
}

}  // namespace
}  // namespace sandbroker::guest
