// Receipts as Lease objects: protocol B's four atomic steps over an API server.
#include "lib/backend/kubernetes/lease_receipts.h"

#include "lib/backend/kubernetes/times.h"
#include "lib/base/crypto.h"
#include "tests/component/kube_backend_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::Receipt;
using kubernetes::LeaseReceipts;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;

class KubeReceipts : public KubeBackendFixture {
 protected:
  KubeReceipts()
      : receipts_(scheduler_, cluster_, FakeCluster::kSpace, seconds(10)),
        others_(scheduler_, cluster_, FakeCluster::kSpace, seconds(10)) {}

  Receipt Pending(const std::string& token) {
    Receipt receipt;
    receipt.body_hash = std::string(64, 'b');
    receipt.token = token;
    receipt.owner = "replica";
    receipt.deadline = scheduler_.WallNow() + minutes(3);
    return receipt;
  }
  Receipt Bound(const std::string& token) {
    Receipt receipt = Pending(token);
    receipt.state = Receipt::State::kBound;
    receipt.uid = "claim-uid";
    return receipt;
  }
  std::string Name() const { return StrCat("sandbroker-receipt-", key_); }

  const std::string key_ = HexEncode(Sha256("key"));
  LeaseReceipts receipts_;
  LeaseReceipts others_;  // another replica's
};

TEST_F(KubeReceipts, Create_IsExclusive) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  EXPECT_FALSE(*Get(others_.Create(key_, Pending("b"))));
  const auto found = Get(others_.Read(key_));
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->token, "a");
}

TEST_F(KubeReceipts, Object_IsWhatTheApiTakes) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  const json::object lease =
      cluster_.store().Get(kubernetes::Leases(), FakeCluster::kSpace, Name()).body;
  EXPECT_EQ(TextAt(lease, "spec.renewTime"), kubernetes::FormatMicros(scheduler_.WallNow()));
  EXPECT_EQ(lease.at("spec").at("leaseDurationSeconds"), 180);
  EXPECT_EQ(lease.at("metadata").at("labels").at("sandbroker.dev/managed-by"), "sandbroker");
}

TEST_F(KubeReceipts, NothingThere_ReadsAsNothing) {
  const auto found = Get(receipts_.Read(key_));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(*found);
}

// "+ 2 writes for a receipt", and no read.
TEST_F(KubeReceipts, CreateAndBind_TakeTwoWritesAndNoRead) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  EXPECT_TRUE(*Get(receipts_.CompareAndSet(key_, "a", Bound("a"))));
  EXPECT_THAT(cluster_.log(), ElementsAre("create leases", "update leases"));
  EXPECT_EQ((*Get(others_.Read(key_)))->uid, "claim-uid");
}

TEST_F(KubeReceipts, CompareAndSet_AgainstAnotherToken_IsFalse) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  EXPECT_TRUE(*Get(others_.CompareAndSet(key_, "a", Pending("b"))));
  EXPECT_FALSE(*Get(receipts_.CompareAndSet(key_, "a", Bound("a"))));
  EXPECT_EQ((*Get(receipts_.Read(key_)))->token, "b");
}

// Somebody touched the object; the token is still the expected one.
TEST_F(KubeReceipts, CompareAndSet_AgainstAnotherVersion_ReadsAndGoesOn) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  cluster_.store().Update(kubernetes::Leases(), FakeCluster::kSpace, Name(),
                          [](json::object& lease) { SetAt(lease, "metadata.note", "x"); });
  EXPECT_TRUE(*Get(receipts_.CompareAndSet(key_, "a", Bound("a"))));
}

TEST_F(KubeReceipts, CompareAndSet_OfNothing_IsFalse) {
  EXPECT_FALSE(*Get(receipts_.CompareAndSet(key_, "a", Bound("a"))));
}

TEST_F(KubeReceipts, UnknownOutcome_IsAnErrorAndTheNextReadTells) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  cluster_.Script({.verb = "update", .plural = "leases", .what = What::kLostAfter});
  EXPECT_EQ(ReasonOf(Get(receipts_.CompareAndSet(key_, "a", Bound("a2"))).status()),
            Reason::kApiTimeout);
  EXPECT_EQ((*Get(receipts_.Read(key_)))->token, "a2");
  EXPECT_TRUE(*Get(receipts_.CompareAndSet(key_, "a2", Bound("a3"))));
}

TEST_F(KubeReceipts, MissingRight_IsNamed) {
  cluster_.Script({.verb = "create", .plural = "leases", .status = 403});
  const auto created = Get(receipts_.Create(key_, Pending("a")));
  EXPECT_EQ(ReasonOf(created.status()), Reason::kBrokerForbidden);
  EXPECT_EQ(DetailOf(created.status()).metadata.at("resource"), "leases");
}

TEST_F(KubeReceipts, Remove_TakesOnlyTheExpectedOne) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  EXPECT_FALSE(*Get(receipts_.Remove(key_, "b")));
  EXPECT_TRUE(*Get(receipts_.Remove(key_, "a")));
  EXPECT_FALSE(*Get(receipts_.Remove(key_, "a")));
}

TEST_F(KubeReceipts, List_TellsKeysOfReceiptsOnly) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  cluster_.store().Create(kubernetes::Leases(), FakeCluster::kSpace,
                          {{"metadata", {{"name", "kube-controller-manager"}}}});
  const auto keys = Get(receipts_.List());
  ASSERT_TRUE(keys.ok());
  EXPECT_THAT(*keys, ElementsAre(key_));
}

TEST_F(KubeReceipts, WhatOthersWroteThere_IsAnErrorNotAReceipt) {
  EXPECT_TRUE(*Get(receipts_.Create(key_, Pending("a"))));
  cluster_.store().Update(
      kubernetes::Leases(), FakeCluster::kSpace, Name(), [](json::object& lease) {
        lease["metadata"].at("annotations").as_object()["sandbroker.dev/receipt-record"] = "x";
      });
  EXPECT_EQ(ReasonOf(Get(receipts_.Read(key_)).status()), Reason::kInternal);
}

}  // namespace
}  // namespace sandbroker::testing
