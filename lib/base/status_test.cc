#include "lib/base/status.h"

#include <gtest/gtest.h>

namespace sandbroker {
namespace {

TEST(Status, Detail_SurvivesTheTripThroughTheStatus) {
  ErrorDetail detail;
  detail.reason = Reason::kPoolExhausted;
  detail.retry_after = std::chrono::milliseconds(1500);
  detail.metadata = {{"pool", "default"}, {"limit", "4"}};
  const absl::Status status = MakeError(detail, "pool 'default' is dry");
  const ErrorDetail got = DetailOf(status);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(got.reason, Reason::kPoolExhausted);
  EXPECT_EQ(got.retry_after, std::chrono::milliseconds(1500));
  EXPECT_EQ(got.metadata, detail.metadata);
}

TEST(Status, RetryAfter_IsAlwaysThereWhereAClientMayRetry) {
  for (int i = 1; i < kReasonCount; ++i) {
    const absl::Status status = MakeError(static_cast<Reason>(i), "x");
    const bool wants = status.code() == absl::StatusCode::kUnavailable ||
                       status.code() == absl::StatusCode::kResourceExhausted;
    EXPECT_EQ(DetailOf(status).retry_after.has_value(), wants) << ReasonName(Reason(i));
    EXPECT_EQ(ReasonFromName(ReasonName(Reason(i))), Reason(i));
  }
}

TEST(Status, InvalidField_NamesTheField) {
  const absl::Status status = InvalidField("lease.ttl", "must be at least 1 s");
  EXPECT_EQ(status.message(), "lease.ttl: must be at least 1 s");
  EXPECT_EQ(DetailOf(status).field, "lease.ttl");
}

TEST(Status, ForeignStatus_HasNoReason) {
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), Reason::kUnspecified);
  EXPECT_EQ(ReasonFromName("NO_SUCH"), Reason::kUnspecified);
}

}  // namespace
}  // namespace sandbroker
