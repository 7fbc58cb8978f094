#include "tests/support/agent_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "lib/base/check.h"
#include "lib/base/crypto.h"
#include "lib/process/spawn.h"
#include "tests/support/programs.h"

namespace sandbroker::test {
namespace {

constexpr int kEndBoundMs = 20000;
constexpr int kListenFd = 3;
constexpr int kSecretFd = 4;

UniqueFd BoundSocket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  SANDBROKER_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  // Connections queue here until the agent accepts, so nobody has to wait for its start.
  SANDBROKER_CHECK(::listen(fd.get(), 64) == 0);
  return fd;
}

std::string StatusLine(pid_t pid, const std::string& key) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return "";
}

}  // namespace

bool Runs(pid_t pid) {
  const std::string state = StatusLine(pid, "State:");
  return !state.empty() && state.find('Z') == std::string::npos;
}

AgentProcess::AgentProcess(const std::vector<std::string>& flags,
                           const std::vector<std::string>& env) {
  char name[] = "/tmp/agent_test.XXXXXX";
  dir_ = ::mkdtemp(name);
  socket_path_ = dir_ + "/agent.sock";
  secret_ = RandomBytes(32);
  UniqueFd listening = BoundSocket(socket_path_);
  int pipe_fds[2];
  SANDBROKER_CHECK(::pipe2(pipe_fds, O_CLOEXEC) == 0);
  UniqueFd secret_read(pipe_fds[0]), secret_write(pipe_fds[1]);
  SANDBROKER_CHECK(::write(secret_write.get(), secret_.data(), secret_.size()) ==
                   static_cast<ssize_t>(secret_.size()));
  secret_write.Reset();
  SpawnSpec spec;
  spec.argv = {"sandbroker-agent", "--workspace", dir_};
  spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
  spec.path = SANDBROKER_AGENT_PATH;
  spec.env = env;
  spec.fds = {{2, 2}, {listening.get(), kListenFd}, {secret_read.get(), kSecretFd}};
  Spawned spawned;
  const auto error = Spawn(spec, &spawned);
  SANDBROKER_CHECK(!error);
  pid_ = spawned.pid;
  pidfd_ = std::move(spawned.pidfd);
}

AgentProcess::~AgentProcess() {
  if (pid_ > 0) {
    const std::vector<pid_t> left = programs();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    // Outside a pid namespace they would outlive it.
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

bool AgentProcess::alive() const {
  pollfd poll = {pidfd_.get(), POLLIN, 0};
  return ::poll(&poll, 1, 0) == 0;
}

size_t AgentProcess::open_fds() const {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

size_t AgentProcess::zombies() const {
  size_t zombies = 0;
  for (const pid_t child : ChildrenOf(pid_)) {
    if (StatusLine(child, "State:").find('Z') != std::string::npos) ++zombies;
  }
  return zombies;
}

std::vector<pid_t> AgentProcess::Below(bool supervisors) const {
  std::vector<pid_t> found, todo{pid_};
  while (!todo.empty()) {
    const pid_t parent = todo.back();
    todo.pop_back();
    for (const pid_t child : ChildrenOf(parent)) {
      todo.push_back(child);
      const bool supervisor = StatusLine(child, "Name:") == "\tsupervisor";
      if (Runs(child) && supervisor == supervisors) found.push_back(child);
    }
  }
  return found;
}

std::vector<pid_t> AgentProcess::programs() const { return Below(false); }
std::vector<pid_t> AgentProcess::supervisors() const { return Below(true); }

size_t AgentProcess::resident_bytes() const {
  return std::strtoull(StatusLine(pid_, "VmRSS:").c_str(), nullptr, 10) * 1024;
}

size_t AgentProcess::threads() const {
  return std::strtoull(StatusLine(pid_, "Threads:").c_str(), nullptr, 10);
}

int AgentProcess::WaitEnd() {
  pollfd poll = {pidfd_.get(), POLLIN, 0};
  if (::poll(&poll, 1, kEndBoundMs) != 1) return -1;
  int status = -1;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

}  // namespace sandbroker::test
