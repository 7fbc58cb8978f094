#include "lib/backend/kubernetes/claim_object.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "lib/backend/kubernetes/json_read.h"
#include "lib/backend/kubernetes/keys.h"
#include "lib/backend/kubernetes/names.h"
#include "lib/backend/kubernetes/times.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;

constexpr int64_t kVersion = 1;
constexpr size_t kMaxText = 1024;
// 2200; sums with a lease's times can't overflow.
constexpr int64_t kMaxWallNs = 7'258'118'400'000'000'000;

std::string EncodeClaim(const broker::Claim& claim) {
  json::object labels;
  for (const auto& [key, value] : claim.labels) labels[ToJson(key)] = ToJson(value);
  const json::object object = {{"version", kVersion},
                               {"tenant", claim.tenant},
                               {"labels", std::move(labels)},
                               {"ttl_ns", claim.lease.ttl.count()},
                               {"max_lifetime_ns", claim.lease.max_lifetime.count()},
                               {"keep_while_running", claim.lease.keep_while_running},
                               {"acquired_ns", claim.acquired.time_since_epoch().count()},
                               {"outage_ttl", claim.outage_ttl},
                               {"receipt", claim.receipt}};
  return json::serialize(object);
}

absl::Status Bad(std::string_view what) {
  return absl::DataLossError(StrCat("claim: bad or missing ", what));
}

// Reads members of one object; the first thing that is wrong is kept, and the rest reads as empty.
class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  std::string Text(std::string_view key) {
    const json::value* value = object_.if_contains(ToJson(key));
    if (value == nullptr || !value->is_string() || value->get_string().size() > kMaxText) {
      return Wrong<std::string>(key);
    }
    return {value->get_string().data(), value->get_string().size()};
  }
  int64_t Number(std::string_view key, int64_t low, int64_t high) {
    const json::value* value = object_.if_contains(ToJson(key));
    if (value == nullptr || !value->is_int64() || value->get_int64() < low ||
        value->get_int64() > high) {
      return Wrong<int64_t>(key);
    }
    return value->get_int64();
  }
  bool Flag(std::string_view key) {
    const json::value* value = object_.if_contains(ToJson(key));
    return value != nullptr && value->is_bool() ? value->get_bool() : Wrong<bool>(key);
  }
  Labels Map(std::string_view key) {
    const json::value* value = object_.if_contains(ToJson(key));
    if (value == nullptr || !value->is_object()) return Wrong<Labels>(key);
    Labels labels;
    for (const auto& label : value->get_object()) {
      const json::string* text = label.value().if_string();
      if (text == nullptr) return Wrong<Labels>(key);
      labels[std::string(FromJson(label.key()))] = std::string(FromJson(*text));
    }
    return ValidateLabels(labels, key).ok() ? labels : Wrong<Labels>(key);
  }
  const absl::Status& wrong() const { return wrong_; }

 private:
  template <class T>
  T Wrong(std::string_view key) {
    if (wrong_.ok()) wrong_ = Bad(StrCat("'", key, "'"));
    return T();
  }

  const json::object& object_;
  absl::Status wrong_;
};

absl::StatusOr<broker::Claim> DecodeClaim(const std::string& text) {
  json::error_code error;
  json::parse_options options;
  options.max_depth = 4;
  const json::value value = json::parse(ToJson(text), error, {}, options);
  if (error || !value.is_object()) return Bad("annotation, no JSON object");
  Reader reader(value.get_object());
  reader.Number("version", kVersion, kVersion);
  broker::Claim claim;
  claim.tenant = reader.Text("tenant");
  claim.labels = reader.Map("labels");
  const int64_t longest = broker::kMaxLifetime.count();
  claim.lease.ttl = Duration(reader.Number("ttl_ns", 1, longest));
  claim.lease.max_lifetime = Duration(reader.Number("max_lifetime_ns", 1, longest));
  claim.lease.keep_while_running = reader.Flag("keep_while_running");
  claim.acquired = WallTime(Duration(reader.Number("acquired_ns", 0, kMaxWallNs)));
  claim.outage_ttl = reader.Flag("outage_ttl");
  claim.receipt = reader.Text("receipt");
  if (!reader.wrong().ok()) return reader.wrong();
  return claim;
}

