// Receipts as files of the state directory: written to a temporary, fsynced, and put in place by
// link() (create) or rename() (change), so that a record is there whole or not at all. One broker
// holds the directory's lock; within it a mutex makes compare-and-set atomic.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/blocking_pool.h"
#include "lib/broker/receipt_store.h"

namespace sandbroker::local {

// The blocking part. Any thread.
class ReceiptFiles {
 public:
  explicit ReceiptFiles(std::string directory) : directory_(std::move(directory)) {}

  absl::Status MakeDirectory();
  absl::StatusOr<bool> Create(const std::string& key, const broker::Receipt& receipt);
  absl::StatusOr<std::optional<broker::Receipt>> Read(const std::string& key);
  absl::StatusOr<bool> CompareAndSet(const std::string& key, const std::string& expected_token,
                                     const broker::Receipt& receipt);
  // Keys of all records. Removes temporaries that a dead broker left.
  absl::StatusOr<std::vector<std::string>> List();
  absl::StatusOr<bool> Remove(const std::string& key, const std::string& expected_token);

 private:
  std::string PathOf(const std::string& key) const;
  // Writes and fsyncs a temporary; answers its path.
  absl::StatusOr<std::string> WriteTemporary(const std::string& key, const std::string& text);
  absl::Status SyncDirectory();

  const std::string directory_;
  std::mutex mutex_;
};

// On the loop, over a blocking pool.
class FileReceiptStore final : public broker::ReceiptStore {
 public:
  // `replica_id` is this process's: with the directory locked, any other owner is dead.
  FileReceiptStore(ReceiptFiles& files, BlockingPool& blocking, std::string replica_id)
      : files_(files), blocking_(blocking), replica_id_(std::move(replica_id)) {}

  Task<absl::StatusOr<bool>> Create(std::string key, broker::Receipt receipt) override;
  Task<absl::StatusOr<std::optional<broker::Receipt>>> Read(std::string key) override;
  Task<absl::StatusOr<bool>> CompareAndSet(std::string key, std::string expected_token,
                                           broker::Receipt receipt) override;
  Task<absl::StatusOr<std::vector<std::string>>> List() override;
  Task<absl::StatusOr<bool>> Remove(std::string key, std::string expected_token) override;
  bool OwnerIsDead(const std::string& owner) const override { return owner != replica_id_; }

 private:
  ReceiptFiles& files_;
  BlockingPool& blocking_;
  const std::string replica_id_;
};

}  // namespace sandbroker::local
