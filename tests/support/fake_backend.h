// A Backend that makes sandboxes out of FakeAgentLinks, and a ReceiptStore in memory: the parts
// around a Broker whose behaviour a test decides. Loop thread only, hooks included.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/broker/backend.h"
#include "lib/broker/receipt_store.h"
#include "tests/support/fake_agent_link.h"

namespace sandbroker::testing {

class FakeBackend final : public broker::Backend {
 public:
  // Sees each new link before the broker does.
  std::function<void(FakeAgentLink&)> on_link;
  // Acquire fails with it.
  std::optional<absl::Status> acquire_error;
  // Acquire waits in order until Grant, Drain or its cancellation.
  bool hold_acquires = false;
  // Answers Release with it; the sandbox stays.
  std::optional<absl::Status> release_error;
  // Answers Remember with it; nothing is kept.
  std::optional<absl::Status> remember_error;
  // Remember waits, in order, until FinishRemembering.
  bool hold_remembering = false;
  bool hold_releases = false;
  // Seek waits until FinishSeeks; then this is told of what is sought and may Adopt it.
  bool hold_seeks = false;
  std::function<void(const std::string& uid)> on_seek;

  // Lets the longest waiting Acquire go on. False: nobody waits.
  bool Grant();
  void FinishReleases();
  // Lets what waits in Remember go on.
  void FinishRemembering();
  void FinishSeeks();
  // As kept last; null when nothing was.
  const broker::Claim* claim(const std::string& uid) const;
  size_t remembered() const { return remembered_; }
  // A broker that finds a sandbox of an earlier one.
  std::shared_ptr<FakeAgentLink> Adopt(const std::string& uid, broker::Claim claim);
  size_t waiting() const;
  size_t acquired() const { return made_; }
  size_t released() const { return released_; }
  size_t releasing() const { return releasing_.size(); }
  size_t seeking() const { return seeking_.size(); }
  size_t live() const { return links_.size(); }
  // Null when it is gone.
  std::shared_ptr<FakeAgentLink> link(const std::string& uid) const;
  std::shared_ptr<FakeAgentLink> only_link() const;
  // The agent is gone for certain.
  void Kill(const std::string& uid, const std::string& cause);

  std::string name() const override { return "fake"; }
  std::string space() const override { return "local"; }
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
  std::vector<broker::PoolCapacity> Capacity() const override;
  void Drain() override;

 private:
  broker::Binding Make();

  broker::BackendObserver* observer_ = nullptr;
  std::map<std::string, std::shared_ptr<FakeAgentLink>> links_;  // by uid
  std::vector<OneShot<absl::Status>> waiting_;
  std::vector<OneShot<absl::Status>> releasing_;
  std::vector<OneShot<bool>> remembering_;
  std::vector<OneShot<bool>> seeking_;
  std::map<std::string, broker::Claim> claims_;  // by uid; stay after the sandbox
  size_t remembered_ = 0;
  size_t made_ = 0;
  size_t released_ = 0;
  bool draining_ = false;
};

class MemoryReceipts final : public broker::ReceiptStore {
 public:
  // Sees each write before it is made. What it answers, unless OK, is the write's answer, which is
  // made all the same when `lands` says so.
  std::function<absl::Status(const broker::Receipt& to_write)> on_write;
  bool lands = false;
  // Answers the next reads.
  std::optional<absl::Status> read_error;

  Task<absl::StatusOr<bool>> Create(std::string key, broker::Receipt receipt) override;
  Task<absl::StatusOr<std::optional<broker::Receipt>>> Read(std::string key) override;
  Task<absl::StatusOr<bool>> CompareAndSet(std::string key, std::string expected_token,
                                           broker::Receipt receipt) override;
  Task<absl::StatusOr<std::vector<std::string>>> List() override;
  Task<absl::StatusOr<bool>> Remove(std::string key, std::string expected_token) override;
  bool OwnerIsDead(const std::string& owner) const override { return owner == "dead"; }

  // As a test finds or leaves them.
  std::map<std::string, broker::Receipt>& all() { return receipts_; }

 private:
  // OK: go on. Otherwise the write's answer; `*skip` when it must not be made.
  absl::Status Judge(const broker::Receipt& receipt, bool* skip);

  std::map<std::string, broker::Receipt> receipts_;
};

}  // namespace sandbroker::testing
