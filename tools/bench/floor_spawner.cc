// Runs inside bubblewrap, static, and measures there what starting a program costs by itself:
// "s N" starts and awaits true N times, one after the other, and answers N times of 8 bytes
// (nanoseconds); "b N" starts N at once and answers one. Its first byte is '+': it is there.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

constexpr const char* kProgram = "/usr/bin/true";

uint64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

pid_t Start() {
  char* const argv[] = {const_cast<char*>(kProgram), nullptr};
  char* const envp[] = {nullptr};
  pid_t pid = 0;
  if (posix_spawn(&pid, kProgram, nullptr, nullptr, argv, envp) != 0) _exit(3);
  return pid;
}

void Await(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) _exit(4);
}

void Answer(const void* data, size_t size) {
  if (write(STDOUT_FILENO, data, size) != static_cast<ssize_t>(size)) _exit(5);
}

void OneByOne(int count) {
  for (int i = 0; i < count; ++i) {
    const uint64_t start = Now();
    Await(Start());
    const uint64_t took = Now() - start;
    Answer(&took, sizeof(took));
  }
}

void AllAtOnce(int count) {
  std::vector<pid_t> pids(static_cast<size_t>(count));
  const uint64_t start = Now();
  for (pid_t& pid : pids) pid = Start();
  for (const pid_t pid : pids) Await(pid);
  const uint64_t took = Now() - start;
  Answer(&took, sizeof(took));
}

}  // namespace

int main() {
  Answer("+", 1);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    const int count = std::atoi(line + 1);
    if (line[0] == 's') OneByOne(count);
    if (line[0] == 'b') AllAtOnce(count);
  }
  return 0;
}
