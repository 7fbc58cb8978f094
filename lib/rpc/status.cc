#include "lib/rpc/status.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::rpc {
namespace {

// A message travels three times at most (as text, percent-encoded, and in the details), each detail
// once in base64: these bounds together stay below kMaxTrailerBytes.
constexpr size_t kMaxMessage = 768;
constexpr size_t kMaxField = 256;
constexpr size_t kMaxMetadataEntries = 8;
constexpr size_t kMaxMetadataKey = 64;
constexpr size_t kMaxMetadataValue = 192;

// Length of the UTF-8 character at the front of `text`; 0 if there is none.
size_t CharacterLength(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool surrogate = first == 0xed && at(1) > 0x9f;
  const bool too_high = first == 0xf4 && at(1) > 0x8f;
  return overlong || surrogate || too_high ? 0 : length;
}

void AddErrorInfo(const ErrorDetail& detail, google::rpc::Status* out) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ReasonName(detail.reason)));
  info.set_domain(std::string(kErrorDomain));
  size_t entries = 0;
  for (const auto& [key, value] : detail.metadata) {
    if (++entries > kMaxMetadataEntries) break;
    (*info.mutable_metadata())[PublicText(key, kMaxMetadataKey)] =
        PublicText(value, kMaxMetadataValue);
  }
  out->add_details()->PackFrom(info);
}

void AddRetryInfo(Duration after, google::rpc::Status* out) {
  google::rpc::RetryInfo retry;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(after);
  retry.mutable_retry_delay()->set_seconds(seconds.count());
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>((after - seconds).count()));
  out->add_details()->PackFrom(retry);
}

void AddBadRequest(std::string_view field, const std::string& message, google::rpc::Status* out) {
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field(PublicText(field, kMaxField));
  violation->set_description(message);
  out->add_details()->PackFrom(bad);
}

// What the caller may see of a fault of ours.
absl::Status Concealed(const absl::Status& status, std::string_view method) {
  const std::string request = NewId();
  obs::Log(obs::Level::kError, "call failed",
           {{"method", method},
            {"request", request},
            {"status", status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
  ErrorDetail detail;
  detail.reason = Reason::kInternal;
  detail.metadata["request"] = request;
  return MakeError(std::move(detail),
                   StrCat("internal error; the server's log has more under ", request));
}

}  // namespace

std::string PublicText(std::string_view text, size_t limit) {
  std::string out;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const std::string_view next = length == 0 ? "\xef\xbf\xbd" : text.substr(0, length);
    if (out.size() + next.size() > limit) break;
    out += next;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

absl::Status PublicStatus(const absl::Status& status, std::string_view method) {
  if (status.ok()) return status;
  const Reason reason = ReasonOf(status);
  const bool ours = reason == Reason::kUnspecified || reason == Reason::kInternal;
  return ours ? Concealed(status, method) : status;
}

grpc::Status ToGrpcStatus(const absl::Status& status, std::string_view method) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status shown = PublicStatus(status, method);
  const ErrorDetail detail = DetailOf(shown);
  const std::string message = PublicText(MessageOf(shown), kMaxMessage);

  google::rpc::Status out;
  out.set_code(static_cast<int>(shown.code()));
  out.set_message(message);
  AddErrorInfo(detail, &out);
  if (detail.retry_after) AddRetryInfo(*detail.retry_after, &out);
  if (!detail.field.empty()) AddBadRequest(detail.field, message, &out);
  return grpc::Status(static_cast<grpc::StatusCode>(shown.code()), message,
                      out.SerializeAsString());
}

}  // namespace sandbroker::rpc
