#include "lib/broker/core/claim.h"

namespace sandbroker::broker {

std::optional<Claim> MergeClaims(const Claim& base, const Claim& ours, const Claim& theirs) {
  Claim merged = theirs;
  if (ours.token != base.token) merged.token = ours.token;
  const bool forward = ours.until > theirs.until;
  if (ours.outage_ttl && !base.outage_ttl) {
    // One ttl for an outage: whoever else came has ended it, or has given that ttl.
    const bool still_over = theirs.until == base.until && !theirs.outage_ttl;
    if (forward && still_over) {
      merged.until = ours.until;
      merged.outage_ttl = true;
    }
  } else if (ours.until != base.until || ours.outage_ttl != base.outage_ttl) {
    // Somebody came, whichever end is the later one.
    if (forward) merged.until = ours.until;
    merged.outage_ttl = false;
  }
  if (SamePromise(merged, theirs)) return std::nullopt;
  return merged;
}

}  // namespace sandbroker::broker
