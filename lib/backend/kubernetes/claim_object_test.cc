#include "lib/backend/kubernetes/claim_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "lib/backend/kubernetes/json_read.h"
#include "lib/backend/kubernetes/keys.h"
#include "lib/backend/kubernetes/times.h"
#include "lib/base/status.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

const WallTime kNow = WallTime(seconds(1'764'458'760) + Duration(5));

ClaimOrder Order() {
  ClaimOrder order;
  order.name = "sb-name";
  order.space = "boxes";
  order.pool = "default";
  order.warm_pool = "python";
  order.holder = "0123abcd";
  order.claim.tenant = "tenant";
  order.claim.labels = {{"app", "ci"}, {"example.org/x", ""}};
  order.claim.lease.keep_while_running = false;
  order.claim.acquired = kNow;
  order.claim.receipt = std::string(64, 'e');
  order.claim.token = order.holder;
  order.shutdown = kNow + minutes(3);
  order.requested = kNow;
  return order;
}

// As the server would answer the POST.
json::object Posted() {
  json::object object = ClaimToPost(Order());
  object["metadata"].as_object()["uid"] = "claim-uid";
  return object;
}

json::object& Notes(json::object* object) {
  return object->at("metadata").as_object().at("annotations").as_object();
}

std::string Text(const json::object& patch_operation, const char* key) {
  return std::string(FromJson(patch_operation.at(key).as_string()));
}

TEST(ClaimObject, Post_HasWhatTheControllerWantsAndNoMore) {
  const json::object object = Posted();
  EXPECT_EQ(object.at("apiVersion"), "extensions.agents.x-k8s.io/v1beta1");
  EXPECT_EQ(object.at("kind"), "SandboxClaim");
  const json::object& spec = object.at("spec").as_object();
  EXPECT_EQ(spec.at("warmPoolRef").at("name"), "python");
  EXPECT_EQ(spec.at("lifecycle").at("shutdownPolicy"), "Delete");
  EXPECT_EQ(spec.at("lifecycle").at("shutdownTime"), ToJson(FormatSeconds(kNow + minutes(3))));
  // Either would force a cold start.
  EXPECT_FALSE(spec.contains("env"));
  EXPECT_FALSE(spec.contains("volumeClaimTemplates"));
}

// agent-sandbox-1.0.3.md 2: without it the controller's PUT bumps the generation.
TEST(ClaimObject, Post_SendsAnEmptyAdditionalPodMetadata) {
  EXPECT_EQ(Posted().at("spec").at("additionalPodMetadata"), json::object());
}

TEST(ClaimObject, Post_KeepsOurLabelsApartFromThePods) {
  const json::object object = Posted();
  const json::object& labels = object.at("metadata").at("labels").as_object();
  EXPECT_EQ(labels.at("sandbroker.dev/managed-by"), "sandbroker");
  EXPECT_EQ(labels.at("sandbroker.dev/pool"), "default");
  EXPECT_EQ(labels.at("sandbroker.dev/holder"), "0123abcd");
  EXPECT_EQ(labels.at("sandbroker.dev/receipt").as_string().size(), 63u);
  EXPECT_FALSE(labels.contains("app"));
}

TEST(ClaimObject, Post_WithoutRequestIdCarriesNoReceipt) {
  ClaimOrder order = Order();
  order.claim.receipt.clear();
  order.claim.token.clear();
  json::object object = ClaimToPost(order);
  EXPECT_FALSE(object.at("metadata").at("labels").as_object().contains("sandbroker.dev/receipt"));
  const auto promise = ReadPromise(ViewClaim(object));
  ASSERT_TRUE(promise.ok()) << promise.status();
  EXPECT_EQ(promise->claim.token, "");
  EXPECT_EQ(promise->holder, "0123abcd");
}

TEST(ClaimObject, Posted_ComesBackWholeAndNotLeased) {
  const auto promise = ReadPromise(ViewClaim(Posted()));
  ASSERT_TRUE(promise.ok()) << promise.status();
  EXPECT_FALSE(promise->leased);
  EXPECT_EQ(promise->pool, "default");
  EXPECT_EQ(promise->claim.tenant, "tenant");
  EXPECT_EQ(promise->claim.labels, Order().claim.labels);
  EXPECT_EQ(promise->claim.acquired, kNow);
  EXPECT_FALSE(promise->claim.lease.keep_while_running);
  EXPECT_EQ(promise->claim.receipt, std::string(64, 'e'));
  EXPECT_EQ(promise->claim.token, "0123abcd");
  EXPECT_EQ(promise->claim.until, WallTime(std::chrono::ceil<seconds>(kNow + minutes(3))));
}

TEST(ClaimObject, LeaseUntil_ComesBackToTheNanosecond) {
  json::object object = Posted();
  Notes(&object)[ToJson(kUntilAnnotation)] = ToJson(FormatNanos(kNow + Duration(7)));
  const auto promise = ReadPromise(ViewClaim(object));
  ASSERT_TRUE(promise.ok()) << promise.status();
  EXPECT_TRUE(promise->leased);
  EXPECT_EQ(promise->claim.until, kNow + Duration(7));
}

TEST(ClaimObject, WhatOthersWroteIsRefusedWithAReason) {
  const auto why = [](const std::function<void(json::object*)>& change) {
    json::object object = Posted();
    change(&object);
    const auto promise = ReadPromise(ViewClaim(object));
    return promise.ok() ? std::string("OK") : std::string(MessageOf(promise.status()));
  };
  const auto note = [&](const std::string& from, const std::string& to) {
    return why([&](json::object* object) {
      auto& text = Notes(object).at(ToJson(kClaimAnnotation)).as_string();
      std::string changed(text.data(), text.size());
      const size_t at = changed.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      text = ToJson(changed.replace(at, from.size(), to));
    });
  };
  const auto label = [&](const char* key) {
    return why([&](json::object* object) {
      object->at("metadata").as_object().at("labels").as_object().erase(key);
    });
  };
  EXPECT_EQ(why([](json::object*) {}), "OK");
  EXPECT_THAT(label("sandbroker.dev/managed-by"), HasSubstr("managed-by"));
  EXPECT_THAT(label("sandbroker.dev/pool"), HasSubstr("pool"));
  EXPECT_THAT(label("sandbroker.dev/holder"), HasSubstr("holder"));
  EXPECT_THAT(label("sandbroker.dev/receipt"), HasSubstr("receipt"));
  EXPECT_THAT(note("\"version\":1", "\"version\":2"), HasSubstr("'version'"));
  EXPECT_THAT(note("\"app\"", "\"a b\""), HasSubstr("'labels'"));
  EXPECT_THAT(note("\"ci\"", "{}"), HasSubstr("'labels'"));
  EXPECT_THAT(note("600000000000", "-1"), HasSubstr("'ttl_ns'"));
  EXPECT_THAT(note("\"outage_ttl\":false", "\"outage_ttl\":0"), HasSubstr("'outage_ttl'"));
  EXPECT_THAT(note("{", "["), HasSubstr("no JSON object"));
  EXPECT_THAT(note("{\"version\":1", std::string(1000, '[')), HasSubstr("no JSON object"));
  EXPECT_THAT(
      why([](json::object* object) { Notes(object)[ToJson(kUntilAnnotation)] = "tomorrow"; }),
      HasSubstr("lease-until"));
  EXPECT_THAT(why([](json::object* object) { Notes(object) = {}; }), HasSubstr("no JSON object"));
  EXPECT_THAT(why([](json::object* object) { object->at("metadata") = 7; }), HasSubstr("label"));
}

TEST(ClaimObject, Backstop_LiesBeyondTheLeaseAndWithinTheLifetime) {
  broker::Claim claim = Order().claim;
  claim.until = kNow + minutes(10);
  EXPECT_EQ(BackstopOf(claim, {}), kNow + minutes(20));
  claim.until = kNow + hours(24) - minutes(1);
  EXPECT_EQ(BackstopOf(claim, {}), kNow + hours(24));
}

ClaimChange Change() {
  ClaimChange change;
  change.uid = "claim-uid";
  change.old_until = "2026-11-29T23:26:00.000000001Z";
  change.old_holder = "0123abcd";
  change.claim = Order().claim;
  change.claim.until = kNow + minutes(13);
  change.backstop = kNow + minutes(23);
  return change;
}

// docs/protocols.md C: one conditional patch.
TEST(ClaimObject, Change_TestsIdentityLeaseAndHolderBeforeItWritesAnything) {
  const json::array patch = ChangePatch(Change());
  size_t tests = 0;
  while (tests < patch.size() && patch[tests].at("op") == "test") ++tests;
  ASSERT_EQ(tests, 3u);
  EXPECT_EQ(Text(patch[0].as_object(), "path"), "/metadata/uid");
  EXPECT_EQ(Text(patch[0].as_object(), "value"), "claim-uid");
  EXPECT_EQ(Text(patch[1].as_object(), "path"),
            "/metadata/annotations/sandbroker.dev~1lease-until");
  EXPECT_EQ(Text(patch[1].as_object(), "value"), Change().old_until);
  EXPECT_EQ(Text(patch[2].as_object(), "path"), "/metadata/labels/sandbroker.dev~1holder");
  EXPECT_EQ(Text(patch[2].as_object(), "value"), "0123abcd");
  for (size_t i = tests; i < patch.size(); ++i) EXPECT_NE(patch[i].at("op"), "test");
}

TEST(ClaimObject, Change_MovesLeaseClaimAndBackstopTogether) {
  const std::string text = json::serialize(ChangePatch(Change()));
  EXPECT_THAT(text, HasSubstr(FormatNanos(kNow + minutes(13))));
  EXPECT_THAT(text, HasSubstr(FormatSeconds(kNow + minutes(23))));
  EXPECT_THAT(text, HasSubstr("/spec/lifecycle/shutdownTime"));
  EXPECT_THAT(text, HasSubstr("sandbroker.dev~1claim"));
}

TEST(ClaimObject, Change_KeepsTheHolderUnlessAnotherIsGiven) {
  const auto replaces_holder = [](const ClaimChange& change) {
    for (const json::value& one : ChangePatch(change)) {
      if (one.at("op") == "replace" && one.at("path") == "/metadata/labels/sandbroker.dev~1holder")
        return true;
    }
    return false;
  };
  ClaimChange change = Change();
  EXPECT_FALSE(replaces_holder(change));
  change.holder = change.old_holder;
  EXPECT_FALSE(replaces_holder(change));
  change.holder = "ffff";
  EXPECT_TRUE(replaces_holder(change));
}

TEST(ClaimObject, Restamp_TestsTheOldHolder) {
  const json::array patch = RestampPatch("claim-uid", "old", "new");
  ASSERT_EQ(patch.size(), 3u);
  EXPECT_EQ(Text(patch[1].as_object(), "value"), "old");
  EXPECT_EQ(Text(patch[2].as_object(), "op"), "replace");
  EXPECT_EQ(Text(patch[2].as_object(), "value"), "new");
}

}  // namespace
}  // namespace sandbroker::kubernetes
