// The agent's own children, from the kernel's list or, where it keeps none, from a search of /proc.
// Agent thread only.
#pragma once

#include <sys/types.h>

#include <functional>

namespace sandbroker::guest {

// Calls fn(pid) for each, zombies included, until it answers false. Those that come and go
// meanwhile may be missed.
void ForEachChild(const std::function<bool(pid_t)>& fn);

// The fallback, whatever the kernel offers.
void ForEachChildByParent(const std::function<bool(pid_t)>& fn);

}  // namespace sandbroker::guest
