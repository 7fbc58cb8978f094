// A program started by the bench, with pipes to its stdin and from its stdout. Its end is awaited
// in the destructor: TERM, and KILL if that takes too long. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/base/fd.h"

namespace sandbroker::bench {

class Child {
 public:
  explicit Child(const std::vector<std::string>& argv);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int out() const { return out_.get(); }

  void Write(const std::string& text);
  // Up to and without '\n'. Ends the bench when the child is gone.
  std::string ReadLine();
  void ReadExactly(void* to, size_t size);
  // Makes both pipes hold up to 1 MiB, where that is allowed.
  void EnlargePipe();

 private:
  std::string name_;
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
};

// Ends the bench with a line on stderr.
[[noreturn]] void Fail(const std::string& message);

// The file of this program, to be started again in another role.
std::string SelfPath();

}  // namespace sandbroker::bench