// A path below metadata, its key escaped as a JSON pointer asks for.
std::string Pointer(std::string_view map, std::string_view key) {
  std::string pointer = StrCat("/metadata/", map, "/");
  for (const char c : key) c == '/' ? pointer.append("~1") : pointer.append(1, c);
  return pointer;
}

json::object Operation(std::string_view op, std::string_view path, std::string_view value) {
  return {{"op", ToJson(op)}, {"path", ToJson(path)}, {"value", ToJson(value)}};
}

}  // namespace

json::object ClaimToPost(const ClaimOrder& order) {
  json::object labels;
  labels[ToJson(kManagedBy)] = ToJson(kManagedByUs);
  labels[ToJson(kPoolLabel)] = ToJson(order.pool);
  labels[ToJson(kHolderLabel)] = ToJson(order.holder);
  if (!order.claim.receipt.empty()) {
    labels[ToJson(kReceiptLabel)] = ToJson(LabelOfReceipt(order.claim.receipt));
  }
  json::object notes;
  notes[ToJson(kClaimAnnotation)] = ToJson(EncodeClaim(order.claim));
  notes[ToJson(kUntilAnnotation)] = "";
  notes[ToJson(kRequestedAt)] = ToJson(FormatNanos(order.requested));
  json::object lifecycle = {{"shutdownTime", FormatSeconds(order.shutdown)},
                            {"shutdownPolicy", "Delete"}};
  // The empty additionalPodMetadata is what the controller would put in, with one more generation.
  return {{"apiVersion", StrCat(kExtensionsGroup, "/", kApiVersion)},
          {"kind", "SandboxClaim"},
          {"metadata",
           {{"name", order.name},
            {"namespace", order.space},
            {"labels", std::move(labels)},
            {"annotations", std::move(notes)}}},
          {"spec",
           {{"warmPoolRef", {{"name", order.warm_pool}}},
            {"additionalPodMetadata", json::object()},
            {"lifecycle", std::move(lifecycle)}}}};
}

absl::StatusOr<Promise> ReadPromise(const ClaimView& view) {
  if (!view.ours) return Bad("label managed-by");
  if (view.pool.empty()) return Bad("label pool");
  if (view.holder.empty()) return Bad("label holder");
  auto claim = DecodeClaim(view.promise);
  if (!claim.ok()) return claim.status();
  if (LabelOfReceipt(claim->receipt) != view.receipt_label) return Bad("label receipt");
  if (!claim->receipt.empty()) claim->token = view.holder;
  const bool leased = !view.until.empty();
  const auto until = ParseTime(leased ? view.until : view.shutdown);
  if (!until) return Bad(leased ? "lease-until" : "shutdownTime");
  claim->until = *until;
  return Promise{view.pool, view.holder, leased, *std::move(claim)};
}

WallTime BackstopOf(const broker::Claim& claim, const broker::LeaseSettings& settings) {
  return broker::Lease(claim.lease, settings, claim.acquired, claim.until, claim.outage_ttl)
      .backstop();
}

json::array ChangePatch(const ClaimChange& change) {
  const std::string until = Pointer("annotations", kUntilAnnotation);
  const std::string holder = Pointer("labels", kHolderLabel);
  json::array patch = {
      Operation("test", "/metadata/uid", change.uid),
      Operation("test", until, change.old_until),
      Operation("test", holder, change.old_holder),
      Operation("replace", Pointer("annotations", kClaimAnnotation), EncodeClaim(change.claim)),
      Operation("replace", until, FormatNanos(change.claim.until)),
      Operation("replace", "/spec/lifecycle/shutdownTime", FormatSeconds(change.backstop))};
  if (!change.holder.empty() && change.holder != change.old_holder) {
    patch.push_back(Operation("replace", holder, change.holder));
  }
  if (!change.claim.receipt.empty()) {
    // A claim of the reserve gets its receipt when it is handed out.
    patch.push_back(
        Operation("add", Pointer("labels", kReceiptLabel), LabelOfReceipt(change.claim.receipt)));
  }
  return patch;
}

json::array RestampPatch(const std::string& uid, const std::string& old_holder,
                         const std::string& holder) {
  const std::string path = Pointer("labels", kHolderLabel);
  return {Operation("test", "/metadata/uid", uid), Operation("test", path, old_holder),
          Operation("replace", path, holder)};
}

}  // namespace sandbroker::kubernetes
