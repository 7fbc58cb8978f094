#include "tests/support/agent_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
constexpr int kLookMs = 5;
constexpr int kListenFd = 3;
constexpr int kSecretFd = 4;
constexpr int kProgramFd = 7;
constexpr const char* kProgramPath = "/proc/self/fd/7";

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

UniqueFd PipeWith(const std::string& bytes) {
  int ends[2];
  SANDBROKER_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd writing(ends[1]);
  SANDBROKER_CHECK(::write(writing.get(), bytes.data(), bytes.size()) ==
                   static_cast<ssize_t>(bytes.size()));
  return UniqueFd(ends[0]);
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

AgentProcess::AgentProcess(const AgentSetup& setup) {
  char name[] = "/tmp/agent_test.XXXXXX";
  dir_ = ::mkdtemp(name);
  UniqueFd listening, secret, program(::open(SANDBROKER_AGENT_PATH, O_RDONLY | O_CLOEXEC));
  SpawnSpec spec;
  spec.argv = {"sandbroker-agent", "--workspace", dir_};
  spec.path = SANDBROKER_AGENT_PATH;
  spec.fds = {{2, 2}};
  if (setup.user) {
    spec.user = setup.user;
    SANDBROKER_CHECK(::chown(dir_.c_str(), setup.user->first, setup.user->second) == 0);
    // Wherever the file is, and whoever may go there.
    spec.path = kProgramPath;
    spec.fds.emplace_back(program.get(), kProgramFd);
  }
  if (setup.over == Over::kUnix) {
    door_.path = dir_ + "/agent.sock";
    door_.secret = RandomBytes(32);
    listening = BoundSocket(door_.path);
    secret = PipeWith(door_.secret);
    spec.fds.emplace_back(listening.get(), kListenFd);
    spec.fds.emplace_back(secret.get(), kSecretFd);
  } else {
    door_.key = SigningKey::Make(KeyKind::kEd25519);
    spec.argv.insert(spec.argv.end(), {"--listen-tcp", "127.0.0.1:0", "--port-file", dir_ + "/port",
                                       "--broker-key", door_.key->PublicBase64()});
  }
  spec.argv.insert(spec.argv.end(), setup.flags.begin(), setup.flags.end());
  spec.env = setup.env;
  Spawned spawned;
  const auto error = Spawn(spec, &spawned);
  SANDBROKER_CHECK(!error);
  pid_ = spawned.pid;
  pidfd_ = std::move(spawned.pidfd);
  if (setup.over == Over::kTls) AwaitPort();
}

void AgentProcess::AwaitPort() {
  const std::string path = dir_ + "/port";
  pollfd ended = {pidfd_.get(), POLLIN, 0};
  for (int waited = 0; waited < kEndBoundMs; waited += kLookMs) {
    std::string line;
    if (std::getline(std::ifstream(path), line)) {
      door_.port = static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
      return;
    }
    if (::poll(&ended, 1, kLookMs) != 0) break;
  }
  SANDBROKER_CHECK(door_.port != 0);
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
