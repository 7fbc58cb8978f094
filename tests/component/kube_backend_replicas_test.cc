// Two brokers on one cluster, each with a Kubernetes backend of its own: any handle on either, and
// a repeated request meets its first result.
#include "lib/backend/kubernetes/kubernetes_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/backend/kubernetes/lease_receipts.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/fake_dialer.h"
#include "tests/support/manual_scheduler.h"

namespace sandbroker::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::IsEmpty;

// One process.
class Replica {
 public:
  Replica(ManualScheduler& scheduler, TaskScope& scope, FakeCluster& cluster, const std::string& id)
      : dialer_(scheduler),
        backend_({scheduler, scope, cluster, dialer_, metrics_}, BackendSettings()),
        receipts_(scheduler, cluster, FakeCluster::kSpace, seconds(10)),
        broker(scheduler, scope, backend_, receipts_, metrics_, Settings(id)) {
    cluster.Watch(kubernetes::Claims(), &backend_.claims());
    cluster.Watch(kubernetes::Sandboxes(), &backend_.sandboxes());
    cluster.Watch(kubernetes::Pods(), &backend_.pods());
    cluster.Watch(kubernetes::WarmPools(), &backend_.pools_feed());
    scope.Spawn("start", backend_.Start());
    scheduler.RunPosted();
  }
  void End() {
    broker.Drain();
    broker.LetGo();
    backend_.LetGo();
  }

 private:
  static kubernetes::KubernetesSettings BackendSettings() {
    kubernetes::KubernetesSettings settings;
    settings.space = FakeCluster::kSpace;
    settings.pools["default"].name = "default";
    settings.pools["default"].warm_pool = "python";
    return settings;
  }
  static broker::BrokerSettings Settings(const std::string& id) {
    broker::BrokerSettings settings;
    settings.handle_key = std::string(32, 'k');
    settings.replica_id = id;
    return settings;
  }

  obs::Metrics metrics_;
  FakeDialer dialer_;
  kubernetes::KubernetesBackend backend_;
  kubernetes::LeaseReceipts receipts_;

 public:
  broker::Broker broker;
};

class KubeReplicas : public ::testing::Test {
 protected:
  KubeReplicas()
      : scope_(scheduler_.context(),
               [](std::string_view name, std::string_view what) {
                 ADD_FAILURE() << name << ": " << what;
               }),
        cluster_(scheduler_) {
    cluster_.AddPool("python", 2);
    cluster_.AddMember("python", "warm-1", "10.0.0.1");
    a_ = std::make_unique<Replica>(scheduler_, scope_, cluster_, "a");
    b_ = std::make_unique<Replica>(scheduler_, scope_, cluster_, "b");
  }
  ~KubeReplicas() override {
    for (const auto* replica : {&a_, &b_}) (*replica)->End();
    for (int i = 0; i < 200 && scope_.running() > 0; ++i) scheduler_.Advance(seconds(1));
    bool joined = false;
    scope_.Join([&] { joined = true; });
    EXPECT_TRUE(joined) << "a task never ended";
    cluster_.Unwatch();
  }

  template <class T>
  std::shared_ptr<std::optional<T>> Begin(Task<T> task) {
    auto slot = std::make_shared<std::optional<T>>();
    scope_.Spawn("test", Keep(std::move(task), slot));
    scheduler_.RunPosted();
    return slot;
  }
  // On replica A, from the pool's one member.
  broker::Acquired Acquire(const std::string& request_id = "") {
    broker::AcquireSpec spec;
    spec.request_id = request_id;
    const auto slot = Begin(a_->broker.Acquire(me_, spec, CancelToken()));
    cluster_.GiveMember(cluster_.Claims().at(0), "warm-1");
    scheduler_.RunPosted();
    EXPECT_TRUE(slot->has_value() && (*slot)->ok());
    return ***slot;
  }

