#include "lib/backend/kubernetes/lease_receipts.h"

#include <algorithm>
#include <utility>

#include "lib/backend/kubernetes/api_error.h"
#include "lib/backend/kubernetes/json_read.h"
#include "lib/backend/kubernetes/keys.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/backend/kubernetes/times.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;
using broker::Receipt;

constexpr std::string_view kPrefix = "sandbroker-receipt-";
constexpr std::string_view kKindLabel = "sandbroker.dev/kind";
constexpr std::string_view kKind = "receipt";
constexpr std::string_view kRecord = "sandbroker.dev/receipt-record";
constexpr size_t kMaxRecord = 4096;
constexpr size_t kMaxOwn = 4096;
constexpr int kTries = 5;

std::string NameOf(const std::string& key) { return StrCat(kPrefix, key); }

absl::StatusOr<Receipt> ReadRecord(const json::object& lease) {
  const json::object& notes = ObjectAt(ObjectAt(lease, "metadata"), "annotations");
  return broker::ParseReceipt(NameAt(notes, kRecord, kMaxRecord));
}

}  // namespace

json::object LeaseReceipts::ToLease(const std::string& key, const Receipt& receipt) const {
  json::object labels;
  labels[ToJson(kManagedBy)] = ToJson(kManagedByUs);
  labels[ToJson(kKindLabel)] = ToJson(kKind);
  json::object notes;
  notes[ToJson(kRecord)] = ToJson(broker::FormatReceipt(receipt));
  const WallTime now = scheduler_.WallNow();
  const auto left = std::chrono::ceil<std::chrono::seconds>(receipt.deadline - now).count();
  // Both fields are for people's eyes; only the record counts.
  json::object spec = {{"holderIdentity", receipt.owner},
                       {"leaseDurationSeconds", std::clamp<int64_t>(left, 1, 86400)},
                       {"renewTime", FormatMicros(now)}};
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata",
           {{"name", NameOf(key)},
            {"namespace", space_},
            {"labels", std::move(labels)},
            {"annotations", std::move(notes)}}},
          {"spec", std::move(spec)}};
}

void LeaseReceipts::Keep(const std::string& key, Stored stored) {
  if (own_.insert_or_assign(key, std::move(stored)).second) own_order_.push_back(key);
  while (own_order_.size() > kMaxOwn) {
    own_.erase(own_order_.front());
    own_order_.pop_front();
  }
}

Task<absl::StatusOr<bool>> LeaseReceipts::Create(std::string key, Receipt receipt) {
  kube::Resource resource = Leases();
  std::string space = space_;
  json::object lease = ToLease(key, receipt);
  const kube::Result result = co_await api_.Create(std::move(resource), std::move(space),
                                                   std::move(lease), bound_, CancelToken());
  SANDBROKER_FAIL_POINT("receipt.created");
  if (result.Is(409)) co_return false;
  if (!result.ok()) co_return ApiError(result, "create", Leases());
  const json::object& meta = ObjectAt(result.object, "metadata");
  Keep(key, {std::move(receipt), NameAt(meta, "uid"), NameAt(meta, "resourceVersion")});
  co_return true;
}

Task<absl::StatusOr<std::optional<LeaseReceipts::Stored>>> LeaseReceipts::Fetch(std::string key) {
  kube::Resource resource = Leases();
  std::string space = space_;
  std::string name = NameOf(key);
  const kube::Result result = co_await api_.Get(std::move(resource), std::move(space),
                                                std::move(name), bound_, CancelToken());
  if (result.Is(404)) co_return std::optional<Stored>();
  if (!result.ok()) co_return ApiError(result, "get", Leases());
  auto receipt = ReadRecord(result.object);
  if (!receipt.ok()) {
    co_return MakeError(Reason::kInternal,
                        StrCat("receipt ", NameOf(key), ": ", MessageOf(receipt.status())));
  }
  const json::object& meta = ObjectAt(result.object, "metadata");
  co_return std::optional<Stored>(
      Stored{*std::move(receipt), NameAt(meta, "uid"), NameAt(meta, "resourceVersion")});
}

