#include "lib/guest/child_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/fd.h"

namespace sandbroker::guest {
namespace {

constexpr char kChildren[] = "/proc/thread-self/children";

pid_t ParentOf(int proc, const char* pid) {
  char name[64];
  std::snprintf(name, sizeof(name), "%s/stat", pid);
  UniqueFd fd(::openat(proc, name, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return 0;
  char text[512];
  const ssize_t n = ::read(fd.get(), text, sizeof(text) - 1);
  if (n <= 0) return 0;
  text[n] = '\0';
  // "pid (name) state ppid": the name may hold anything, so search from behind.
  const char* after_name = ::strrchr(text, ')');
  char state = 0;
  int parent = 0;
  if (after_name == nullptr || std::sscanf(after_name + 1, " %c %d", &state, &parent) != 2)
    return 0;
  return parent;
}

}  // namespace

void ForEachChildByParent(const std::function<bool(pid_t)>& fn) {
  const pid_t self = ::getpid();
  DIR* dir = ::opendir("/proc");
  if (dir == nullptr) return;
  while (const dirent* entry = ::readdir(dir)) {
    const int pid = std::atoi(entry->d_name);
    if (pid > 0 && ParentOf(::dirfd(dir), entry->d_name) == self && !fn(pid)) break;
  }
  ::closedir(dir);
}

void ForEachChild(const std::function<bool(pid_t)>& fn) {
  UniqueFd fd(::open(kChildren, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ForEachChildByParent(fn);
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(fd.get(), buffer, sizeof(buffer))) > 0) text.append(buffer, n);
  const char* at = text.c_str();
  char* end = nullptr;
  for (long pid = std::strtol(at, &end, 10); end != at; pid = std::strtol(at, &end, 10)) {
    if (!fn(static_cast<pid_t>(pid))) return;
    at = end;
  }
}

}  // namespace sandbroker::guest
