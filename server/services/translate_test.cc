// Every end, state and reason has its counterpart in the contract.
#include "server/services/translate.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "sandbroker/v1/errors.pb.h"

namespace sandbroker::services {
namespace {

TEST(Reasons, BaseAndProto_MatchByNameAndNumber) {
  const auto* values = v1::Reason_descriptor();
  ASSERT_EQ(values->value_count(), kReasonCount);
  for (int i = 0; i < values->value_count(); ++i) {
    const auto* value = values->value(i);
    EXPECT_EQ(value->name(), StrCat("REASON_", ReasonName(static_cast<Reason>(value->number()))));
    EXPECT_EQ(ReasonFromName(value->name().substr(7)), static_cast<Reason>(value->number()));
  }
}

// The codes stand in errors.proto in front of each reason.
TEST(Reasons, EachHasTheCodeOfTheContract) {
  const std::pair<Reason, absl::StatusCode> rows[] = {
      {Reason::kFieldInvalid, absl::StatusCode::kInvalidArgument},
      {Reason::kRequestIdReused, absl::StatusCode::kInvalidArgument},
      {Reason::kSandboxNotFound, absl::StatusCode::kNotFound},
      {Reason::kExecutionNotFound, absl::StatusCode::kNotFound},
      {Reason::kLeaseExpired, absl::StatusCode::kFailedPrecondition},
      {Reason::kSandboxGone, absl::StatusCode::kFailedPrecondition},
      {Reason::kSandboxReplaced, absl::StatusCode::kFailedPrecondition},
      {Reason::kIncarnationChanged, absl::StatusCode::kFailedPrecondition},
      {Reason::kSandboxSuspended, absl::StatusCode::kFailedPrecondition},
      {Reason::kOffsetBeyondEnd, absl::StatusCode::kOutOfRange},
      {Reason::kPoolExhausted, absl::StatusCode::kResourceExhausted},
      {Reason::kCapacity, absl::StatusCode::kResourceExhausted},
      {Reason::kQuotaExceeded, absl::StatusCode::kResourceExhausted},
      {Reason::kAgentUnreachable, absl::StatusCode::kUnavailable},
      {Reason::kApiUnreachable, absl::StatusCode::kUnavailable},
      {Reason::kApiTimeout, absl::StatusCode::kUnavailable},
      {Reason::kServerDraining, absl::StatusCode::kUnavailable},
      {Reason::kClaimRejected, absl::StatusCode::kFailedPrecondition},
      {Reason::kImagePull, absl::StatusCode::kFailedPrecondition},
      {Reason::kBrokerForbidden, absl::StatusCode::kFailedPrecondition},
      {Reason::kPrivilegedSandbox, absl::StatusCode::kFailedPrecondition},
      {Reason::kNotReady, absl::StatusCode::kDeadlineExceeded},
      {Reason::kEpochStale, absl::StatusCode::kAborted},
      {Reason::kTakenOver, absl::StatusCode::kAborted},
      {Reason::kExecutionIdReused, absl::StatusCode::kAlreadyExists},
      {Reason::kExecutionExpired, absl::StatusCode::kFailedPrecondition},
      {Reason::kExecutionEnded, absl::StatusCode::kFailedPrecondition},
      {Reason::kInputGap, absl::StatusCode::kAborted},
      {Reason::kHeldByOther, absl::StatusCode::kAborted},
      {Reason::kAttemptStale, absl::StatusCode::kAborted},
      {Reason::kUnauthenticated, absl::StatusCode::kUnauthenticated},
      {Reason::kNotAuthorised, absl::StatusCode::kPermissionDenied},
      {Reason::kCancelled, absl::StatusCode::kCancelled},
      {Reason::kInternal, absl::StatusCode::kInternal},
      {Reason::kPoolNotFound, absl::StatusCode::kNotFound},
      {Reason::kUnsupported, absl::StatusCode::kUnimplemented},
      {Reason::kIsolationUnavailable, absl::StatusCode::kFailedPrecondition},
  };
  EXPECT_EQ(std::size(rows), static_cast<size_t>(kReasonCount) - 1);
  for (const auto& [reason, code] : rows) EXPECT_EQ(CodeOf(reason), code) << ReasonName(reason);
}

v1::ExecEnded Translated(const agent::v1::Ended& from) {
  v1::ExecEnded to;
  ToProto(from, &to);
  return to;
}

TEST(Ended, EveryReason_ArrivesUnderTheSameName) {
  const auto* reasons = v1::ExecEnded::descriptor()->FindOneofByName("reason");
  ASSERT_EQ(reasons->field_count(), 10);
  for (int i = 0; i < reasons->field_count(); ++i) {
    // The agent's Ended is lite: a message of one empty field is made from its wire form, and the
    // field numbers of both are the same.
    const int number = reasons->field(i)->number();
    const std::string wire{static_cast<char>(number << 3 | 2), 0};
    agent::v1::Ended from;
    ASSERT_TRUE(from.ParseFromString(wire));
    EXPECT_EQ(Translated(from).reason_case(), number) << reasons->field(i)->name();
  }
}

TEST(Ended, Values_AreKept) {
  agent::v1::Ended from;
  from.mutable_signaled()->set_number(11);
  from.mutable_signaled()->set_core_dumped(true);
  from.set_duration_ns(1'500'000'000);
  from.set_final_offset(77);
  from.set_output_complete(true);
  from.set_output_open(true);
  const v1::ExecEnded to = Translated(from);
  EXPECT_EQ(to.signaled().number(), 11);
  EXPECT_TRUE(to.signaled().core_dumped());
  EXPECT_EQ(to.duration().seconds(), 1);
  EXPECT_EQ(to.duration().nanos(), 500'000'000);
  EXPECT_EQ(to.final_offset(), 77u);
  EXPECT_TRUE(to.output_complete());
  EXPECT_TRUE(to.output_open());
}

TEST(Ended, StartFailed_KeepsItsErrno) {
  agent::v1::Ended from;
  from.mutable_start_failed()->set_error_number(7);
  from.mutable_start_failed()->set_step("exec");
  from.mutable_start_failed()->set_message("bad \xff byte");
  const v1::ExecEnded to = Translated(from);
  EXPECT_EQ(to.start_failed().error_number(), 7);
  EXPECT_EQ(to.start_failed().step(), "exec");
  EXPECT_EQ(to.start_failed().message(), "bad \xef\xbf\xbd byte");
  EXPECT_FALSE(to.has_duration());
}

TEST(Ended, UnknownReason_IsOutcomeUnknownAndNeverACode) {
  EXPECT_TRUE(Translated(agent::v1::Ended()).has_outcome_unknown());
}

TEST(Sandbox, View_IsTranslatedWhole) {
  broker::SandboxView view;
  view.handle = "sb1_x";
  view.state = broker::SandboxState::kUnreachable;
  view.pool = "default";
  view.labels = {{"a", "b"}};
  view.incarnation = "boot";
  view.acquired = WallTime(std::chrono::milliseconds(1'700'000'000'250));
  view.lease.remaining = std::chrono::seconds(5);
  view.not_ready_reason = "gone";
  v1::Sandbox to;
  ToProto(view, &to);
  EXPECT_EQ(to.sandbox_id(), "sb1_x");
  EXPECT_EQ(to.kind(), v1::SANDBOX_KIND_TASK);
  EXPECT_EQ(to.state(), v1::SANDBOX_STATE_UNREACHABLE);
  EXPECT_EQ(to.labels().at("a"), "b");
  EXPECT_EQ(to.acquire_time().seconds(), 1'700'000'000);
  EXPECT_EQ(to.acquire_time().nanos(), 250'000'000);
  EXPECT_EQ(to.lease().remaining().seconds(), 5);
  EXPECT_TRUE(to.lease().spec().keep_while_running());
}

TEST(Renewal, Failure_CarriesReasonAndHidesFaultsOfOurs) {
  v1::RenewResult to;
  ToProto(broker::RenewItem{"h", MakeError(Reason::kSandboxGone, "gone"), {}}, &to);
  EXPECT_EQ(to.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(to.reason(), "SANDBOX_GONE");
  v1::RenewResult hidden;
  ToProto(broker::RenewItem{"h", absl::DataLossError("/var/secret"), {}}, &hidden);
  EXPECT_EQ(hidden.reason(), "INTERNAL");
  EXPECT_EQ(hidden.message().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace sandbroker::services
