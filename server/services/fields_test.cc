// Every field's limits: what is refused names the field, what is unset has its documented default.
#include <gtest/gtest.h>

#include "lib/base/status.h"
#include "server/services/acquire_fields.h"
#include "server/services/execution_fields.h"
#include "server/services/fields.h"
#include "server/services/limits.h"

namespace sandbroker::services {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr uint64_t kMaxLog = 256 << 20;

google::protobuf::Duration Proto(int64_t seconds, int32_t nanos = 0) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

template <class T>
std::string FieldOf(const absl::StatusOr<T>& result) {
  if (result.ok()) return "";
  EXPECT_EQ(ReasonOf(result.status()), Reason::kFieldInvalid);
  return DetailOf(result.status()).field;
}

v1::AcquireRequest ValidAcquire() {
  v1::AcquireRequest request;
  request.mutable_task();
  return request;
}

v1::ExecStart ValidStart() {
  v1::ExecStart start;
  start.set_sandbox_id("sb1_x");
  start.mutable_spec()->add_argv("cat");
  return start;
}

std::string StartField(const v1::ExecStart& start) { return FieldOf(ReadStart(start, kMaxLog)); }

TEST(AcquireFields, Unset_HasTheDocumentedDefaults) {
  const auto spec = ReadAcquire(ValidAcquire());
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->pool, "default");
  EXPECT_EQ(spec->lease.ttl, minutes(10));
  EXPECT_EQ(spec->lease.max_lifetime, hours(24));
  EXPECT_TRUE(spec->lease.keep_while_running);
  EXPECT_EQ(spec->min_remaining, Duration(0));
  EXPECT_EQ(spec->fallback, broker::Fallback::kColdOk);
  EXPECT_EQ(spec->wait_bound, seconds(60));
}

TEST(AcquireFields, NoSource_IsRefused) {
  EXPECT_EQ(FieldOf(ReadAcquire(v1::AcquireRequest())), "task");
}

struct TtlCase {
  google::protobuf::Duration ttl;
  bool good;
};

