// Where a program name leads: the search that execvp would do, against a given PATH and folder.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "lib/process/spawn.h"

namespace sandbroker {
namespace {

// 0 = can be run, EACCES = is there but can't, ENOENT = not there.
int Probe(const std::string& candidate) {
  struct stat info;
  if (::stat(candidate.c_str(), &info) != 0) return errno == EACCES ? EACCES : ENOENT;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return ::access(candidate.c_str(), X_OK) == 0 ? 0 : EACCES;
}

// An empty or relative entry of PATH is meant from the folder the program will run in.
std::string Candidate(std::string_view folder, const std::string& program, const std::string& cwd) {
  std::string path;
  if (folder.empty() || folder.front() != '/') path = cwd.empty() ? "." : cwd;
  if (!folder.empty()) {
    if (!path.empty()) path += '/';
    path += folder;
  }
  path += '/';
  path += program;
  return path;
}

}  // namespace

int ResolveProgram(const std::string& program, const std::string& path_variable,
                   const std::string& cwd, std::string* resolved) {
  if (program.empty()) return ENOENT;
  if (program.find('/') != std::string::npos) {
    *resolved = program;
    return 0;
  }
  int worst = ENOENT;
  std::string_view rest = path_variable;
  while (true) {
    const size_t colon = rest.find(':');
    std::string candidate = Candidate(rest.substr(0, colon), program, cwd);
    const int error = Probe(candidate);
    if (error == 0) {
      *resolved = std::move(candidate);
      return 0;
    }
    if (error == EACCES) worst = EACCES;
    if (colon == std::string_view::npos) return worst;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace sandbroker
