// The real binary against a fake broker: exit codes, descriptors, signals, cleanup.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <thread>

#include "client/testing/fake_broker.h"
#include "lib/base/fd.h"

namespace sandbroker::cli {
namespace {

using client::testing::FakeBroker;
using client::testing::FakeRecord;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) abort();
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
};

std::string ReadToEnd(int fd) {
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t count;
  while ((count = read(fd, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return text;
}

enum class Input { kClosed, kEmpty, kOpenForever };

// One run of the binary. Its outputs are collected by threads of their own.
class Process {
 public:
  Process(const std::string& address, std::vector<std::string> args, Input input,
          std::optional<std::string> text = std::nullopt) {
    args.insert(args.begin(), SANDBROKER_BINARY);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    setenv("SANDBROKER_ADDRESS", address.c_str(), 1);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in_.read.get(), 0);
      dup2(out_.write.get(), 1);
      dup2(err_.write.get(), 2);
      if (input == Input::kClosed) close(0);
      execv(argv[0], argv.data());
      _exit(99);
    }
    in_.read.Reset();
    out_.write.Reset();
    err_.write.Reset();
    if (text) {
      writer_ = std::thread([this, text = *std::move(text)] {
        size_t done = 0;
        ssize_t count;
        while (done < text.size() &&
               (count = write(in_.write.get(), text.data() + done, text.size() - done)) > 0) {
          done += static_cast<size_t>(count);
        }
        in_.write.Reset();
      });
    } else if (input == Input::kEmpty) {
      in_.write.Reset();
    }
    out_reader_ = std::thread([this] { out_text_ = ReadToEnd(out_.read.get()); });
    err_reader_ = std::thread([this] { err_text_ = ReadToEnd(err_.read.get()); });
  }
  ~Process() {
    if (pid_ > 0) Wait();
  }

  void Kill(int signal) { kill(pid_, signal); }
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    for (std::thread* thread : {&writer_, &out_reader_, &err_reader_}) {
      if (thread->joinable()) thread->join();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& out() const { return out_text_; }
  const std::string& err() const { return err_text_; }

 private:
  pid_t pid_ = -1;
  Pipe in_, out_, err_;
  std::thread writer_, out_reader_, err_reader_;
  std::string out_text_, err_text_;
};

class CliTest : public ::testing::Test {
 protected:
  CliTest() { signal(SIGPIPE, SIG_IGN); }

  struct Result {
    int code;
    std::string out;
    std::string err;
  };
  Result Cli(std::vector<std::string> args, Input input = Input::kEmpty) {
    Process process(broker_.address(), std::move(args), input);
    const int code = process.Wait();
    return {code, process.out(), process.err()};
  }
  bool WaitForStart() {
    return broker_.WaitFor([](const FakeRecord& record) { return !record.starts.empty(); });
  }
  bool WaitForMessages(size_t count) {
    return broker_.WaitFor(
        [count](const FakeRecord& record) { return record.messages.size() >= count; });
  }
  std::vector<std::string> released() { return broker_.record().released; }

  FakeBroker broker_;
};

TEST_F(CliTest, Run_DoesTheWholeCycle) {
  const Result result = Cli({"run", "--label", "a=b", "--env", "K=V", "print", "hi"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "hi");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(released(), std::vector<std::string>{"sb1_fake1"});
  const FakeRecord record = broker_.record();
  EXPECT_EQ(record.acquires[0].labels().at("a"), "b");
  EXPECT_EQ(record.starts[0].spec().env(0).value(), "V");
  EXPECT_FALSE(record.starts[0].execution_id().empty());
}

TEST_F(CliTest, Outputs_GoToTheirDescriptors) {
  const Result result = Cli({"exec", "sb1_x", "complain", "oops"});
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "oops");
  EXPECT_TRUE(released().empty());
}

TEST_F(CliTest, ExitCodes_AreMirroredOrDocumented) {
  const std::pair<std::vector<std::string>, int> cases[] = {
      {{"exit", "3"}, 3},
      {{"die", "9"}, 137},
      {{"end", "timed_out"}, 124},
      {{"end", "not_found"}, 127},
      {{"end", "no_access"}, 126},
      {{"end", "lease_expired"}, 118},
      {{"end", "sandbox_gone"}, 119},
      {{"end", "out_of_memory"}, 120},
      {{"end", "cancelled"}, 121},
      {{"end", "agent_lost"}, 122},
      {{"end", "outcome_unknown"}, 123},
      {{"vanish"}, 123},
      {{"drop"}, 123},
      {{"refuse"}, 125},
  };
  for (const auto& [argv, code] : cases) {
    std::vector<std::string> args = {"run", "--"};
    args.insert(args.end(), argv.begin(), argv.end());
    const Result result = Cli(args);
    EXPECT_EQ(result.code, code) << argv.back() << result.err;
    // One line, unless the code is the program's own.
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), code == 3 ? 0 : 1)
        << result.err;
  }
  EXPECT_EQ(released().size(), std::size(cases));
}

