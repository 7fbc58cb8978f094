#include "client/convert.h"

#include <gtest/gtest.h>

#include "client/connection.h"
#include "lib/base/ids.h"

namespace sandbroker::client {
namespace {

using std::chrono::milliseconds;

TEST(ToProto, DurationsKeepOneSign) {
  EXPECT_EQ(ToProto(milliseconds(1500)).seconds(), 1);
  EXPECT_EQ(ToProto(milliseconds(1500)).nanos(), 500'000'000);
  EXPECT_EQ(ToProto(milliseconds(-1500)).seconds(), -1);
  EXPECT_EQ(ToProto(milliseconds(-1500)).nanos(), -500'000'000);
}

TEST(ToProto, UnsetFieldsStayUnset) {
  const v1::AcquireRequest acquire = ToProto(AcquireOptions{});
  EXPECT_TRUE(acquire.has_task());
  EXPECT_FALSE(acquire.has_lease());
  EXPECT_FALSE(acquire.has_wait_bound());
  const v1::ExecutionSpec spec = ToProto(Program{.argv = {"true"}});
  EXPECT_FALSE(spec.has_timeout());
  EXPECT_FALSE(spec.has_kill_grace());
}

// T64: unset, zero and negative are three cases, and the server sees which.
TEST(ToProto, T64a_ZeroAndNegativeTimeoutsAreSentAsTheyAre) {
  const v1::ExecutionSpec zero = ToProto(Program{.timeout = Duration::zero()});
  EXPECT_TRUE(zero.has_timeout());
  EXPECT_EQ(zero.timeout().seconds(), 0);
  EXPECT_EQ(ToProto(Program{.timeout = std::chrono::seconds(-1)}).timeout().seconds(), -1);
}

TEST(ToExecRequest, WithoutId_MintsADifferentOneEachTime) {
  const std::string first = ToExecRequest("sb", {}, {}).start().execution_id();
  EXPECT_TRUE(IsValidId(first));
  EXPECT_NE(first, ToExecRequest("sb", {}, {}).start().execution_id());
  EXPECT_TRUE(IsValidId(ToRunRequest("sb", {}, {}).execution_id()));
}

TEST(ToExecRequest, GivenId_IsKept) {
  EXPECT_EQ(ToExecRequest("sb", {}, {.execution_id = "mine"}).start().execution_id(), "mine");
}

// T140: bytes stay bytes.
TEST(ToExecRequest, T140a_ArgumentsThatAreNotUtf8_AreSentUnchanged) {
  const std::string odd("\xff\xfe\x80", 3);
  const v1::ExecRequest request = ToExecRequest("sb", {.argv = {"echo", odd}}, {});
  v1::ExecRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(request.SerializeAsString()));
  EXPECT_EQ(parsed.start().spec().argv(1), odd);
}

TEST(TargetOf, TakesHostPortAndUnixPaths) {
  EXPECT_EQ(*TargetOf("127.0.0.1:7443"), "dns:127.0.0.1:7443");
  EXPECT_EQ(*TargetOf("[::1]:7443"), "dns:[::1]:7443");
  EXPECT_EQ(*TargetOf("unix:/run/s.sock"), "unix:/run/s.sock");
  EXPECT_EQ(*TargetOf("unix:rel.sock"), "unix:rel.sock");
}

TEST(TargetOf, RefusesEverythingElse) {
  for (const char* address : {"", "localhost", ":7443", "host:", "host:0", "host:65536", "host:x",
                              "unix:", "unix://", "http://host:1"}) {
    EXPECT_EQ(TargetOf(address).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace sandbroker::client
