#include "lib/guest/oom_counter.h"

#include <unistd.h>

#include <string_view>

#include "lib/guest/core/oom_kills.h"

namespace sandbroker::guest {

uint64_t OomCounter::Read() const {
  char text[1024];
  const ssize_t got = fd_ < 0 ? 0 : ::pread(fd_, text, sizeof(text), 0);
  return got <= 0 ? 0 : ParseOomKills(std::string_view(text, static_cast<size_t>(got)));
}

}  // namespace sandbroker::guest
