#include "lib/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sandbroker {

void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

}  // namespace sandbroker
