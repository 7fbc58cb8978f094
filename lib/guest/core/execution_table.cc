#include "lib/guest/core/execution_table.h"

#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::guest {
namespace {

absl::Status Expired(const std::string& id) {
  return MakeError(Reason::kExecutionExpired,
                   StrCat("execution ", id, " has ended and its output was dropped"));
}

}  // namespace

absl::Status ExecutionTable::CheckBootId(const std::string& boot_id) const {
  if (boot_id.empty() || boot_id == boot_id_) return absl::OkStatus();
  return MakeError(Reason::kIncarnationChanged,
                   StrCat("the sandbox runs as ", boot_id_, ", not as ", boot_id));
}

void ExecutionTable::ForgetOldTombstones(Time now) {
  while (!tombstone_ends_.empty() && tombstone_ends_.front().first <= now) {
    tombstones_.erase(tombstone_ends_.front().second);
    tombstone_ends_.pop_front();
  }
}

absl::StatusOr<ExecutionTable::Admission> ExecutionTable::Admit(const StartKey& key, Time now) {
  ForgetOldTombstones(now);
  SANDBROKER_RETURN_IF_ERROR(CheckBootId(key.boot_id));
  const auto it = known_.find(key.execution_id);
  if (it != known_.end()) {
    if (it->second.spec_hash == key.spec_hash) return Admission::kAttach;
    return MakeError(Reason::kExecutionIdReused,
                     StrCat("execution ", key.execution_id, " was started with other fields"));
  }
  if (tombstones_.count(key.execution_id) != 0) return guest::Expired(key.execution_id);
  if (full()) {
    return MakeError(Reason::kCapacity,
                     StrCat("the sandbox knows ", known_.size(), " executions already"));
  }
  if (tombstones_.size() >= limits_.max_tombstones) {
    return MakeError(Reason::kCapacity, StrCat("the sandbox remembers ", tombstones_.size(),
                                               " ended executions already"));
  }
  return Admission::kCreate;
}

absl::Status ExecutionTable::Find(const std::string& execution_id, const std::string& boot_id,
                                  Time now) {
  ForgetOldTombstones(now);
  SANDBROKER_RETURN_IF_ERROR(CheckBootId(boot_id));
  if (known_.count(execution_id) != 0) return absl::OkStatus();
  if (tombstones_.count(execution_id) != 0) return guest::Expired(execution_id);
  return MakeError(Reason::kExecutionNotFound, StrCat("no execution ", execution_id));
}

void ExecutionTable::Add(const StartKey& key, bool keep_tombstone) {
  Known known;
  known.spec_hash = key.spec_hash;
  known.keep_tombstone = keep_tombstone;
  SANDBROKER_CHECK(known_.emplace(key.execution_id, std::move(known)).second);
}

void ExecutionTable::OnEnded(const std::string& execution_id, Time now) {
  const auto it = known_.find(execution_id);
  SANDBROKER_CHECK(it != known_.end() && !it->second.ended_at);
  it->second.ended_at = now;
  ++ended_;
}

void ExecutionTable::SetDroppable(const std::string& execution_id, Time from) {
  const auto it = known_.find(execution_id);
  SANDBROKER_CHECK(it != known_.end());
  if (it->second.droppable_from != kNever) {
    droppable_.erase({it->second.droppable_from, execution_id});
  }
  it->second.droppable_from = from;
  if (from != kNever) droppable_.emplace(from, execution_id);
}

std::optional<std::string> ExecutionTable::Victim(Time now) const {
  for (const auto& [from, id] : droppable_) {
    if (from > now) break;
    if (known_.at(id).ended_at) return id;
  }
  return std::nullopt;
}

std::vector<std::string> ExecutionTable::Expired(Time now) const {
  std::vector<std::string> expired;
  for (const auto& [from, id] : droppable_) {
    if (from > now) break;
    const Known& known = known_.at(id);
    if (known.ended_at && SaturatingAdd(*known.ended_at, limits_.retention) <= now) {
      expired.push_back(id);
    }
  }
  return expired;
}

void ExecutionTable::Drop(const std::string& execution_id, Time now) {
  const auto it = known_.find(execution_id);
  SANDBROKER_CHECK(it != known_.end() && it->second.ended_at);
  SetDroppable(execution_id, kNever);
  if (it->second.keep_tombstone) {
    tombstones_.insert(execution_id);
    tombstone_ends_.emplace_back(SaturatingAdd(now, limits_.tombstone_life), execution_id);
  }
  --ended_;
  known_.erase(it);
}

}  // namespace sandbroker::guest