TEST_F(CliTest, T140b_RandomBytesThroughCat_AreUnchanged) {
  std::string bytes(1024 * 1024, '\0');
  uint32_t state = 12345;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  Process process(broker_.address(), {"exec", "sb1_x", "cat"}, Input::kEmpty, bytes);
  EXPECT_EQ(process.Wait(), 0) << process.err();
  EXPECT_TRUE(process.out() == bytes);
}

// T28: `sleep 1000 | sandbroker exec SB -- echo hi` returns when the program has ended.
TEST_F(CliTest, T28a_StdinThatNeverEnds_HoldsNothingUp) {
  const Result result = Cli({"exec", "sb1_x", "--", "print", "hi"}, Input::kOpenForever);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "hi");
}

TEST_F(CliTest, ClosedStdin_IsAnEmptyOne) {
  const Result result = Cli({"exec", "sb1_x", "--", "cat"}, Input::kClosed);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(CliTest, CtrlC_IsSentToTheProgramAndTheSandboxReleased) {
  Process process(broker_.address(), {"run", "wait"}, Input::kOpenForever);
  ASSERT_TRUE(WaitForStart());
  process.Kill(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_EQ(broker_.record().messages.at(0).signal().number(), 2);
  EXPECT_EQ(released().size(), 1u);
}

TEST_F(CliTest, Terminate_CancelsTheProgram) {
  Process process(broker_.address(), {"run", "wait"}, Input::kOpenForever);
  ASSERT_TRUE(WaitForStart());
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), 121);
  EXPECT_TRUE(broker_.record().messages.at(0).has_cancel());
  EXPECT_EQ(released().size(), 1u);
}

TEST_F(CliTest, ThirdCtrlC_LeavesAndStillReleases) {
  Process process(broker_.address(), {"run", "stubborn"}, Input::kOpenForever);
  ASSERT_TRUE(WaitForStart());
  process.Kill(SIGINT);
  ASSERT_TRUE(WaitForMessages(1));
  process.Kill(SIGINT);
  ASSERT_TRUE(WaitForMessages(2));
  process.Kill(SIGINT);
  EXPECT_EQ(process.Wait(), 123);
  EXPECT_TRUE(broker_.record().messages.at(1).has_cancel());
  EXPECT_EQ(released().size(), 1u);
}

TEST_F(CliTest, CtrlC_WhileAcquiring_GivesUp) {
  Process process(broker_.address(), {"run", "--pool", "slow", "wait"}, Input::kEmpty);
  ASSERT_TRUE(broker_.WaitFor([](const FakeRecord& record) { return !record.acquires.empty(); }));
  process.Kill(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_TRUE(broker_.WaitFor([](const FakeRecord& record) { return record.given_up == 1; }));
}

TEST_F(CliTest, FailedCleanup_IsToldAndDoesNotMaskTheCode) {
  broker_.FailReleases(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no agent"));
  const Result result = Cli({"run", "exit", "7"});
  EXPECT_EQ(result.code, 7);
  EXPECT_NE(result.err.find("cleanup: sandbox sb1_fake1 was not released"), std::string::npos);
}

TEST_F(CliTest, MissingOutput_IsSaid) {
  const Result result = Cli({"exec", "sb1_x", "lossy"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err,
            "sandbroker: warning: LEASE_ENDING: 60 s left\n"
            "sandbroker: output from 0 to 10 was dropped\n"
            "sandbroker: some of the program's output is missing\n");
}

TEST_F(CliTest, ReaderThatWentAway_EndsTheProgramWithSigpipe) {
  Pipe out;
  setenv("SANDBROKER_ADDRESS", broker_.address().c_str(), 1);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out.write.get(), 1);
    // The reader's end is closed by exec.
    out.read.Reset();
    execl(SANDBROKER_BINARY, "sandbroker", "exec", "--no-stdin", "sb1_x", "print-then-wait", "hi",
          nullptr);
    _exit(99);
  }
  out.read.Reset();
  out.write.Reset();
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 141);
  EXPECT_EQ(broker_.record().messages.at(0).signal().number(), 13);
}

