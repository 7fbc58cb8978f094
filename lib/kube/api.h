// The Kubernetes API as its users see it: one request, one typed result; nothing is retried behind
// their back except where said. lib/kube/client.h implements it over Beast; tests use a scripted
// server or a fake. Loop thread only.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/cancel.h"
#include "lib/async/task.h"
#include "lib/base/clock.h"

namespace sandbroker::kube {

// Which objects: group, version and plural, e.g. {"agents.x-k8s.io", "v1beta1", "sandboxes"}; the
// core group is "". One namespace each.
struct Resource {
  std::string group;
  std::string version;
  std::string plural;
};

// What is known of a request after it. kUnknown: it was sent, and whether it took effect is not
// known; a write must not be repeated blindly.
enum class Outcome { kDone, kRefused, kNotSent, kUnknown };

struct Result {
  Outcome outcome = Outcome::kNotSent;
  int http_status = 0;              // of kDone and kRefused
  boost::json::object object = {};  // of kDone: what the server answered
  // Of kRefused: the reason of its Status object, e.g. "AlreadyExists", "Conflict", "NotFound",
  // "Invalid", "Forbidden", "Expired", "TooManyRequests"; empty if it sent none.
  std::string reason = {};
  std::string message = {};  // for people; of everything but kDone
  std::optional<Duration> retry_after = {};
  bool ok() const { return outcome == Outcome::kDone; }
  // Refused with this HTTP status.
  bool Is(int status) const { return outcome == Outcome::kRefused && http_status == status; }
};

struct DeleteOptions {
  std::string uid;               // precondition; empty = none
  std::string resource_version;  // precondition; empty = none
  bool foreground = false;
};

class Api {
 public:
  virtual ~Api() = default;
  // Every call ends within `bound` (connect, send, headers and body together), or soon after
  // `cancel` with kNotSent or kUnknown, as it stands then.
  // Sent at most once, except that a request provably not sent, and one answered 401 (the token is
  // read again, once), is tried again.
  virtual Task<Result> Create(Resource resource, std::string space, boost::json::object object,
                              Duration bound, CancelToken cancel) = 0;
  // RFC 6902 operations. 422 when a test fails or a path is missing: the two can't be told apart.
  virtual Task<Result> PatchJson(Resource resource, std::string space, std::string name,
                                 boost::json::array operations, Duration bound,
                                 CancelToken cancel) = 0;
  // The whole object, with its metadata.resourceVersion: 409 if another one came first.
  virtual Task<Result> Replace(Resource resource, std::string space, std::string name,
                               boost::json::object object, Duration bound, CancelToken cancel) = 0;
  virtual Task<Result> Delete(Resource resource, std::string space, std::string name,
                              DeleteOptions options, Duration bound, CancelToken cancel) = 0;
  // Consistent reads; tried again within `bound` when nothing or 429/5xx came back.
  virtual Task<Result> Get(Resource resource, std::string space, std::string name, Duration bound,
                           CancelToken cancel) = 0;
  // All pages joined: object["items"]. `labels` is a label selector or empty.
  virtual Task<Result> List(Resource resource, std::string space, std::string labels,
                            Duration bound, CancelToken cancel) = 0;
  // This server's clock less ours, from its Date header; empty before the first answer.
  virtual std::optional<Duration> clock_offset() const = 0;
};

// Hears of every object of one resource in one namespace. Loop thread, in the watch's order.
class InformerObserver {
 public:
  virtual ~InformerObserver() = default;
  // New or changed; also for what a relist found. The same version is not told twice.
  virtual void OnObject(const boost::json::object& object) = 0;
  // Gone; its last known state.
  virtual void OnDeleted(const boost::json::object& object) = 0;
  // The first list is in (once), and whenever the view became current again after a break.
  virtual void OnSynced() {}
  // The view is not kept up to date at present (refused, unreachable, silent); `why` for people.
  virtual void OnStale(const std::string& why) { (void)why; }
};

}  // namespace sandbroker::kube
