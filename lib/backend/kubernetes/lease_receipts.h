// Receipts as Lease objects of coordination.k8s.io (docs/protocols.md B): one object a receipt, its
// text in an annotation, changed only under the resourceVersion at which the expected token was
// seen. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/scheduler.h"
#include "lib/broker/receipt_store.h"
#include "lib/kube/api.h"

namespace sandbroker::kubernetes {

class LeaseReceipts final : public broker::ReceiptStore {
 public:
  // `bound`: of one request.
  LeaseReceipts(Scheduler& scheduler, kube::Api& api, std::string space, Duration bound)
      : scheduler_(scheduler), api_(api), space_(std::move(space)), bound_(bound) {}

  Task<absl::StatusOr<bool>> Create(std::string key, broker::Receipt receipt) override;
  Task<absl::StatusOr<std::optional<broker::Receipt>>> Read(std::string key) override;
  Task<absl::StatusOr<bool>> CompareAndSet(std::string key, std::string expected_token,
                                           broker::Receipt receipt) override;
  Task<absl::StatusOr<std::vector<std::string>>> List() override;
  Task<absl::StatusOr<bool>> Remove(std::string key, std::string expected_token) override;
  // Nothing is known of other replicas' deaths: their deadlines are waited for.
  bool OwnerIsDead(const std::string&) const override { return false; }

 private:
  // A record as the server has shown it.
  struct Stored {
    broker::Receipt receipt;
    std::string uid;
    std::string version;
  };
  Task<absl::StatusOr<std::optional<Stored>>> Fetch(std::string key);
  // Of one's own last write while its token is still the expected one, else read.
  Task<absl::StatusOr<std::optional<Stored>>> Expected(std::string key, std::string token);
  void Keep(const std::string& key, Stored stored);
  boost::json::object ToLease(const std::string& key, const broker::Receipt& receipt) const;

  Scheduler& scheduler_;
  kube::Api& api_;
  const std::string space_;
  const Duration bound_;
  // What was written by this process and is likely to be written again, so that it need not be
  // read.
  std::map<std::string, Stored> own_;
  std::deque<std::string> own_order_;
};

}  // namespace sandbroker::kubernetes