TEST_F(CliTest, Json_HasTheProtosNames) {
  const Result acquired = Cli({"acquire", "--json"});
  EXPECT_TRUE(acquired.out.starts_with("{\"sandbox_id\":\"sb1_fake1\"")) << acquired.out;
  EXPECT_TRUE(released().empty());
  EXPECT_NE(Cli({"capacity", "--json"}).out.find("\"claimed\":0"), std::string::npos);
  EXPECT_NE(Cli({"info", "--json"}).out.find("\"version\":\"0.0.0-fake\""), std::string::npos);
  EXPECT_NE(Cli({"ls", "--json"}).out.find("\"sandbox_id\":\"sb1_two\""), std::string::npos);
  EXPECT_NE(Cli({"exec", "--json", "sb1_x", "print", "hi"}).out.find("\"data\":\"aGk=\""),
            std::string::npos);
}

TEST_F(CliTest, PlainOutputs_AreForPeopleAndScripts) {
  EXPECT_EQ(Cli({"acquire"}).out, "sb1_fake1\n");
  EXPECT_EQ(Cli({"release", "sb1_a"}).out, "sb1_a released\n");
  EXPECT_TRUE(Cli({"ls"}).out.starts_with("POOL     STATE  LEASE  LABELS  SANDBOX"));
  EXPECT_NE(Cli({"capacity"}).out.find("default  2"), std::string::npos);
  EXPECT_NE(Cli({"info"}).out.find("0.0.0-fake"), std::string::npos);
}

TEST_F(CliTest, ListWatch_PrintsALineAChangeAndSaysWhatEndedIt) {
  const Result plain = Cli({"ls", "--watch"});
  EXPECT_EQ(plain.code, 125);
  EXPECT_EQ(plain.out,
            "added  default  READY  0s  app=ci  sb1_one\n"
            "removed  SANDBOX_GONE  released  sb1_one\n");
  EXPECT_NE(plain.err.find("SERVER_DRAINING"), std::string::npos);
  const Result json = Cli({"ls", "--watch", "--json"});
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 3);
  EXPECT_NE(json.out.find("{\"synced\":{}}\n"), std::string::npos);
}

TEST_F(CliTest, BulkRelease_TellsFailuresApart) {
  const Result result = Cli({"release", "--selector", "a=b", "--before", "10m"});
  EXPECT_EQ(result.code, 125);
  EXPECT_EQ(result.out, "sb1_a released\n");
  EXPECT_EQ(result.err, "sandbroker: sb1_b: does not answer\n");
  EXPECT_TRUE(broker_.record().bulk_releases.at(0).has_acquired_before());
}

TEST_F(CliTest, RefusedAcquire_NamesReasonAndRetry) {
  const Result result = Cli({"run", "--pool", "dry", "true"});
  EXPECT_EQ(result.code, 125);
  EXPECT_EQ(result.err, "sandbroker: pool \"dry\" has none (POOL_EXHAUSTED, try again after 2s)\n");
}

TEST_F(CliTest, NoServer_IsOneHelpfulLine) {
  const Result result = Cli({"ls", "--address", "unix:/nonexistent/socket"});
  EXPECT_EQ(result.code, 125);
  EXPECT_NE(result.err.find("no server answers at unix:/nonexistent/socket"), std::string::npos);
  EXPECT_NE(result.err.find("sandbrokerd"), std::string::npos);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_EQ(Cli({"ls", "--address", "nowhere"}).code, 2);
}

}  // namespace
}  // namespace sandbroker::cli
