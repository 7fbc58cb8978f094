// Much data, many programs, a reader that stops: what only shows in quantity. Plain stubs.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/server_under_test.h"

namespace sandbroker::e2e {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void Add(const std::string& data) { EVP_DigestUpdate(context_.get(), data.data(), data.size()); }
  std::string Finish() {
    std::string digest(32, '\0');
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return digest;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// Bytes that differ everywhere, cheap to make.
std::string Chunk(uint64_t* state, size_t size) {
  std::string chunk(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    std::copy_n(reinterpret_cast<const char*>(state), 8, chunk.data() + i);
  }
  return chunk;
}

// One Exec call, read by hand.
class Exec {
 public:
  Exec(v1::SandboxBroker::Stub& stub, const std::string& sandbox,
       const std::vector<std::string>& argv, bool with_input)
      : stream_(stub.Exec(&context_)) {
    v1::ExecRequest request;
    request.mutable_start()->set_sandbox_id(sandbox);
    request.mutable_start()->set_stdin(with_input);
    for (const std::string& arg : argv) request.mutable_start()->mutable_spec()->add_argv(arg);
    stream_->Write(request);
  }

  bool Write(std::string data, bool eof) {
    v1::ExecRequest request;
    request.mutable_stdin()->set_data(std::move(data));
    request.mutable_stdin()->set_eof(eof);
    return stream_->Write(request);
  }
  bool Next(v1::ExecResponse* response) {
    if (!stream_->Read(response)) return false;
    if (response->has_output()) {
      EXPECT_EQ(response->output().offset(), received_) << "a hole, or bytes twice";
      received_ = response->output().offset() + response->output().data().size();
    }
    EXPECT_FALSE(response->has_gap());
    if (response->has_ended()) ended_ = response->ended();
    return true;
  }
  // Reads until `total` bytes of output have come.
  bool ReadTo(uint64_t total) {
    v1::ExecResponse response;
    while (received_ < total) {
      if (!Next(&response)) return false;
    }
    return true;
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }
  uint64_t received() const { return received_; }
  const v1::ExecEnded& ended() const { return ended_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecResponse>> stream_;
  uint64_t received_ = 0;
  v1::ExecEnded ended_;
};

// 1 GiB; CI 192 MiB.
TEST(Bulk, CatBothWays_SameBytesComeBack) {
  const uint64_t total = Count(192, 1024) * kMiB;
  ServerUnderTest server;
  const std::string sandbox = server.Acquire();
  const auto stub = server.Stub();
  Exec cat(*stub, sandbox, {"cat"}, true);
  Digest sent;
  const auto begin = std::chrono::steady_clock::now();
  std::thread writer([&] {
    uint64_t state = 1;
    for (uint64_t at = 0; at < total; at += kMiB / 4) {
      std::string chunk = Chunk(&state, kMiB / 4);
      sent.Add(chunk);
      ASSERT_TRUE(cat.Write(std::move(chunk), at + kMiB / 4 == total));
    }
  });
  Digest received;
  v1::ExecResponse response;
  while (cat.Next(&response)) {
    if (response.has_output()) received.Add(response.output().data());
  }
  writer.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(cat.Finish().ok());
  EXPECT_EQ(cat.received(), total);
  EXPECT_EQ(sent.Finish(), received.Finish());
  EXPECT_EQ(cat.ended().exited().code(), 0);
  EXPECT_TRUE(cat.ended().has_exited() && cat.ended().output_complete());
  std::printf("%.0f MB/s each way at once\n", static_cast<double>(total) / 1e6 / took.count());
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    hex += digits;
  }
  return hex;
}

// 1 GiB; CI 192 MiB.
TEST(Bulk, T40_LargeInput_HasTheRightDigest) {
  const uint64_t total = Count(192, 1024) * kMiB;
  ServerUnderTest server;
  const std::string sandbox = server.Acquire();
  const auto stub = server.Stub();
  Exec program(*stub, sandbox, {"sha256sum"}, true);
  Digest sent;
  uint64_t state = 40;
  for (uint64_t at = 0; at < total; at += kMiB) {
    std::string chunk = Chunk(&state, kMiB);
    sent.Add(chunk);
    ASSERT_TRUE(program.Write(std::move(chunk), at + kMiB == total));
  }
  std::string printed;
  v1::ExecResponse response;
  while (program.Next(&response)) {
    if (response.has_output()) printed += response.output().data();
  }
  EXPECT_TRUE(program.Finish().ok());
  EXPECT_EQ(printed.substr(0, 64), Hex(sent.Finish()));
}

// Runs `argv` `times` times from 50 threads; answers how many did not print `wanted` and exit 0.
int RunMany(const ServerUnderTest& server, const std::string& sandbox,
            const std::vector<std::string>& argv, const std::string& wanted, int times) {
  const auto stub = server.Stub();
  std::atomic<int> left{times};
  std::atomic<int> wrong{0};
  const auto work = [&] {
    while (left.fetch_sub(1) > 0) {
      grpc::ClientContext context;
      v1::RunRequest request;
      request.set_sandbox_id(sandbox);
      for (const std::string& arg : argv) request.mutable_spec()->add_argv(arg);
      v1::RunResponse response;
      const grpc::Status status = stub->Run(&context, request, &response);
      const bool good = status.ok() && response.ended().has_exited() &&
                        response.ended().exited().code() == 0 && response.stdout() == wanted &&
                        response.stderr().empty() && response.ended().output_complete();
      if (!good) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 50; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// 10,000 each; CI 1,000 each.
TEST(Bulk, T58_ManyShortPrograms_NoEmptyResultNothingLeft) {
  const int times = static_cast<int>(Count(1000, 10'000));
  ServerUnderTest server;
  const std::string sandbox = server.Acquire();
  EXPECT_EQ(RunMany(server, sandbox, {"true"}, "", 100), 0);
  const std::vector<pid_t> agents = server.Agents();
  std::map<pid_t, size_t> fds = {{server.pid(), OpenFds(server.pid())}};
  for (const pid_t agent : agents) fds[agent] = OpenFds(agent);
  EXPECT_EQ(RunMany(server, sandbox, {"true"}, "", times), 0);
  EXPECT_EQ(RunMany(server, sandbox, {"echo", "x"}, "x\n", times), 0);
  // The second pool sandbox may have been started meanwhile: that is a handful, not thousands.
  for (const auto& [pid, before] : fds) EXPECT_LE(OpenFds(pid), before + 8) << pid;
  size_t processes = 0;
  for (const auto& [pid, state] : server.Descendants()) {
    EXPECT_NE(state, 'Z') << pid;
    ++processes;
  }
  EXPECT_LE(processes, 12u);  // bubblewrap and agent of three sandboxes
}

class RssWatch {
 public:
  explicit RssWatch(std::vector<pid_t> pids) {
    for (const pid_t pid : pids) first_[pid] = most_[pid] = RssKib(pid);
  }
  void Look() {
    for (auto& [pid, most] : most_) most = std::max(most, RssKib(pid));
  }
  // Over all processes.
  uint64_t LargestGrowthKib() const {
    uint64_t growth = 0;
    for (const auto& [pid, most] : most_) growth = std::max(growth, most - first_.at(pid));
    return growth;
  }

 private:
  std::map<pid_t, uint64_t> first_;
  std::map<pid_t, uint64_t> most_;
};

// Others read 1 GiB meanwhile; CI 256 MiB.
TEST(Bulk, StoppedReader_CostsNoMemoryAndStopsNobody) {
  const uint64_t more = Count(256, 1024) * kMiB;
  ServerUnderTest server;
  const std::string one = server.Acquire();
  const std::string two = server.Acquire();
  const auto stub = server.Stub();
  const auto others = server.Stub();
  Exec stopped(*stub, one, {"cat", "/dev/zero"}, false);
  Exec same_sandbox(*others, one, {"cat", "/dev/zero"}, false);
  Exec other_sandbox(*others, two, {"cat", "/dev/zero"}, false);
  // From here on every log is full and every buffer has its size.
  const uint64_t warm = 48 * kMiB;
  for (Exec* exec : {&stopped, &same_sandbox, &other_sandbox}) ASSERT_TRUE(exec->ReadTo(warm));

  std::vector<pid_t> pids = server.Agents();
  pids.push_back(server.pid());
  RssWatch watch(pids);
  for (uint64_t at = warm; at < warm + more / 2; at += kMiB) {
    ASSERT_TRUE(same_sandbox.ReadTo(at + kMiB));
    ASSERT_TRUE(other_sandbox.ReadTo(at + kMiB));
    watch.Look();
  }
  EXPECT_LE(watch.LargestGrowthKib(), 32u * 1024);
  // The one that stopped goes on where it was.
  EXPECT_TRUE(stopped.ReadTo(2 * warm));
  for (Exec* exec : {&stopped, &same_sandbox, &other_sandbox}) {
    exec->Cancel();
    EXPECT_EQ(exec->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace sandbroker::e2e
