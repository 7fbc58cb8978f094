// Protocol D: which execution ids are known, running, ended or only remembered, so that a repeated
// start never runs twice; and which ended ones are dropped first. Holds no execution itself. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"

namespace sandbroker::guest {

class ExecutionTable {
 public:
  struct Limits {
    size_t max_executions = 4096;
    size_t max_tombstones = 65536;
    Duration tombstone_life = std::chrono::hours(24);
    // Output of an ended execution is kept this long.
    Duration retention = std::chrono::minutes(10);
  };
  ExecutionTable(std::string boot_id, const Limits& limits)
      : boot_id_(std::move(boot_id)), limits_(limits) {}

  struct StartKey {
    std::string execution_id;
    std::string spec_hash;
    std::string boot_id;  // empty = the caller expects none in particular
  };
  enum class Admission { kCreate, kAttach };
  // INCARNATION_CHANGED, EXECUTION_ID_REUSED, EXECUTION_EXPIRED or CAPACITY.
  absl::StatusOr<Admission> Admit(const StartKey& key, Time now);
  // OK when known; EXECUTION_EXPIRED, INCARNATION_CHANGED or EXECUTION_NOT_FOUND.
  absl::Status Find(const std::string& execution_id, const std::string& boot_id, Time now);

  // After kCreate. `keep_tombstone` false: the id was made for one call and is never repeated.
  void Add(const StartKey& key, bool keep_tombstone);
  void OnEnded(const std::string& execution_id, Time now);
  // An ended execution that nobody attaches to may be dropped from `from` on; kNever while a
  // stream is attached.
  void SetDroppable(const std::string& execution_id, Time from);

  // The ended execution to drop first when room is wanted now.
  std::optional<std::string> Victim(Time now) const;
  // Ended executions whose retention is over.
  std::vector<std::string> Expired(Time now) const;
  // It becomes a tombstone.
  void Drop(const std::string& execution_id, Time now);

  bool full() const { return known_.size() >= limits_.max_executions; }
  size_t known() const { return known_.size(); }
  size_t ended() const { return ended_; }
  size_t tombstones() const { return tombstones_.size(); }

 private:
  struct Known {
    std::string spec_hash;
    bool keep_tombstone = true;
    std::optional<Time> ended_at;
    Time droppable_from = kNever;
  };
  absl::Status CheckBootId(const std::string& boot_id) const;
  void ForgetOldTombstones(Time now);

  const std::string boot_id_;
  const Limits limits_;
  std::map<std::string, Known> known_;
  size_t ended_ = 0;
  std::set<std::pair<Time, std::string>> droppable_;
  std::set<std::string> tombstones_;
  std::deque<std::pair<Time, std::string>> tombstone_ends_;  // in order
};

}  // namespace sandbroker::guest
