// A claim on the cluster and what the broker has promised with it: the object to POST, the patches
// that move its lease, its holder and its backstop in one piece, and the way back. Pure.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "lib/backend/kubernetes/views.h"
#include "lib/broker/core/claim.h"
#include "lib/broker/core/lease.h"

namespace sandbroker::kubernetes {

struct ClaimOrder {
  std::string name;
  std::string space;
  std::string pool;       // our name of it
  std::string warm_pool;  // the cluster's
  std::string holder;     // token of whoever may bind it; never empty
  broker::Claim claim;    // `until` does not count yet
  WallTime shutdown;      // a claim that nobody was told of ends then
  WallTime requested;
};

// The object to POST.
boost::json::object ClaimToPost(const ClaimOrder& order);

// What a claim on the cluster promises.
struct Promise {
  std::string pool;
  std::string holder;
  // Whether a lease was written: if not, `claim.until` is the first backstop.
  bool leased = false;
  broker::Claim claim;
};

// DATA_LOSS with what is wrong for whatever ClaimToPost and ChangePatch can't have made.
absl::StatusOr<Promise> ReadPromise(const ClaimView& view);

// Until when a sandbox with this claim lives if nobody renews it: docs/protocols.md C.
WallTime BackstopOf(const broker::Claim& claim, const broker::LeaseSettings& settings);

// One conditional change of a claim: applies whole, or not at all if the object is not as expected.
struct ClaimChange {
  std::string uid;
  // As they are on the object.
  std::string old_until;
  std::string old_holder;
  // As they shall be. An empty holder leaves the old one.
  std::string holder;
  broker::Claim claim;
  WallTime backstop;
};
boost::json::array ChangePatch(const ClaimChange& change);
// Another try of the same request takes the claim over; its promise stays.
boost::json::array RestampPatch(const std::string& uid, const std::string& old_holder,
                                const std::string& holder);

}  // namespace sandbroker::kubernetes
