#include "lib/kube/client.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "lib/base/strings.h"
#include "lib/kube/random.h"
#include "lib/kube/url.h"

namespace sandbroker::kube {
namespace {

namespace json = boost::json;

constexpr const char* kJson = "application/json";

std::string Serialize(const json::value& value) { return json::serialize(value); }

Result NoName(const std::string& name) {
  Result result;
  result.message = StrCat("'", CEscape(name), "' can't be a name");
  return result;
}

json::string ToJson(const std::string& text) { return json::string(text.data(), text.size()); }

// Everything in the body: a DELETE that has one ignores its query.
json::object DeleteBody(const DeleteOptions& options) {
  json::object body{{"kind", "DeleteOptions"},
                    {"apiVersion", "v1"},
                    {"propagationPolicy", options.foreground ? "Foreground" : "Background"}};
  json::object preconditions;
  if (!options.uid.empty()) preconditions["uid"] = ToJson(options.uid);
  if (!options.resource_version.empty()) {
    preconditions["resourceVersion"] = ToJson(options.resource_version);
  }
  if (!preconditions.empty()) body["preconditions"] = std::move(preconditions);
  return body;
}

std::string MetadataText(const json::object& object, const char* key) {
  const json::value* metadata = object.if_contains("metadata");
  if (metadata == nullptr || !metadata->is_object()) return "";
  const json::value* value = metadata->get_object().if_contains(key);
  if (value == nullptr || !value->is_string()) return "";
  return {value->get_string().data(), value->get_string().size()};
}

Result Bad(std::string_view what) {
  Result result;
  result.outcome = Outcome::kUnknown;
  result.message = what;
  return result;
}

}  // namespace

Client::Client(Scheduler& scheduler, boost::asio::io_context& context, Access access,
               PoolLimits limits, FileReader read)
    : transport_(scheduler, context, std::move(access), std::move(read)),
      pool_(transport_, limits) {}

Client::~Client() = default;

Task<Exchanged> Client::OnceOver(const HttpRequest& request, bool fresh, size_t max_body,
                                 CallEnd& end, bool* reused) {
  Exchanged exchanged;
  ConnectionPool::Lease lease = co_await pool_.Take(end, fresh, &exchanged.error);
  if (!lease) co_return exchanged;
  bool keep = false;
  exchanged = co_await transport_.Exchange(lease.connection(), request, max_body, end, &keep);
  *reused = lease.reused();
  if (keep) lease.Keep();
  co_return exchanged;
}

// A connection that was idle may have been closed by the server just before it was used. What was
// not sent, and what only reads, goes once more over a new one.
Task<Exchanged> Client::Once(const HttpRequest& request, bool write, size_t max_body,
                             CallEnd& end) {
  bool reused = false;
  Exchanged exchanged = co_await OnceOver(request, false, max_body, end, &reused);
  const bool dead = reused && !exchanged.any_answer && !end.over();
  if (!dead || (write && exchanged.sent)) co_return exchanged;
  co_return co_await OnceOver(request, true, max_body, end, &reused);
}

Task<Result> Client::Call(const HttpRequest& request, bool write, size_t max_body, CallEnd& end,
                          size_t* body_size) {
  RetryPolicy policy(write);
  bool token_read = false;
  std::string before;  // what was wrong with the last try
  for (;;) {
    const Exchanged exchanged = co_await Once(request, write, max_body, end);
    Result result = ToResult(exchanged, write);
    if (body_size != nullptr) *body_size = exchanged.body.size();
    if (result.ok()) co_return result;
    if (end.over()) {
      if (!before.empty()) StrAppend(&result.message, "; before that: ", before);
      co_return result;
    }
    if (result.Is(401) && !token_read) {
      token_read = true;
      transport_.credentials().Reread();
      continue;
    }
    const Duration left = end.until() - transport_.scheduler().Now();
    const auto delay = policy.Next(result, exchanged.hostile, left, Jitter());
    if (!delay) co_return result;
    co_await end.Sleep(*delay);
    before = result.message;
    if (!end.over()) continue;
    // Only a write that was not sent comes here; of a read nothing hangs on the difference.
    if (end.cancelled()) result.outcome = write ? Outcome::kNotSent : Outcome::kUnknown;
    result.message = StrCat(end.text(), "; before that: ", before);
    co_return result;
  }
}

Task<Result> Client::Write(HttpRequest request, Duration bound, CancelToken cancel) {
  CallEnd end(transport_.scheduler(), bound, std::move(cancel));
  co_return co_await Call(request, true, kMaxAnswer, end);
}

Task<Result> Client::Create(Resource resource, std::string space, json::object object,
                            Duration bound, CancelToken cancel) {
  HttpRequest request{"POST", ResourcePath(resource, space), kJson, Serialize(std::move(object))};
  co_return co_await Write(std::move(request), bound, std::move(cancel));
}

Task<Result> Client::PatchJson(Resource resource, std::string space, std::string name,
                               json::array operations, Duration bound, CancelToken cancel) {
  if (!IsPathName(name)) co_return NoName(name);
  HttpRequest request{"PATCH", ResourcePath(resource, space, name), "application/json-patch+json",
                      Serialize(std::move(operations))};
  co_return co_await Write(std::move(request), bound, std::move(cancel));
}

Task<Result> Client::Replace(Resource resource, std::string space, std::string name,
                             json::object object, Duration bound, CancelToken cancel) {
  if (!IsPathName(name)) co_return NoName(name);
  HttpRequest request{"PUT", ResourcePath(resource, space, name), kJson,
                      Serialize(std::move(object))};
  co_return co_await Write(std::move(request), bound, std::move(cancel));
}

Task<Result> Client::Delete(Resource resource, std::string space, std::string name,
                            DeleteOptions options, Duration bound, CancelToken cancel) {
  if (!IsPathName(name)) co_return NoName(name);
  HttpRequest request{"DELETE", ResourcePath(resource, space, name), kJson,
                      Serialize(DeleteBody(options))};
  co_return co_await Write(std::move(request), bound, std::move(cancel));
}

Task<Result> Client::Get(Resource resource, std::string space, std::string name, Duration bound,
                         CancelToken cancel) {
  if (!IsPathName(name)) co_return NoName(name);
  const HttpRequest request{"GET", ResourcePath(resource, space, name)};
  CallEnd end(transport_.scheduler(), bound, std::move(cancel));
  co_return co_await Call(request, false, kMaxAnswer, end);
}

// All pages, or the first result that is none. `*expired`: a page after the first came too late.
Task<Result> Client::ListOnce(const std::string& base, CallEnd& end, bool* expired) {
  json::array items;
  std::string more;
  size_t total = 0;
  for (;;) {
    HttpRequest request{"GET", base};
    if (!more.empty()) AddQuery(&request.target, "continue", more);
    size_t size = 0;
    Result page = co_await Call(request, false, kMaxListPage, end, &size);
    *expired = page.Is(410) && !more.empty();
    if (!page.ok()) co_return page;
    total += size;
    if (total > kMaxList) co_return Bad("the list is too large");
    json::value* found = page.object.if_contains("items");
    if (found != nullptr && found->is_array()) {
      for (json::value& item : found->get_array()) items.push_back(std::move(item));
    } else if (found == nullptr || !found->is_null()) {
      co_return Bad("the list has no items");
    }
    const std::string next = MetadataText(page.object, "continue");
    if (next.empty()) {
      page.object["items"] = std::move(items);
      co_return page;
    }
    if (next == more) co_return Bad("the list's next page is the same again");
    more = next;
  }
}

Task<Result> Client::List(Resource resource, std::string space, std::string labels, Duration bound,
                          CancelToken cancel) {
  std::string base = ResourcePath(resource, space);
  AddQuery(&base, "limit", std::to_string(kListPage));
  if (!labels.empty()) AddQuery(&base, "labelSelector", labels);
  CallEnd end(transport_.scheduler(), bound, std::move(cancel));
  bool expired = false;
  Result result = co_await ListOnce(base, end, &expired);
  if (expired) result = co_await ListOnce(base, end, &expired);
  co_return result;
}

}  // namespace sandbroker::kube