Task<absl::StatusOr<std::optional<Receipt>>> LeaseReceipts::Read(std::string key) {
  const auto stored = co_await Fetch(std::move(key));
  if (!stored.ok()) co_return stored.status();
  if (!*stored) co_return std::optional<Receipt>();
  co_return std::optional<Receipt>((*stored)->receipt);
}

Task<absl::StatusOr<std::optional<LeaseReceipts::Stored>>> LeaseReceipts::Expected(
    std::string key, std::string token) {
  const auto own = own_.find(key);
  if (own != own_.end() && own->second.receipt.token == token) {
    co_return std::optional<Stored>(own->second);
  }
  co_return co_await Fetch(std::move(key));
}

Task<absl::StatusOr<bool>> LeaseReceipts::CompareAndSet(std::string key, std::string expected_token,
                                                        Receipt receipt) {
  for (int i = 0; i < kTries; ++i) {
    const auto stored = co_await Expected(key, expected_token);
    if (!stored.ok()) co_return stored.status();
    if (!*stored || (*stored)->receipt.token != expected_token) co_return false;
    json::object lease = ToLease(key, receipt);
    lease["metadata"].as_object()["resourceVersion"] = ToJson((*stored)->version);
    lease["metadata"].as_object()["uid"] = ToJson((*stored)->uid);
    own_.erase(key);
    kube::Resource resource = Leases();
    std::string space = space_;
    std::string name = NameOf(key);
    const kube::Result result =
        co_await api_.Replace(std::move(resource), std::move(space), std::move(name),
                              std::move(lease), bound_, CancelToken());
    SANDBROKER_FAIL_POINT("receipt.replaced");
    if (result.ok()) {
      const json::object& meta = ObjectAt(result.object, "metadata");
      Keep(key, {std::move(receipt), NameAt(meta, "uid"), NameAt(meta, "resourceVersion")});
      co_return true;
    }
    if (result.Is(404)) co_return false;
    // Another version: read whether the token still is the expected one.
    if (!result.Is(409)) co_return ApiError(result, "update", Leases());
  }
  co_return MakeError(Reason::kApiUnreachable, "the receipt keeps changing");
}

Task<absl::StatusOr<std::vector<std::string>>> LeaseReceipts::List() {
  kube::Resource resource = Leases();
  std::string space = space_;
  std::string selector = StrCat(kManagedBy, "=", kManagedByUs, ",", kKindLabel, "=", kKind);
  const kube::Result result = co_await api_.List(std::move(resource), std::move(space),
                                                 std::move(selector), bound_, CancelToken());
  if (!result.ok()) co_return ApiError(result, "list", Leases());
  std::vector<std::string> keys;
  for (const json::value& item : ArrayAt(result.object, "items")) {
    const std::string name = NameAt(ObjectAt(AsObject(item), "metadata"), "name");
    std::string_view key = name;
    if (ConsumePrefix(&key, kPrefix)) keys.emplace_back(key);
  }
  co_return keys;
}

Task<absl::StatusOr<bool>> LeaseReceipts::Remove(std::string key, std::string expected_token) {
  for (int i = 0; i < kTries; ++i) {
    const auto stored = co_await Fetch(key);
    if (!stored.ok()) co_return stored.status();
    if (!*stored || (*stored)->receipt.token != expected_token) co_return false;
    own_.erase(key);
    kube::Resource resource = Leases();
    std::string space = space_;
    std::string name = NameOf(key);
    kube::DeleteOptions options{(*stored)->uid, (*stored)->version, false};
    const kube::Result result =
        co_await api_.Delete(std::move(resource), std::move(space), std::move(name),
                             std::move(options), bound_, CancelToken());
    if (result.ok()) co_return true;
    if (result.Is(404)) co_return false;
    if (!result.Is(409)) co_return ApiError(result, "delete", Leases());
  }
  co_return MakeError(Reason::kApiUnreachable, "the receipt keeps changing");
}

}  // namespace sandbroker::kubernetes
