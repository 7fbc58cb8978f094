#include "tests/e2e/server_under_test.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

extern char** environ;

namespace sandbroker::e2e {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

pid_t Start(std::vector<std::string> argv, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> raw;
  for (std::string& arg : argv) raw.push_back(arg.data());
  raw.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : -1;
}

// Polls for at most `bound`.
template <class Look>
bool Within(std::chrono::seconds bound, Look look) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!look()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

uint64_t Count(uint64_t in_ci, uint64_t in_full) {
  const char* full = std::getenv("SANDBROKER_LONG");
  return full != nullptr && std::strcmp(full, "1") == 0 ? in_full : in_ci;
}

ServerUnderTest::ServerUnderTest() {
  char folder[] = "/tmp/sandbroker-test-XXXXXX";
  folder_ = mkdtemp(folder);
  const std::string bin = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string port_file = folder_ + "/port";
  pid_ = Start({bin + "/sandbrokerd", "--listen", "127.0.0.1:0", "--port-file", port_file,
                "--state-dir", folder_ + "/state"},
               folder_ + "/log");
  const bool serves = Within(std::chrono::seconds(30), [&] { return fs::exists(port_file); });
  EXPECT_TRUE(serves) << ReadFile(folder_ + "/log");
  address_ = ReadFile(port_file);
  while (!address_.empty() && address_.back() == '\n') address_.pop_back();
}

ServerUnderTest::~ServerUnderTest() {
  kill(pid_, SIGTERM);
  int status = 0;
  const bool ended =
      Within(std::chrono::seconds(30), [&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  EXPECT_TRUE(ended);
  if (!ended) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << ReadFile(folder_ + "/log");
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::unique_ptr<v1::SandboxBroker::Stub> ServerUnderTest::Stub() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return v1::SandboxBroker::NewStub(
      grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments));
}

std::string ServerUnderTest::Acquire() const {
  grpc::ClientContext context;
  v1::AcquireRequest request;
  request.mutable_task();
  v1::AcquireResponse response;
  const grpc::Status status = Stub()->Acquire(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.sandbox().sandbox_id();
}

std::map<pid_t, char> ServerUnderTest::Descendants() const {
  std::multimap<pid_t, std::pair<pid_t, char>> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().native()[0])) == 0)
      continue;
    const std::string stat = ReadFile(entry.path() / "stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 2));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    children.emplace(parent, std::make_pair(std::stoi(stat), state));
  }
  std::map<pid_t, char> below;
  std::vector<pid_t> todo = {pid_};
  while (!todo.empty()) {
    const auto [from, to] = children.equal_range(todo.back());
    todo.pop_back();
    for (auto it = from; it != to; ++it) {
      below.insert(it->second);
      todo.push_back(it->second.first);
    }
  }
  return below;
}

std::vector<pid_t> ServerUnderTest::Agents() const {
  std::vector<pid_t> agents;
  for (const auto& [pid, state] : Descendants()) {
    std::error_code gone;
    const fs::path program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone);
    if (program.filename() == "sandbroker-agent") agents.push_back(pid);
  }
  return agents;
}

uint64_t RssKib(pid_t pid) {
  const std::string status = ReadFile("/proc/" + std::to_string(pid) + "/status");
  const size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + 6, nullptr, 10);
}

size_t OpenFds(pid_t pid) {
  const fs::directory_iterator fds("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<size_t>(std::distance(fs::begin(fds), fs::end(fds)));
}

}  // namespace sandbroker::e2e
