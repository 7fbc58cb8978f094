#include "sandbroker/client/error.h"

#include <gtest/gtest.h>

#include "client/error_details.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace sandbroker::client {
namespace {

TEST(ErrorOf, DetailsOfTheService_AreAllRead) {
  google::rpc::ErrorInfo info;
  info.set_reason("FIELD_INVALID");
  info.set_domain("sandbroker.dev");
  (*info.mutable_metadata())["limit"] = "64";
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  google::rpc::BadRequest request;
  request.add_field_violations()->set_field("lease.ttl");
  request.mutable_field_violations(0)->set_description("must be positive");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  details.add_details()->PackFrom(retry);
  details.add_details()->PackFrom(request);

  const absl::Status status = FromGrpc(
      grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "bad", details.SerializeAsString()));
  const Error error = ErrorOf(status);

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "bad");
  EXPECT_EQ(error.reason, "FIELD_INVALID");
  EXPECT_EQ(error.domain, "sandbroker.dev");
  EXPECT_EQ(error.metadata.at("limit"), "64");
  EXPECT_EQ(error.retry_after, std::chrono::milliseconds(1500));
  ASSERT_EQ(error.field_violations.size(), 1u);
  EXPECT_EQ(error.field_violations[0].field, "lease.ttl");
  EXPECT_EQ(error.field_violations[0].description, "must be positive");
}

TEST(ErrorOf, StatusWithoutDetails_IsEmpty) {
  EXPECT_EQ(ErrorOf(absl::OkStatus()).reason, "");
  EXPECT_EQ(ErrorOf(FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "reset"))).reason, "");
}

TEST(ErrorOf, DetailsThatAreNoMessage_AreIgnored) {
  const Error error =
      ErrorOf(FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "odd", "\xff\xff\xff garbage")));
  EXPECT_EQ(error.reason, "");
  EXPECT_TRUE(error.field_violations.empty());
}

TEST(ErrorOf, UnknownDetailsAndAbsurdDelays_AreIgnored) {
  google::rpc::Status details;
  google::protobuf::Any* unknown = details.add_details();
  unknown->set_type_url("type.googleapis.com/google.rpc.Help");
  unknown->set_value("\x0a\x00");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(std::numeric_limits<int64_t>::max());
  details.add_details()->PackFrom(retry);
  const Error error = ErrorOf(
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "later", details.SerializeAsString())));
  EXPECT_FALSE(error.retry_after.has_value());
}

TEST(WithReason, ReadsBackAsTheSameReason) {
  const absl::Status status =
      WithReason(absl::StatusCode::kFailedPrecondition, "over", "LEASE_EXPIRED");
  EXPECT_EQ(ErrorOf(status).reason, "LEASE_EXPIRED");
  EXPECT_EQ(ErrorOf(status).domain, "sandbroker.dev");
}

}  // namespace
}  // namespace sandbroker::client
