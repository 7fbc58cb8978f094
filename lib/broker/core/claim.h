// What the broker has promised about one sandbox. The backend keeps it with the sandbox (locally in
// its state file), so that the next broker finds it again; nothing is promised before it is kept.
// Plain data; any thread.
#pragma once

#include <string>

#include "lib/base/clock.h"
#include "lib/base/labels.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

struct Claim {
  std::string tenant;
  Labels labels;
  LeaseSpec lease;
  WallTime acquired{};
  // The lease's end as written.
  WallTime until{};
  // That end was given after an outage, and nobody has come since.
  bool outage_ttl = false;
  // Of an Acquire with a request_id: the receipt's key, and the token under which it was, or is
  // to be, bound. Whoever takes the receipt over puts in its own.
  std::string receipt;
  std::string token;
};

}  // namespace sandbroker::broker