  ManualScheduler scheduler_;
  TaskScope scope_;
  FakeCluster cluster_;
  std::unique_ptr<Replica> a_;
  std::unique_ptr<Replica> b_;
  const broker::Principal me_{"local", "default"};

 private:
  template <class T>
  static Task<void> Keep(Task<T> task, std::shared_ptr<std::optional<T>> slot) {
    T value = co_await std::move(task);
    slot->emplace(std::move(value));
  }
};

TEST_F(KubeReplicas, AcquireThroughTheBroker_IsOnePostAndOneLeaseWrite) {
  Acquire();
  EXPECT_EQ(cluster_.Count("create sandboxclaims"), 1u);
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
  EXPECT_EQ(cluster_.Reads(), 0u);
}

TEST_F(KubeReplicas, WithARequestId_TwoWritesMoreAndTheReceiptsOwnReads) {
  Acquire("r1");
  EXPECT_EQ(cluster_.Count("create sandboxclaims"), 1u);
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
  EXPECT_EQ(cluster_.Count("create leases"), 1u);
  EXPECT_EQ(cluster_.Count("update leases"), 1u);
}

// T81: two replicas.
TEST_F(KubeReplicas, T81_HandleOfOne_IsGoodOnTheOther) {
  const broker::Acquired acquired = Acquire();
  const auto seen = b_->broker.Get(me_, acquired.sandbox.handle);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->incarnation, acquired.sandbox.incarnation);
  EXPECT_EQ(seen->lease.expire, acquired.sandbox.lease.expire);
}

TEST_F(KubeReplicas, RequestRepeatedOnTheOther_MeetsTheFirstsSandbox) {
  const broker::Acquired first = Acquire("r1");
  broker::AcquireSpec spec;
  spec.request_id = "r1";
  const auto again = Begin(b_->broker.Acquire(me_, spec, CancelToken()));
  ASSERT_TRUE(again->has_value() && (*again)->ok());
  EXPECT_EQ((**again)->source, broker::Source::kRepeated);
  EXPECT_EQ((**again)->sandbox.incarnation, first.sandbox.incarnation);
  EXPECT_EQ(cluster_.Claims().size(), 1u);
}

TEST_F(KubeReplicas, RenewedOnOne_HoldsOnTheOther) {
  const broker::Acquired acquired = Acquire();
  scheduler_.Advance(minutes(6));
  std::vector<std::string> handles = {acquired.sandbox.handle};
  const auto renewed = Begin(b_->broker.Renew(me_, handles));
  ASSERT_TRUE(renewed->has_value());
  ASSERT_TRUE((**renewed)[0].status.ok()) << (**renewed)[0].status;
  const auto seen = a_->broker.Get(me_, acquired.sandbox.handle);
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(seen->lease.expire, (**renewed)[0].lease.expire);
  EXPECT_GT(seen->lease.expire, acquired.sandbox.lease.expire);
}

TEST_F(KubeReplicas, ReleasedOnOne_IsGoneOnTheOther) {
  const broker::Acquired acquired = Acquire();
  const auto released = Begin(b_->broker.Release(me_, acquired.sandbox.handle));
  ASSERT_TRUE(released->has_value() && (*released)->ok());
  EXPECT_THAT(cluster_.Claims(), IsEmpty());
  EXPECT_EQ(ReasonOf(a_->broker.Get(me_, acquired.sandbox.handle).status()), Reason::kSandboxGone);
}

TEST_F(KubeReplicas, LeaseOver_IsReapedOnceByWhoeverLooks) {
  const broker::Acquired acquired = Acquire();
  scheduler_.Advance(minutes(14));
  EXPECT_THAT(cluster_.Claims(), IsEmpty());
  for (const auto* replica : {&a_, &b_}) {
    EXPECT_EQ(ReasonOf((*replica)->broker.Get(me_, acquired.sandbox.handle).status()),
              Reason::kLeaseExpired);
  }
}

}  // namespace
}  // namespace sandbroker::testing
