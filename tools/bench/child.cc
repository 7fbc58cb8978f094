#include "tools/bench/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

extern char** environ;

namespace sandbroker::bench {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) Fail("pipe2");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

bool Reaped(pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == pid; }

}  // namespace

void Fail(const std::string& message) {
  std::fprintf(stderr, "sandbroker-bench: %s (%s)\n", message.c_str(), std::strerror(errno));
  std::exit(1);
}

std::string SelfPath() {
  std::array<char, PATH_MAX> path;
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) Fail("readlink /proc/self/exe");
  return {path.data(), static_cast<size_t>(size)};
}

Child::Child(const std::vector<std::string>& argv) : name_(argv.at(0)) {
  Pipe in = MakePipe();
  Pipe out = MakePipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    errno = error;
    Fail("can't start " + name_);
  }
  in_ = std::move(in.write);
  out_ = std::move(out.read);
}

Child::~Child() {
  in_.Reset();
  out_.Reset();
  kill(pid_, SIGTERM);
  for (int i = 0; i < 1000; ++i) {
    if (Reaped(pid_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Child::Write(const std::string& text) {
  if (write(in_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    Fail("can't write to " + name_);
  }
}

std::string Child::ReadLine() {
  std::string line;
  for (char c = 0;; line += c) {
    ReadExactly(&c, 1);
    if (c == '\n') return line;
  }
}

void Child::ReadExactly(void* to, size_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = read(out_.get(), at, size);
    if (got <= 0) Fail(name_ + " ended early");
    at += got;
    size -= static_cast<size_t>(got);
  }
}

void Child::EnlargePipe() {
  // Not allowed beyond pipe-user-pages-soft; then the default stays.
  fcntl(in_.get(), F_SETPIPE_SZ, 1 << 20);
  fcntl(out_.get(), F_SETPIPE_SZ, 1 << 20);
}

}  // namespace sandbroker::bench
