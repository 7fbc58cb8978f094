#include "client/exec_progress.h"

#include <gtest/gtest.h>

namespace sandbroker::client {
namespace {

Event Ready(uint64_t limit) {
  Event event;
  event.mutable_ready()->set_input_limit(limit);
  return event;
}

Event Window(uint64_t limit) {
  Event event;
  event.mutable_input_window()->set_limit(limit);
  return event;
}

Event Ended(int code) {
  Event event;
  event.mutable_ended()->mutable_exited()->set_code(code);
  return event;
}

TEST(ExecProgress, Ended_IsDeliveredOnceAndTheFirstStands) {
  ExecProgress progress(Stdin::kNull);
  EXPECT_TRUE(progress.Take(Ready(0)));
  EXPECT_TRUE(progress.Take(Ended(3)));
  EXPECT_FALSE(progress.Take(Ended(4)));
  Event output;
  output.mutable_output();
  EXPECT_FALSE(progress.Take(output));
  EXPECT_EQ(progress.end()->exited().code(), 3);
  EXPECT_TRUE(progress.EndOfCall(absl::UnavailableError("reset")).ok());
}

TEST(ExecProgress, CallWithoutEnded_IsNeverAResult) {
  ExecProgress progress(Stdin::kNull);
  progress.Take(Ready(0));
  EXPECT_EQ(progress.EndOfCall(absl::OkStatus()).code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(progress.EndOfCall(absl::UnavailableError("reset")).code(),
            absl::StatusCode::kUnavailable);
}

TEST(ExecProgress, HousekeepingEvents_AreNotTheCallers) {
  ExecProgress progress(Stdin::kPipe);
  Event heartbeat;
  heartbeat.mutable_heartbeat();
  EXPECT_FALSE(progress.Take(heartbeat));
  EXPECT_FALSE(progress.Take(Window(10)));
  EXPECT_FALSE(progress.Take(Event()));
}

TEST(ExecProgress, InputRoom_FollowsTheWindowAndNeverShrinks) {
  ExecProgress progress(Stdin::kPipe);
  EXPECT_EQ(progress.InputRoom(), 0u);
  progress.Take(Ready(8));
  EXPECT_EQ(progress.SendInput(5), 0u);
  EXPECT_EQ(progress.SendInput(3), 5u);
  EXPECT_EQ(progress.InputRoom(), 0u);
  progress.Take(Window(20));
  progress.Take(Window(10));
  EXPECT_EQ(progress.InputRoom(), 12u);
}

TEST(ExecProgress, Input_IsRefusedOnceNobodyReadsIt) {
  EXPECT_FALSE(ExecProgress(Stdin::kNull).CanSendInput().ok());
  ExecProgress progress(Stdin::kPipe);
  EXPECT_TRUE(progress.CanSendInput().ok());
  Event closed;
  closed.mutable_input_closed();
  EXPECT_TRUE(progress.Take(closed));
  EXPECT_FALSE(progress.CanSendInput().ok());
}

// T44: a second end of input is a no-op.
TEST(ExecProgress, T44a_CloseInput_HasToBeSentOnce) {
  ExecProgress progress(Stdin::kPipe);
  EXPECT_TRUE(progress.CloseInput());
  EXPECT_FALSE(progress.CloseInput());
  EXPECT_FALSE(progress.CanSendInput().ok());
}

}  // namespace
}  // namespace sandbroker::client
