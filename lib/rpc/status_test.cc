#include "lib/rpc/status.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <gtest/gtest.h>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::rpc {
namespace {

template <class Detail>
std::optional<Detail> DetailIn(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  for (const auto& any : details.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

grpc::Status Mapped(const absl::Status& status) { return ToGrpcStatus(status, "Test"); }

TEST(ToGrpcStatus, EveryReason_CarriesItsCodeNameAndDomain) {
  for (int number = 1; number < kReasonCount; ++number) {
    const auto reason = static_cast<Reason>(number);
    const grpc::Status status = Mapped(MakeError(reason, "words"));
    EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(CodeOf(reason)));
    const auto info = DetailIn<google::rpc::ErrorInfo>(status);
    ASSERT_TRUE(info) << ReasonName(reason);
    EXPECT_EQ(info->reason(), ReasonName(reason));
    EXPECT_EQ(info->domain(), "sandbroker.dev");
    const bool retry = CodeOf(reason) == absl::StatusCode::kResourceExhausted ||
                       CodeOf(reason) == absl::StatusCode::kUnavailable;
    EXPECT_EQ(DetailIn<google::rpc::RetryInfo>(status).has_value(), retry) << ReasonName(reason);
  }
}

TEST(ToGrpcStatus, T112_Capacity_SaysWhenToTryAgain) {
  ErrorDetail detail;
  detail.reason = Reason::kPoolExhausted;
  detail.retry_after = std::chrono::milliseconds(2500);
  detail.metadata["pool"] = "default";
  const grpc::Status status = Mapped(MakeError(detail, "pool is dry"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto retry = DetailIn<google::rpc::RetryInfo>(status);
  ASSERT_TRUE(retry);
  EXPECT_EQ(retry->retry_delay().seconds(), 2);
  EXPECT_EQ(retry->retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(DetailIn<google::rpc::ErrorInfo>(status)->metadata().at("pool"), "default");
}

TEST(ToGrpcStatus, InvalidField_NamesItInBadRequest) {
  const grpc::Status status = Mapped(InvalidField("lease.ttl", "must be positive"));
  const auto bad = DetailIn<google::rpc::BadRequest>(status);
  ASSERT_TRUE(bad);
  ASSERT_EQ(bad->field_violations_size(), 1);
  EXPECT_EQ(bad->field_violations(0).field(), "lease.ttl");
  EXPECT_EQ(bad->field_violations(0).description(), "lease.ttl: must be positive");
}

TEST(ToGrpcStatus, ForeignStatusAndOurOwnFault_ShowNothingOfTheirText) {
  for (const absl::Status& status :
       {absl::UnknownError("/etc/secret"), absl::NotFoundError("/etc/secret"),
        MakeError(Reason::kInternal, "/etc/secret")}) {
    const grpc::Status shown = Mapped(status);
    EXPECT_EQ(shown.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(shown.error_message().find("secret"), std::string::npos);
    EXPECT_EQ(shown.error_details().find("secret"), std::string::npos);
    const auto info = DetailIn<google::rpc::ErrorInfo>(shown);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->reason(), "INTERNAL");
    EXPECT_NE(shown.error_message().find(info->metadata().at("request")), std::string::npos);
  }
}

TEST(ToGrpcStatus, HugeTexts_StayBelowTheTrailersLimit) {
  ErrorDetail detail;
  detail.reason = Reason::kFieldInvalid;
  detail.field = std::string(100'000, '\xff');
  for (int i = 0; i < 100; ++i) detail.metadata[StrCat("key", i)] = std::string(10'000, '\xfe');
  const grpc::Status status = Mapped(MakeError(detail, std::string(100'000, '\xc3')));
  // grpc-message is percent-encoded, grpc-status-details-bin is base64.
  EXPECT_LE(status.error_message().size() * 3 + status.error_details().size() * 4 / 3 + 64,
            kMaxTrailerBytes);
  EXPECT_TRUE(DetailIn<google::rpc::ErrorInfo>(status));
}

TEST(PublicText, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(PublicText("plain", 100), "plain");
  EXPECT_EQ(PublicText("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 100),
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(PublicText("a\xff\xc3", 100), "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(PublicText("\xed\xa0\x80", 100), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // surrogate
  EXPECT_EQ(PublicText("\xc0\xaf", 100), "\xef\xbf\xbd\xef\xbf\xbd");                  // overlong
  EXPECT_EQ(PublicText("\xe2\x82\xac\xe2\x82\xac", 5), "\xe2\x82\xac");  // cut at an edge
}

}  // namespace
}  // namespace sandbroker::rpc
