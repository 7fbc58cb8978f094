// What the broker has promised about one sandbox. The backend keeps it with the sandbox (locally in
// its state file), so that the next broker finds it again; nothing is promised before it is kept.
// Plain data; any thread.
#pragma once

#include <optional>
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

// Whether the two promise the same; the rest of a claim never changes.
inline bool SamePromise(const Claim& a, const Claim& b) {
  return a.until == b.until && a.outage_ttl == b.outage_ttl && a.token == b.token;
}

// Several brokers write one claim. `ours` was made from `base`, and meanwhile `theirs` has been
// written: what to write on top of it so that nothing of either is lost. Empty: theirs says it all.
// The lease never moves back; a token is put on only where it was meant to be.
std::optional<Claim> MergeClaims(const Claim& base, const Claim& ours, const Claim& theirs);

}  // namespace sandbroker::broker
