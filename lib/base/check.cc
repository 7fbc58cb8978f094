#include "lib/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sandbroker {

void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

}  // namespace sandbroker

#ifdef __SANITIZE_ADDRESS__
// Tests bound the memory that programs hold, and the default quarantine alone is 256 MB of what
// they have freed. A handler of its own for SIGSEGV would let programs of a sandbox send one to its
// first process, and the limit of core files is ours to set. Built in, since a sandbox starts its
// agent with an empty environment.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=8:disable_coredump=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0";
}
#endif
