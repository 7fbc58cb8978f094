// Where receipts are kept. Create and CompareAndSet are atomic and durable when they answer. Loop
// thread; implementations do their blocking work elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/async/task.h"
#include "lib/broker/core/receipt.h"

namespace sandbroker::broker {

class ReceiptStore {
 public:
  virtual ~ReceiptStore() = default;
  // False: one exists already.
  virtual Task<absl::StatusOr<bool>> Create(std::string key, Receipt receipt) = 0;
  virtual Task<absl::StatusOr<std::optional<Receipt>>> Read(std::string key) = 0;
  // False: the record's token is not `expected_token` any more, or it is gone.
  virtual Task<absl::StatusOr<bool>> CompareAndSet(std::string key, std::string expected_token,
                                                   Receipt receipt) = 0;
  // Keys of all records, in no order.
  virtual Task<absl::StatusOr<std::vector<std::string>>> List() = 0;
  // False: its token is not `expected_token` any more, or it is gone.
  virtual Task<absl::StatusOr<bool>> Remove(std::string key, std::string expected_token) = 0;
  // The replica that wrote a record is known to have ended; its pending records may be taken over
  // at once. False when nothing is known.
  virtual bool OwnerIsDead(const std::string& owner) const = 0;
};

}  // namespace sandbroker::broker
