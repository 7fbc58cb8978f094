// Two Brokers over one truth, as two replicas over one API server.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lib/base/status.h"
#include "tests/component/broker_fixture.h"
#include "tests/support/shared_truth.h"

namespace sandbroker::testing {

// One of the two. Dies without a word.
struct Replica {
  Replica(Scheduler& scheduler, TaskScope& scope, SharedTruth& truth, MemoryReceipts& receipts,
          const broker::BrokerSettings& settings)
      : backend(truth),
        broker(std::make_unique<broker::Broker>(scheduler, scope, backend, receipts, metrics,
                                                settings)) {}

  obs::Metrics metrics;
  ReplicaBackend backend;
  std::unique_ptr<broker::Broker> broker;
};

class BrokerReplicas : public TaskFixture {
 protected:
  BrokerReplicas() {
    a_ = Make("a");
    b_ = Make("b");
  }
  ~BrokerReplicas() override { JoinTasks(); }

  std::unique_ptr<Replica> Make(const std::string& id) {
    broker::BrokerSettings settings = Settings(id);
    settings.look_jitter = std::chrono::seconds(3);
    return std::make_unique<Replica>(scheduler_, scope_, truth_, receipts_, settings);
  }

  static broker::AcquireSpec Short(const std::string& request_id = "") {
    broker::AcquireSpec spec;
    spec.lease.ttl = std::chrono::seconds(30);  // until 40 s, looked at from 45 s on
    spec.request_id = request_id;
    return spec;
  }
  static broker::AcquireSpec WithId(const std::string& request_id) {
    broker::AcquireSpec spec;
    spec.request_id = request_id;
    return spec;
  }
  absl::StatusOr<broker::Acquired> Acquire(Replica& on, broker::AcquireSpec spec = {}) {
    return Get(on.broker->Acquire(me_, std::move(spec), CancelToken()));
  }
  std::string AcquireHandle(Replica& on, broker::AcquireSpec spec = {}) {
    const auto acquired = Acquire(on, std::move(spec));
    EXPECT_TRUE(acquired.ok()) << acquired.status();
    return acquired.ok() ? acquired->sandbox.handle : "";
  }
  // As a service does it.
  absl::Status Look(Replica& on, const std::string& handle) {
    if (on.broker->Unsettled(me_, handle)) {
      const absl::Status settled = Get(on.broker->Settle(me_, handle, CancelToken()));
      if (!settled.ok()) return settled;
    }
    return on.broker->Get(me_, handle).status();
  }
  absl::Status Renew(Replica& on, const std::string& handle) {
    return Get(on.broker->Renew(me_, {handle}))[0].status;
  }
  WallTime Expiry(Replica& on, const std::string& handle) {
    const auto view = on.broker->Get(me_, handle);
    EXPECT_TRUE(view.ok()) << view.status();
    return view.ok() ? view->lease.expire : WallTime();
  }
  void Start(Replica& on, const std::string& handle, RecordingObserver* observer) {
    broker::StartSpec spec;
    spec.handle = handle;
    spec.start.set_execution_id("e1");
    spec.start.add_argv("prog");
    const auto execution = on.broker->Start(me_, spec, observer);
    ASSERT_TRUE(execution.ok()) << execution.status();
    observer->execution = *execution;
  }
  void Kill(std::unique_ptr<Replica>* replica) {
    (*replica)->broker->Drain();
    (*replica)->broker->LetGo();
    replica->reset();
  }

  SharedTruth truth_;
  MemoryReceipts receipts_;
  std::unique_ptr<Replica> a_;
  std::unique_ptr<Replica> b_;
};

}  // namespace sandbroker::testing
