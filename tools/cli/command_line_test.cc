#include "tools/cli/command_line.h"

#include <gtest/gtest.h>

#include "tools/cli/common.h"
#include "tools/cli/interrupt_policy.h"
#include "tools/cli/json.h"

namespace sandbroker::cli {
namespace {

using Words = std::vector<std::string>;

ParsedCommandLine Parse(const Words& args) { return ParseCommandLine(args, {}); }

template <typename T>
T Must(const Words& args) {
  ParsedCommandLine parsed = Parse(args);
  EXPECT_TRUE(parsed.command.has_value()) << parsed.text;
  if (!parsed.command || !std::holds_alternative<T>(*parsed.command)) {
    ADD_FAILURE() << "another subcommand";
    return T{};
  }
  return std::get<T>(*parsed.command);
}

Words RunArgv(const Words& args) { return Must<RunCommand>(args).session.program.argv; }

TEST(CommandLine, Program_NeedsNoDashes) {
  EXPECT_EQ(RunArgv({"run", "ls", "-l", "/"}), (Words{"ls", "-l", "/"}));
  EXPECT_EQ(RunArgv({"run", "--timeout", "3s", "ls", "--timeout", "x"}),
            (Words{"ls", "--timeout", "x"}));
  EXPECT_EQ(RunArgv({"run", "--env", "A=b", "cmd", "C=d"}), (Words{"cmd", "C=d"}));
}

TEST(CommandLine, Program_AfterDashesIsTakenAsItIs) {
  EXPECT_EQ(RunArgv({"run", "--json", "--", "-odd", "--json"}), (Words{"-odd", "--json"}));
  EXPECT_EQ(RunArgv({"run", "--", "sh", "-c", "x", "--", "y"}),
            (Words{"sh", "-c", "x", "--", "y"}));
  EXPECT_EQ(RunArgv({"run", "sh", "-c", "x", "--", "y"}), (Words{"sh", "-c", "x", "--", "y"}));
  EXPECT_EQ(RunArgv({"run", "--", "echo", ""}), (Words{"echo", ""}));
}

TEST(CommandLine, Program_MayBeNamedLikeASubcommand) {
  EXPECT_EQ(RunArgv({"run", "ls"}), (Words{"ls"}));
  EXPECT_EQ(RunArgv({"run", "run", "exec"}), (Words{"run", "exec"}));
  const ExecCommand exec = Must<ExecCommand>({"exec", "sb1_x", "ls", "release"});
  EXPECT_EQ(exec.sandbox_id, "sb1_x");
  EXPECT_EQ(exec.session.program.argv, (Words{"ls", "release"}));
}

TEST(CommandLine, Doctor_TakesTheServersConfiguration) {
  const DoctorCommand doctor =
      Must<DoctorCommand>({"doctor", "--json", "--config", "a.yaml", "--server", "/opt/d"});
  EXPECT_TRUE(doctor.json);
  EXPECT_EQ(doctor.config, "a.yaml");
  EXPECT_EQ(doctor.server, "/opt/d");
  EXPECT_EQ(Parse({"doctor", "--address", "x"}).exit_code, 2);
}

TEST(CommandLine, Exec_TakesFlagsBeforeAndAfterTheSandbox) {
  const ExecCommand exec = Must<ExecCommand>({"exec", "--cwd", "/tmp", "sb1_x", "--env", "A=1",
                                              "--env", "B=2", "--no-stdin", "--", "env"});
  EXPECT_EQ(exec.sandbox_id, "sb1_x");
  EXPECT_EQ(exec.session.program.cwd, "/tmp");
  EXPECT_EQ(exec.session.program.env, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}));
  EXPECT_EQ(exec.session.exec.input, client::Stdin::kNull);
  EXPECT_EQ(exec.session.program.argv, Words{"env"});
}

TEST(CommandLine, Acquire_ReadsItsFlags) {
  const AcquireCommand acquire = Must<AcquireCommand>(
      {"acquire", "--address", "h:1", "--pool", "p", "--label", "a=b", "--label", "c=d", "--ttl",
       "1m", "--wait", "0s", "--warm-only", "--request-id", "r-1", "--env", "K=V", "--json"});
  EXPECT_EQ(acquire.common.address, "h:1");
  EXPECT_TRUE(acquire.common.json);
  EXPECT_EQ(acquire.acquire.pool, "p");
  EXPECT_EQ(acquire.acquire.labels.size(), 2u);
  EXPECT_EQ(acquire.acquire.ttl, std::chrono::minutes(1));
  EXPECT_EQ(acquire.acquire.wait_bound, std::chrono::seconds(0));
  EXPECT_EQ(acquire.acquire.fallback, v1::FALLBACK_WARM_ONLY);
  EXPECT_EQ(acquire.acquire.request_id, "r-1");
  EXPECT_EQ(acquire.acquire.env.at("K"), "V");
}

