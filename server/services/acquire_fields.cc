#include "server/services/acquire_fields.h"

#include "lib/base/labels.h"
#include "lib/base/status.h"
#include "server/services/fields.h"
#include "server/services/limits.h"

namespace sandbroker::services {
namespace {

absl::Status ReadLease(const v1::LeaseSpec& from, broker::LeaseSpec* to) {
  if (from.has_ttl()) {
    const auto ttl =
        ReadDuration(from.ttl(), "lease.ttl", {broker::kMinLeaseTtl, broker::kMaxLifetime});
    if (!ttl.ok()) return ttl.status();
    to->ttl = *ttl;
  }
  if (from.has_max_lifetime()) {
    const auto lifetime =
        ReadDuration(from.max_lifetime(), "lease.max_lifetime", {to->ttl, broker::kMaxLifetime});
    if (!lifetime.ok()) return lifetime.status();
    to->max_lifetime = *lifetime;
  }
  if (from.has_keep_while_running()) to->keep_while_running = from.keep_while_running();
  return absl::OkStatus();
}

absl::Status ReadFallback(const v1::AcquireRequest& from, broker::AcquireSpec* to) {
  switch (from.fallback()) {
    case v1::FALLBACK_UNSPECIFIED:
    case v1::FALLBACK_COLD_OK:
      to->fallback = broker::Fallback::kColdOk;
      break;
    case v1::FALLBACK_WARM_ONLY:
      to->fallback = broker::Fallback::kWarmOnly;
      break;
    case v1::FALLBACK_WAIT:
      to->fallback = broker::Fallback::kWait;
      break;
    default:
      return InvalidField("fallback", "not a value this server knows");
  }
  if (from.has_wait_bound()) {
    const auto bound = ReadDuration(from.wait_bound(), "wait_bound", {Duration(0), kMaxWaitBound});
    if (!bound.ok()) return bound.status();
    to->wait_bound = *bound;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<broker::AcquireSpec> ReadAcquire(const v1::AcquireRequest& request) {
  broker::AcquireSpec spec;
  if (!request.has_task()) return InvalidField("task", "is required");
  if (!request.task().pool().empty()) spec.pool = request.task().pool();
  spec.labels.insert(request.labels().begin(), request.labels().end());
  SANDBROKER_RETURN_IF_ERROR(ValidateLabels(spec.labels, "labels"));
  auto env = ReadEnvironment(request.env(), "env");
  if (!env.ok()) return env.status();
  spec.env = *std::move(env);
  SANDBROKER_RETURN_IF_ERROR(ReadLease(request.lease(), &spec.lease));
  if (request.has_min_remaining()) {
    const auto remaining = ReadDuration(request.min_remaining(), "min_remaining",
                                        {Duration(0), spec.lease.max_lifetime});
    if (!remaining.ok()) return remaining.status();
    spec.min_remaining = *remaining;
  }
  SANDBROKER_RETURN_IF_ERROR(ReadFallback(request, &spec));
  SANDBROKER_RETURN_IF_ERROR(CheckId(request.request_id(), "request_id"));
  spec.request_id = request.request_id();
  return spec;
}

}  // namespace sandbroker::services
