// Receipts (docs/protocols.md B): one record per (tenant, request_id) that makes a repeated
// Acquire meet its first result. This file holds the record, its text form, and what a caller that
// meets a record must do, and when a record may go. Pure; lib/backend/local/receipt_files.h keeps
// the records.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

struct Receipt {
  enum class State { kPending, kOpen, kBound, kEnded };
  State state = State::kPending;
  std::string body_hash;  // hex
  // Of whoever may bind it; unique, never a counter.
  std::string token;
  // Replica that wrote it; one that is known dead need not be waited for.
  std::string owner;
  // Until when its owner may still be at it; of an ended one, when it was found to be gone.
  WallTime deadline{};
  std::string uid;  // sandbox, once bound
};

// SHA-256 over tenant and request_id, hex: the record's name.
std::string ReceiptKey(const Principal& who, const std::string& request_id);
// SHA-256 over every field of the request but its id, hex.
std::string RequestHash(const AcquireSpec& spec);

// One line of "key=value" each; ParseReceipt refuses what FormatReceipt can't have made.
std::string FormatReceipt(const Receipt& receipt);
absl::StatusOr<Receipt> ParseReceipt(std::string_view text);

enum class Meeting {
  kCreate,  // nothing there: create pending with an own token
  kTake,    // compare-and-set to pending with an own token
  kWait,    // someone is at it
  kRepeat,  // bound: answer with its sandbox, or that it is gone
  kReused,  // another body under the same id
  kGone,    // its sandbox is gone for good
};

// `owner_dead`: the replica that wrote it is known to be gone.
Meeting Meet(const std::optional<Receipt>& found, const std::string& body_hash, WallTime now,
             bool owner_dead);

enum class Sweep {
  kKeep,
  kEnd,     // bound to a sandbox that is gone: compare-and-set to ended(now)
  kRemove,  // nobody can expect an answer from it any more
};

// `sandbox_alive`: of the record's uid. A record goes `retention` after its sandbox was found to be
// gone, or after its deadline if it never had one; a repeat after that is a new request.
Sweep DecideSweep(const Receipt& receipt, bool sandbox_alive, WallTime now, Duration retention);

}  // namespace sandbroker::broker
