// The Kubernetes backend over a cluster in memory and scripted agents, with time that a test moves.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/async/task_scope.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/fake_dialer.h"
#include "tests/support/kube_objects.h"
#include "tests/support/manual_scheduler.h"

namespace sandbroker::testing {

// Writes down what the backend says, a line each.
class RecordingBackendObserver final : public broker::BackendObserver {
 public:
  void OnAdopted(broker::Adopted adopted) override {
    said.push_back(StrCat("adopted ", adopted.uid));
    this->adopted.push_back(std::move(adopted));
  }
  void OnClaimChanged(const std::string& uid, broker::Claim claim) override {
    said.push_back(StrCat("changed ", uid));
    changed.push_back(std::move(claim));
  }
  void OnSandboxGone(const std::string& uid, const std::string& cause) override {
    said.push_back(StrCat("gone ", uid, " ", cause));
  }
  void OnLinkLost(const std::string& uid, const absl::Status&) override {
    said.push_back(StrCat("lost ", uid));
  }
  void OnLinkRestored(const std::string& uid, std::shared_ptr<broker::AgentLink>) override {
    said.push_back(StrCat("restored ", uid));
  }

  std::vector<std::string> said;
  std::vector<broker::Adopted> adopted;
  std::vector<broker::Claim> changed;
};

class KubeBackendFixture : public ::testing::Test {
 protected:
  using What = FakeCluster::What;
  using Acquired = absl::StatusOr<broker::Binding>;

  KubeBackendFixture()
      : scope_(scheduler_.context(),
               [](std::string_view name, std::string_view what) {
                 ADD_FAILURE() << name << ": " << what;
               }),
        cluster_(scheduler_),
        dialer_(scheduler_) {
    cluster_.AddPool("python", 2);
  }

  ~KubeBackendFixture() override {
    if (backend_) backend_->LetGo();
    // Clean-up of what was given up may try once more.
    for (int i = 0; i < 200 && scope_.running() > 0; ++i) {
      cluster_.Release();
      scheduler_.Advance(std::chrono::seconds(1));
    }
    bool joined = false;
    scope_.Join([&] { joined = true; });
    scheduler_.RunPosted();
    EXPECT_TRUE(joined) << "a task never ended";
    cluster_.Unwatch();
  }

  kubernetes::KubernetesSettings Settings() {
    kubernetes::KubernetesSettings settings;
    settings.space = FakeCluster::kSpace;
    kubernetes::PoolSettings pool;
    pool.name = "default";
    pool.warm_pool = "python";
    pool.limit = limit_;
    settings.pools["default"] = pool;
    return settings;
  }

  void Start() {
    backend_ = std::make_unique<kubernetes::KubernetesBackend>(
        kubernetes::BackendParts{scheduler_, scope_, cluster_, dialer_, metrics_}, Settings());
    backend_->SetObserver(&observer_);
    cluster_.Watch(kubernetes::Claims(), &backend_->claims());
    cluster_.Watch(kubernetes::Sandboxes(), &backend_->sandboxes());
    cluster_.Watch(kubernetes::Pods(), &backend_->pods());
    cluster_.Watch(kubernetes::WarmPools(), &backend_->pools_feed());
    scope_.Spawn("start", backend_->Start());
    Run();
  }
  // Another process takes this one's place.
  void Restart() {
    backend_->LetGo();
    cluster_.Unwatch();
    Run();
    old_.push_back(std::move(backend_));
    observer_.said.clear();
    Start();
  }

  template <class T>
  std::shared_ptr<std::optional<T>> Begin(Task<T> task) {
    auto slot = std::make_shared<std::optional<T>>();
    scope_.Spawn("test", Keep(std::move(task), slot));
    scheduler_.RunPosted();
    return slot;
  }
  template <class T>
  T Get(Task<T> task) {
    const auto slot = Begin(std::move(task));
    EXPECT_TRUE(slot->has_value()) << "still waiting";
    return slot->has_value() ? **slot : T(absl::UnknownError("still waiting"));
  }

  broker::AcquireSpec Spec(broker::Fallback fallback = broker::Fallback::kColdOk) {
    broker::AcquireSpec spec;
    spec.fallback = fallback;
    spec.wait_bound = std::chrono::seconds(30);
    spec.claimant.tenant = "tenant";
    return spec;
  }
  std::shared_ptr<std::optional<Acquired>> BeginAcquire(const broker::AcquireSpec& spec) {
    return Begin(backend_->Acquire(spec, cancel_.token()));
  }
  std::string OnlyClaim() {
    const auto claims = cluster_.Claims();
    EXPECT_EQ(claims.size(), 1u);
    return claims.size() == 1 ? claims[0] : "";
  }
  void Run() { scheduler_.RunPosted(); }

  // A warm one, from first to last; answers its uid.
  std::string AcquireWarm(const std::string& member = "warm-1",
                          const std::string& ip = "10.0.0.1") {
    cluster_.AddMember("python", member, ip);
    Run();
    const auto before = cluster_.Claims();
    const auto acquired = BeginAcquire(Spec());
    for (const std::string& claim : cluster_.Claims()) {
      if (std::find(before.begin(), before.end(), claim) == before.end()) {
        cluster_.GiveMember(claim, member);
      }
    }
    Run();
    EXPECT_TRUE(acquired->has_value() && (*acquired)->ok());
    if (!acquired->has_value() || !(*acquired)->ok()) return "";
    return (**acquired)->uid;
  }
  broker::Claim Promise(Duration ttl = std::chrono::minutes(10)) {
    broker::Claim claim;
    claim.tenant = "tenant";
    claim.acquired = scheduler_.WallNow();
    claim.until = scheduler_.WallNow() + ttl;
    return claim;
  }
  absl::Status Remember(const std::string& uid, const broker::Claim& claim,
                        std::optional<broker::Claim> base = {}) {
    return Get(backend_->Remember(uid, claim, std::move(base)));
  }
  // Acquired and promised to a caller.
  std::string Bound() {
    const std::string uid = AcquireWarm();
    EXPECT_TRUE(Remember(uid, Promise()).ok());
    return uid;
  }

  ManualScheduler scheduler_;
  TaskScope scope_;
  FakeCluster cluster_;
  FakeDialer dialer_;
  obs::Metrics metrics_;
  RecordingBackendObserver observer_;
  CancelSource cancel_;
  uint32_t limit_ = 1000;
  std::vector<std::unique_ptr<kubernetes::KubernetesBackend>> old_;
  std::unique_ptr<kubernetes::KubernetesBackend> backend_;

 private:
  template <class T>
  static Task<void> Keep(Task<T> task, std::shared_ptr<std::optional<T>> slot) {
    T value = co_await std::move(task);
    slot->emplace(std::move(value));
  }
};

}  // namespace sandbroker::testing
