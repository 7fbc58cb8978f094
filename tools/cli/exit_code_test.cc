#include "tools/cli/exit_code.h"

#include <gtest/gtest.h>

namespace sandbroker::cli {
namespace {

v1::ExecEnded Exited(int code) {
  v1::ExecEnded ended;
  ended.mutable_exited()->set_code(code);
  return ended;
}

v1::ExecEnded Signaled(int number) {
  v1::ExecEnded ended;
  ended.mutable_signaled()->set_number(number);
  return ended;
}

v1::ExecEnded StartFailed(int error_number, const std::string& step) {
  v1::ExecEnded ended;
  ended.mutable_start_failed()->set_error_number(error_number);
  ended.mutable_start_failed()->set_step(step);
  return ended;
}

TEST(ExitCode, ExitedProgram_IsMirroredWithoutAWord) {
  for (int code : {0, 1, 125, 255}) {
    EXPECT_EQ(OutcomeOf(Exited(code)).exit_code, code);
    EXPECT_EQ(OutcomeOf(Exited(code)).message, "");
  }
}

// T48: 128+n, as shells do.
TEST(ExitCode, T48a_SignaledProgram_Is128PlusNumber) {
  EXPECT_EQ(OutcomeOf(Signaled(9)).exit_code, 137);
  EXPECT_EQ(OutcomeOf(Signaled(15)).exit_code, 143);
  EXPECT_EQ(OutcomeOf(Signaled(11)).exit_code, 139);
  EXPECT_NE(OutcomeOf(Signaled(9)).message.find("signal 9"), std::string::npos);
  EXPECT_EQ(OutcomeOf(Signaled(2)).message, "");
  EXPECT_EQ(OutcomeOf(Signaled(13)).message, "");
}

TEST(ExitCode, ProgramThatCouldNotStart_IsToldLikeAShell) {
  EXPECT_EQ(OutcomeOf(StartFailed(2, "exec")).exit_code, 127);
  EXPECT_EQ(OutcomeOf(StartFailed(13, "exec")).exit_code, 126);
  EXPECT_EQ(OutcomeOf(StartFailed(7, "exec")).exit_code, 126);
  EXPECT_EQ(OutcomeOf(StartFailed(2, "cwd")).exit_code, 126);
  EXPECT_NE(OutcomeOf(StartFailed(2, "cwd")).message.find("cwd"), std::string::npos);
}

TEST(ExitCode, EveryOtherEnd_HasItsOwnCodeAndALine) {
  v1::ExecEnded ends[8];
  ends[0].mutable_lease_expired();
  ends[1].mutable_sandbox_gone();
  ends[2].mutable_out_of_memory();
  ends[3].mutable_cancelled()->set_by("caller");
  ends[4].mutable_agent_lost();
  ends[5].mutable_outcome_unknown();
  ends[6].mutable_timed_out();
  const int codes[] = {118, 119, 120, 121, 122, 123, 124};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(OutcomeOf(ends[i]).exit_code, codes[i]);
    EXPECT_NE(OutcomeOf(ends[i]).message, "") << codes[i];
  }
  // An end of a newer server is not taken for a success.
  EXPECT_EQ(OutcomeOf(ends[7]).exit_code, 123);
}

}  // namespace
}  // namespace sandbroker::cli