TEST(CommandLine, Release_TakesIdsOrASelector) {
  EXPECT_EQ(Must<ReleaseCommand>({"release", "a", "b"}).sandbox_ids, (Words{"a", "b"}));
  const ReleaseCommand bulk = Must<ReleaseCommand>(
      {"release", "--selector", "a=b", "--before", "1970-01-01T00:00:09Z", "--dry-run"});
  EXPECT_EQ(bulk.bulk.label_selector, "a=b");
  EXPECT_TRUE(bulk.bulk.dry_run);
  EXPECT_EQ(bulk.bulk.acquired_before->time_since_epoch(), std::chrono::seconds(9));
}

TEST(CommandLine, BadInput_IsExit2AndNamesTheFlag) {
  const std::pair<Words, std::string> cases[] = {
      {{"run", "--timeout", "30", "ls"}, "--timeout: \"30\" has no unit"},
      {{"run", "--timeout", "0s", "ls"}, "--timeout: \"0s\" is not longer"},
      {{"run", "--timeout", "-1s", "ls"}, "--timeout"},
      {{"run", "--env", "A", "ls"}, "--env: \"A\" is not KEY=VALUE"},
      {{"run", "--bogus", "ls"}, "--bogus: no such flag"},
      {{"run"}, "program to run is missing"},
      {{"run", "--", ""}, "program to run is missing"},
      {{"exec", "--", "ls"}, "SANDBOX"},
      {{"exec", "sb1_x"}, "program to run is missing"},
      {{"acquire", "--warm-only", "--no-cold"}, "--warm-only"},
      {{"acquire", "--request-id", "a b"}, "--request-id: \"a b\""},
      {{"release"}, "--selector"},
      {{"release", "--dry-run"}, "--selector"},
      {{"release", "--selector", "a=b", "--before", "x"}, "--before: \"x\""},
      {{"acquire", "ls"}, "ls"},
      {{"nonsense"}, "there is no subcommand \"nonsense\""},
      {{}, "subcommand"},
  };
  for (const auto& [args, expected] : cases) {
    const ParsedCommandLine parsed = Parse(args);
    EXPECT_FALSE(parsed.command.has_value()) << expected;
    EXPECT_EQ(parsed.exit_code, 2) << expected;
    EXPECT_NE(parsed.text.find(expected), std::string::npos) << parsed.text << " / " << expected;
  }
}

TEST(CommandLine, HelpAndVersion_Succeed) {
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_NE(Parse({"--help"}).text.find("acquire"), std::string::npos);
  EXPECT_NE(Parse({"run", "--help"}).text.find("--timeout"), std::string::npos);
  EXPECT_EQ(Parse({"--version"}).text, "sandbroker " SANDBROKER_VERSION "\n");
}

TEST(InterruptPolicy, CtrlC_ForwardsThenCancelsThenLeaves) {
  InterruptPolicy policy;
  EXPECT_EQ(policy.Take(SIGINT), InterruptAction::kForward);
  EXPECT_EQ(policy.Take(SIGINT), InterruptAction::kCancel);
  EXPECT_EQ(policy.Take(SIGINT), InterruptAction::kLeave);
  EXPECT_EQ(policy.Take(SIGINT), InterruptAction::kLeave);
}

TEST(InterruptPolicy, TermAndHangUp_BeginWithCancel) {
  InterruptPolicy policy;
  EXPECT_EQ(policy.Take(SIGTERM), InterruptAction::kCancel);
  EXPECT_EQ(policy.Take(SIGHUP), InterruptAction::kLeave);
  InterruptPolicy mixed;
  EXPECT_EQ(mixed.Take(SIGINT), InterruptAction::kForward);
  EXPECT_EQ(mixed.Take(SIGTERM), InterruptAction::kCancel);
}

TEST(Json, Acquired_HasTheSandboxIdAtTheTop) {
  v1::AcquireResponse acquired;
  acquired.mutable_sandbox()->set_sandbox_id("sb1_x");
  acquired.set_source(v1::ACQUIRE_SOURCE_WARM);
  acquired.mutable_timing()->mutable_total()->set_seconds(1);
  const std::string json = AcquiredToJson(acquired);
  EXPECT_TRUE(json.starts_with("{\"sandbox_id\":\"sb1_x\",")) << json;
  EXPECT_TRUE(json.ends_with(",\"source\":\"ACQUIRE_SOURCE_WARM\",\"timing\":{\"total\":\"1s\"}}"))
      << json;
}

TEST(Json, ZeroFiguresArePrintedUnderTheirProtoNames) {
  v1::PoolCapacity pool;
  EXPECT_NE(ToJson(pool).find("\"waiting_callers\":0"), std::string::npos);
}

TEST(Table, AlignsColumnsAndEndsLinesBare) {
  EXPECT_EQ(Table({{"A", "B"}, {"long", "x"}}), "A     B\nlong  x\n");
}

TEST(ForPeople, PicksAReadableUnit) {
  google::protobuf::Duration duration;
  EXPECT_EQ(ForPeople(duration), "0s");
  duration.set_nanos(700'000);
  EXPECT_EQ(ForPeople(duration), "0.7ms");
  duration.set_seconds(65);
  EXPECT_EQ(ForPeople(duration), "1m5s");
  duration.set_seconds(7260);
  EXPECT_EQ(ForPeople(duration), "2h1m");
}

}  // namespace
}  // namespace sandbroker::cli
