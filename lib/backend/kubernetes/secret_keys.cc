#include "lib/backend/kubernetes/secret_keys.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "lib/backend/kubernetes/api_error.h"
#include "lib/backend/kubernetes/json_read.h"
#include "lib/backend/kubernetes/keys.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/crypto.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

constexpr char kHandleKey[] = "handle.key";
constexpr char kLinkKey[] = "link.pem";
// Public, for templates: kubectl get secret -o jsonpath.
constexpr char kLinkPublic[] = "link.pub";
constexpr size_t kHandleKeySize = 32;
constexpr size_t kMaxValue = 16 * 1024;

absl::Status Bad(const std::string& name, std::string_view key, std::string_view why) {
  return absl::FailedPreconditionError(StrCat(
      "Secret ", name, ": ", key, " ", why,
      "; put it back, or delete the Secret, which makes all handles and links given out useless"));
}

absl::StatusOr<std::string> ValueOf(const boost::json::object& secret, const std::string& name,
                                    const char* key) {
  const std::string text = NameAt(ObjectAt(secret, "data"), key, kMaxValue);
  std::string value;
  if (text.empty()) return Bad(name, key, "is missing");
  if (!absl::Base64Unescape(text, &value)) return Bad(name, key, "is not base64");
  return value;
}

}  // namespace

boost::json::object SecretOf(const SharedKeys& keys, const std::string& name) {
  boost::json::object data;
  data[kHandleKey] = absl::Base64Escape(keys.handle_key);
  data[kLinkKey] = absl::Base64Escape(keys.link_key.ToPem());
  data[kLinkPublic] = absl::Base64Escape(keys.link_key.PublicBase64());
  boost::json::object labels;
  labels[ToJson(kManagedBy)] = ToJson(kManagedByUs);
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"type", "Opaque"},
          {"metadata", boost::json::object{{"name", name}, {"labels", std::move(labels)}}},
          {"data", std::move(data)}};
}

absl::StatusOr<SharedKeys> ReadSecret(const boost::json::object& secret, const std::string& name) {
  auto handle_key = ValueOf(secret, name, kHandleKey);
  if (!handle_key.ok()) return handle_key.status();
  if (handle_key->size() != kHandleKeySize) return Bad(name, kHandleKey, "does not have 32 bytes");
  const auto pem = ValueOf(secret, name, kLinkKey);
  if (!pem.ok()) return pem.status();
  auto link_key = SigningKey::FromPem(*pem);
  if (!link_key.ok()) return Bad(name, kLinkKey, MessageOf(link_key.status()));
  return SharedKeys{*std::move(handle_key), *std::move(link_key)};
}

Task<absl::StatusOr<SharedKeys>> LoadKeys(kube::Api& api, std::string space, std::string name,
                                          Duration bound) {
  kube::Result found = co_await api.Get(Secrets(), space, name, bound, CancelToken());
  if (found.Is(404)) {
    const SharedKeys keys{RandomBytes(kHandleKeySize), SigningKey::Make(KeyKind::kEd25519)};
    boost::json::object secret = SecretOf(keys, name);
    const kube::Result made =
        co_await api.Create(Secrets(), space, std::move(secret), bound, CancelToken());
    // Ours or another replica's, or it is not known which: what stands there counts.
    if (!made.ok() && !made.Is(409) && made.outcome != kube::Outcome::kUnknown) {
      co_return ApiError(made, "create", Secrets());
    }
    found = co_await api.Get(Secrets(), space, name, bound, CancelToken());
  }
  if (!found.ok()) co_return ApiError(found, "get", Secrets());
  co_return ReadSecret(found.object, name);
}

}  // namespace sandbroker::kubernetes
