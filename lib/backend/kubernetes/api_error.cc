#include "lib/backend/kubernetes/api_error.h"

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {

bool IsPassing(const kube::Result& result) {
  if (result.outcome != kube::Outcome::kRefused) return !result.ok();
  return result.http_status == 429 || result.http_status >= 500;
}

absl::Status ApiError(const kube::Result& result, std::string_view verb,
                      const kube::Resource& resource) {
  ErrorDetail detail;
  detail.metadata = {{"verb", std::string(verb)}, {"resource", resource.plural}};
  if (!resource.group.empty()) detail.metadata["group"] = resource.group;
  const std::string what = StrCat(verb, " ", resource.plural);
  if (result.Is(403) || result.Is(401)) {
    detail.reason = Reason::kBrokerForbidden;
    return MakeError(std::move(detail),
                     StrCat("the API server does not let the broker ", what, ": ", result.message));
  }
  if (result.outcome == kube::Outcome::kUnknown) {
    detail.reason = Reason::kApiTimeout;
    return MakeError(std::move(detail),
                     StrCat("the API server did not answer to ", what, ": ", result.message));
  }
  if (IsPassing(result)) {
    detail.reason = Reason::kApiUnreachable;
    detail.retry_after = result.retry_after;
    return MakeError(std::move(detail),
                     StrCat("the API server can't be asked to ", what, ": ", result.message));
  }
  detail.reason = Reason::kClaimRejected;
  detail.metadata["api_reason"] = result.reason;
  return MakeError(std::move(detail),
                   StrCat("the API server refuses to ", what, ": ", result.message));
}

}  // namespace sandbroker::kubernetes
