// What several Brokers of one test share, as the API server is shared by replicas: claims that are
// written conditionally and read consistently, and for each replica a Backend with a view of its
// own, which follows the truth when the test says so. Every replica has a link of its own to a
// sandbox's agent. Loop thread only, hooks included.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/broker/backend.h"
#include "tests/support/fake_agent_link.h"

namespace sandbroker::testing {

class ReplicaBackend;

class SharedTruth {
 public:
  struct Object {
    std::string name;
    std::string pool;
    std::optional<broker::Claim> claim;  // none: nobody was told of it
    uint64_t version = 0;
  };

  // Null when it is gone.
  const Object* object(const std::string& uid) const;
  size_t live() const { return objects_.size(); }
  size_t made() const { return made_; }
  size_t deleted() const { return deleted_; }
  // Nobody's replica did it.
  void DeleteFromOutside(const std::string& uid);

 private:
  friend class ReplicaBackend;
  void Changed(const std::string& uid, const ReplicaBackend* by);

  std::map<std::string, Object> objects_;  // by uid
  std::vector<ReplicaBackend*> replicas_;
  size_t made_ = 0;
  size_t deleted_ = 0;
};

class ReplicaBackend final : public broker::Backend {
 public:
  explicit ReplicaBackend(SharedTruth& truth);
  ~ReplicaBackend() override;

  // What others did waits for Follow; otherwise it is seen at once.
  bool lags = false;
  void Follow();
  // Each waits, before it does anything, until Resume.
  bool hold_seeks = false;
  bool hold_rereads = false;
  bool hold_releases = false;
  bool hold_writes = false;
  void Resume();
  // Answers everything that asks or writes.
  std::optional<absl::Status> error;

  std::shared_ptr<FakeAgentLink> link(const std::string& uid) const;
  size_t seeks() const { return seeks_; }
  size_t rereads() const { return rereads_; }
  size_t writes() const { return writes_; }
  size_t refused_releases() const { return refused_releases_; }

  std::string name() const override { return "shared"; }
  std::string space() const override { return "sandboxes"; }
  std::vector<std::string> capabilities() const override { return {"task", "request_id"}; }
  std::vector<std::string> pools() const override { return {"default"}; }
  void SetObserver(broker::BackendObserver* observer) override { observer_ = observer; }
  Task<absl::StatusOr<broker::Binding>> Acquire(const broker::AcquireSpec& spec,
                                                CancelToken cancel) override;
  Task<absl::Status> Remember(std::string uid, broker::Claim claim,
                              std::optional<broker::Claim> base) override;
  Task<absl::Status> Release(const std::string& uid) override;
  Task<absl::StatusOr<bool>> ReleaseUnchanged(std::string uid, broker::Claim as_read) override;
  Task<absl::Status> Seek(std::string name, std::string uid) override;
  Task<absl::Status> SeekReceipt(std::string key) override;
  Task<absl::StatusOr<broker::Claim>> Reread(std::string uid) override;
  std::vector<broker::PoolCapacity> Capacity() const override { return {}; }
  void Drain() override {}

 private:
  friend class SharedTruth;
  struct Known {
    std::shared_ptr<FakeAgentLink> link;
    uint64_t version = 0;
  };

  Task<absl::Status> Wait(bool hold);
  std::shared_ptr<FakeAgentLink> Dial(const std::string& uid);
  // Brings this replica's view of one sandbox up to the truth, and tells its broker.
  void See(const std::string& uid);
  void Write(const std::string& uid, const broker::Claim& claim);
  void Delete(const std::string& uid);

  SharedTruth& truth_;
  broker::BackendObserver* observer_ = nullptr;
  std::map<std::string, Known> known_;  // by uid
  std::vector<std::string> unseen_;
  std::vector<OneShot<bool>> held_;
  size_t seeks_ = 0;
  size_t rereads_ = 0;
  size_t writes_ = 0;
  size_t refused_releases_ = 0;
};

}  // namespace sandbroker::testing
