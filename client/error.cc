#include "sandbroker/client/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "client/error_details.h"
#include "client/sandbroker_error_wire.pb.h"

namespace sandbroker::client {
namespace {

constexpr char kPayloadUrl[] = "type.googleapis.com/google.rpc.Status";
constexpr char kDomain[] = "sandbroker.dev";

void TakeErrorInfo(const std::string& bytes, Error& error) {
  wire::ErrorInfo info;
  if (!info.ParseFromString(bytes)) return;
  error.reason = info.reason();
  error.domain = info.domain();
  for (const wire::Entry& entry : info.metadata()) error.metadata[entry.key()] = entry.value();
}

void TakeRetryInfo(const std::string& bytes, Error& error) {
  wire::RetryInfo info;
  if (!info.ParseFromString(bytes) || !info.has_retry_delay()) return;
  const wire::Delay& delay = info.retry_delay();
  // What a std::chrono::nanoseconds can't hold is no delay anybody waits for.
  if (delay.seconds() < 0 || delay.seconds() > 1'000'000'000 || delay.nanos() < 0) return;
  error.retry_after =
      std::chrono::seconds(delay.seconds()) + std::chrono::nanoseconds(delay.nanos());
}

void TakeBadRequest(const std::string& bytes, Error& error) {
  wire::BadRequest request;
  if (!request.ParseFromString(bytes)) return;
  for (const wire::FieldViolation& violation : request.field_violations()) {
    error.field_violations.push_back({violation.field(), violation.description()});
  }
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (!status.error_details().empty()) {
    result.SetPayload(kPayloadUrl, absl::Cord(status.error_details()));
  }
  return result;
}

absl::Status WithReason(absl::StatusCode code, absl::string_view message,
                        absl::string_view reason) {
  wire::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  wire::Status details;
  wire::Any* detail = details.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail->set_value(info.SerializeAsString());
  absl::Status result(code, message);
  result.SetPayload(kPayloadUrl, absl::Cord(details.SerializeAsString()));
  return result;
}

Error ErrorOf(const absl::Status& status) {
  Error error;
  const auto payload = status.GetPayload(kPayloadUrl);
  wire::Status details;
  if (!payload || !details.ParseFromString(std::string(*payload))) return error;
  for (const wire::Any& detail : details.details()) {
    if (absl::EndsWith(detail.type_url(), "/google.rpc.ErrorInfo")) {
      TakeErrorInfo(detail.value(), error);
    } else if (absl::EndsWith(detail.type_url(), "/google.rpc.RetryInfo")) {
      TakeRetryInfo(detail.value(), error);
    } else if (absl::EndsWith(detail.type_url(), "/google.rpc.BadRequest")) {
      TakeBadRequest(detail.value(), error);
    }
  }
  return error;
}

}  // namespace sandbroker::client