TEST(AcquireFields, T64_Ttl_ZeroAndNegativeAreRefusedAndBoundsHold) {
  const TtlCase cases[] = {{Proto(0), false},
                           {Proto(-1), false},
                           {Proto(0, 999'999'999), false},
                           {Proto(1), true},
                           {Proto(24 * 3600), true},
                           {Proto(24 * 3600, 1), false},
                           {Proto(1, -1), false},
                           {Proto(400'000'000'000), false}};
  for (const TtlCase& c : cases) {
    auto request = ValidAcquire();
    *request.mutable_lease()->mutable_ttl() = c.ttl;
    EXPECT_EQ(FieldOf(ReadAcquire(request)), c.good ? "" : "lease.ttl") << c.ttl.ShortDebugString();
  }
}

TEST(AcquireFields, MaxLifetime_IsAtLeastTheTtl) {
  auto request = ValidAcquire();
  *request.mutable_lease()->mutable_ttl() = Proto(100);
  *request.mutable_lease()->mutable_max_lifetime() = Proto(99);
  EXPECT_EQ(FieldOf(ReadAcquire(request)), "lease.max_lifetime");
  *request.mutable_lease()->mutable_max_lifetime() = Proto(100);
  EXPECT_TRUE(ReadAcquire(request).ok());
}

TEST(AcquireFields, MinRemaining_IsAtMostTheLifetime) {
  auto request = ValidAcquire();
  *request.mutable_lease()->mutable_max_lifetime() = Proto(600);
  *request.mutable_min_remaining() = Proto(601);
  EXPECT_EQ(FieldOf(ReadAcquire(request)), "min_remaining");
  *request.mutable_min_remaining() = Proto(-1);
  EXPECT_EQ(FieldOf(ReadAcquire(request)), "min_remaining");
}

TEST(AcquireFields, WaitBound_ZeroMeansNoWait) {
  auto request = ValidAcquire();
  *request.mutable_wait_bound() = Proto(0);
  EXPECT_EQ(ReadAcquire(request)->wait_bound, Duration(0));
  *request.mutable_wait_bound() = Proto(601);
  EXPECT_EQ(FieldOf(ReadAcquire(request)), "wait_bound");
}

TEST(AcquireFields, OtherFields_AreCheckedToo) {
  auto request = ValidAcquire();
  request.set_fallback(static_cast<v1::Fallback>(77));
  EXPECT_EQ(FieldOf(ReadAcquire(request)), "fallback");
  request = ValidAcquire();
  request.set_request_id("a/b");
  EXPECT_EQ(FieldOf(ReadAcquire(request)), "request_id");
  request = ValidAcquire();
  (*request.mutable_labels())["sandbroker.dev/x"] = "1";
  EXPECT_TRUE(FieldOf(ReadAcquire(request)).starts_with("labels"));
}

TEST(EnvironmentFields, NamesValuesCountAndSize) {
  google::protobuf::RepeatedPtrField<v1::EnvironmentVariable> env;
  env.Add()->set_name("A");
  EXPECT_TRUE(ReadEnvironment(env, "env").ok());
  env.Add()->set_name("");
  EXPECT_EQ(FieldOf(ReadEnvironment(env, "env")), "env[1].name");
  env.Mutable(1)->set_name("B=C");
  EXPECT_EQ(FieldOf(ReadEnvironment(env, "env")), "env[1].name");
  env.Mutable(1)->set_name("B");
  env.Mutable(1)->set_value(std::string("x\0y", 3));
  EXPECT_EQ(FieldOf(ReadEnvironment(env, "env")), "env[1].value");
  env.Mutable(1)->set_value(std::string(kMaxEnvBytes, 'x'));
  EXPECT_EQ(FieldOf(ReadEnvironment(env, "env")), "env");
  env.Mutable(1)->set_value("");
  for (size_t i = 0; i < kMaxEnvVariables; ++i) env.Add()->set_name("N");
  EXPECT_EQ(FieldOf(ReadEnvironment(env, "env")), "env");
}

TEST(TimestampFields, OutsideItsYears_IsRefused) {
  google::protobuf::Timestamp time;
  time.set_seconds(1'700'000'000);
  time.set_nanos(5);
  EXPECT_EQ(ReadTimestamp(time, "t")->time_since_epoch(), Duration(1'700'000'000'000'000'005));
  time.set_nanos(-1);
  EXPECT_EQ(FieldOf(ReadTimestamp(time, "t")), "t");
  time.set_nanos(0);
  time.set_seconds(253'402'300'800);
  EXPECT_EQ(FieldOf(ReadTimestamp(time, "t")), "t");
}

TEST(StartFields, Unset_HasTheDocumentedDefaults) {
  const auto spec = ReadStart(ValidStart(), kMaxLog);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->start.timeout_ns(), 0);
  EXPECT_EQ(Duration(spec->start.kill_grace_ns()), seconds(5));
  EXPECT_EQ(spec->start.children(), agent::v1::CHILDREN_BOUNDED);
  EXPECT_EQ(spec->start.children_bound_ns(), 0);
  EXPECT_EQ(spec->start.log_bytes(), 0u);
  EXPECT_FALSE(spec->start.stdin());
}

TEST(StartFields, Argv_IsPassedAsItIs) {
  auto start = ValidStart();
  start.mutable_spec()->add_argv("a b\n'$X'");
  start.mutable_spec()->add_argv("");
  start.mutable_spec()->add_argv("\xff\xfe");
  const auto spec = ReadStart(start, kMaxLog);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->start.argv(1), "a b\n'$X'");
  EXPECT_EQ(spec->start.argv(2), "");
  EXPECT_EQ(spec->start.argv(3), "\xff\xfe");
}

TEST(StartFields, Argv_EmptyNulAndTooLarge) {
  auto start = ValidStart();
  start.mutable_spec()->clear_argv();
  EXPECT_EQ(StartField(start), "start.spec.argv");
  start.mutable_spec()->add_argv("");
  EXPECT_EQ(StartField(start), "start.spec.argv[0]");
  start.mutable_spec()->set_argv(0, "cat");
  start.mutable_spec()->add_argv(std::string("a\0b", 3));
  EXPECT_EQ(StartField(start), "start.spec.argv[1]");
  start.mutable_spec()->set_argv(1, std::string(kMaxArgvBytes - 5, 'x'));
  EXPECT_EQ(StartField(start), "");
  start.mutable_spec()->set_argv(1, std::string(kMaxArgvBytes - 4, 'x'));
  EXPECT_EQ(StartField(start), "start.spec.argv");
}

TEST(StartFields, T64_Timeout_UnsetZeroAndNegativeAreThreeCases) {
  auto start = ValidStart();
  EXPECT_EQ(ReadStart(start, kMaxLog)->start.timeout_ns(), 0);
  *start.mutable_spec()->mutable_timeout() = Proto(0);
  EXPECT_EQ(StartField(start), "start.spec.timeout");
  *start.mutable_spec()->mutable_timeout() = Proto(-5);
  EXPECT_EQ(StartField(start), "start.spec.timeout");
  *start.mutable_spec()->mutable_timeout() = Proto(0, 1);
  EXPECT_EQ(ReadStart(start, kMaxLog)->start.timeout_ns(), 1);
  *start.mutable_spec()->mutable_timeout() = Proto(300'000'000'000);
  EXPECT_EQ(Duration(ReadStart(start, kMaxLog)->start.timeout_ns()), kLongestTimeout);
}

TEST(StartFields, KillGraceAndChildBound_ZeroIsAValue) {
  auto start = ValidStart();
  *start.mutable_spec()->mutable_kill_grace() = Proto(0);
  *start.mutable_spec()->mutable_child_bound() = Proto(0);
  const auto spec = ReadStart(start, kMaxLog);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->start.kill_grace_ns(), 0);
  EXPECT_EQ(spec->start.children_bound_ns(), 1);
  *start.mutable_spec()->mutable_kill_grace() = Proto(601);
  EXPECT_EQ(StartField(start), "start.spec.kill_grace");
  start.mutable_spec()->clear_kill_grace();
  *start.mutable_spec()->mutable_child_bound() = Proto(24 * 3600 + 1);
  EXPECT_EQ(StartField(start), "start.spec.child_bound");
}

TEST(StartFields, OtherFields_AreCheckedToo) {
  auto start = ValidStart();
  start.clear_sandbox_id();
  EXPECT_EQ(StartField(start), "start.sandbox_id");
  start = ValidStart();
  start.set_execution_id(std::string(65, 'x'));
  EXPECT_EQ(StartField(start), "start.execution_id");
  start = ValidStart();
  start.mutable_spec()->set_cwd("tmp");
  EXPECT_EQ(StartField(start), "start.spec.cwd");
  start.mutable_spec()->set_cwd("/" + std::string(kMaxCwdBytes, 'x'));
  EXPECT_EQ(StartField(start), "start.spec.cwd");
  start = ValidStart();
  start.mutable_spec()->set_log_bytes(kMinLogBytes - 1);
  EXPECT_EQ(StartField(start), "start.spec.log_bytes");
  start.mutable_spec()->set_log_bytes(kMaxLog + 1);
  EXPECT_EQ(StartField(start), "start.spec.log_bytes");
  start = ValidStart();
  start.mutable_spec()->set_child_policy(static_cast<v1::ChildPolicy>(9));
  EXPECT_EQ(StartField(start), "start.spec.child_policy");
}

TEST(RunFields, CapAndStdin) {
  v1::RunRequest request;
  request.set_sandbox_id("sb1_x");
  request.mutable_spec()->add_argv("cat");
  EXPECT_EQ(ReadRun(request, kMaxLog)->output_cap, kMaxRunOutputBytes);
  EXPECT_FALSE(ReadRun(request, kMaxLog)->start.start.stdin());
  request.set_output_cap(0);
  EXPECT_EQ(ReadRun(request, kMaxLog)->output_cap, 0u);
  request.set_output_cap(kMaxRunOutputBytes + 1);
  EXPECT_EQ(FieldOf(ReadRun(request, kMaxLog)), "output_cap");
  request.clear_output_cap();
  request.set_stdin(std::string(kMaxStdinBytes, 'x'));
  EXPECT_TRUE(ReadRun(request, kMaxLog)->start.start.stdin());
  request.mutable_stdin()->push_back('x');
  EXPECT_EQ(FieldOf(ReadRun(request, kMaxLog)), "stdin");
  request.clear_stdin();
  request.mutable_spec()->clear_argv();
  EXPECT_EQ(FieldOf(ReadRun(request, kMaxLog)), "spec.argv");
}

TEST(StreamFields, StdinSignalCancel) {
  v1::ExecStdin input;
  EXPECT_EQ(*ReadStdinOffset(input, 7), 7u);
  input.set_offset(0);
  EXPECT_EQ(*ReadStdinOffset(input, 7), 0u);
  input.set_offset(UINT64_MAX);
  EXPECT_EQ(FieldOf(ReadStdinOffset(input, 7)), "stdin.offset");
  input.set_data(std::string(kMaxStdinBytes + 1, 'x'));
  EXPECT_EQ(FieldOf(ReadStdinOffset(input, 7)), "stdin.data");

  v1::ExecSignal signal;
  for (const int number : {0, -1, 65}) {
    signal.set_number(number);
    EXPECT_EQ(DetailOf(CheckSignal(signal)).field, "signal.number");
  }
  signal.set_number(64);
  EXPECT_TRUE(CheckSignal(signal).ok());

  v1::ExecCancel cancel;
  EXPECT_EQ(*ReadCancelGrace(cancel, seconds(3)), seconds(3));
  *cancel.mutable_kill_grace() = Proto(0);
  EXPECT_EQ(*ReadCancelGrace(cancel, seconds(3)), Duration(0));
  *cancel.mutable_kill_grace() = Proto(-1);
  EXPECT_EQ(FieldOf(ReadCancelGrace(cancel, seconds(3))), "cancel.kill_grace");
}

}  // namespace
}  // namespace sandbroker::services
