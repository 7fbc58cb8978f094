// How many processes of a cgroup the kernel has ended for want of memory, from the text of
// memory.events (version 2) or memory.oom_control (version 1). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace sandbroker::guest {

// The number in the line "oom_kill N"; 0 when there is none, as before Linux 4.13.
uint64_t ParseOomKills(std::string_view text);

}  // namespace sandbroker::guest
