// What a new broker does with the sandboxes of a dead one: decided from what its record says,
// whether its processes live, and what answers at its socket. A record is never believed against
// the processes, and a process is never kept without a record. Pure.
#pragma once

namespace sandbroker::broker {

// What the record says. kUnreadable: torn, garbled, of another version, or not there at all.
enum class RecordPhase { kUnreadable, kStarting, kWarm, kClaimed };

struct Leftover {
  RecordPhase phase = RecordPhase::kUnreadable;
  // A process of it is there, for certain the same one (never just the same number).
  bool alive = false;
  // Its pool is one of this broker's.
  bool pool_served = false;
  // This broker would make it in the same way today.
  bool made_alike = false;
};

enum class LeftoverAction {
  kRemove,  // nothing lives: its folder goes, its uid is free
  kEnd,     // kill, wait, remove
  kDial,    // ask its agent for the proof
};

inline LeftoverAction DecideLeftover(const Leftover& found) {
  if (!found.alive) return LeftoverAction::kRemove;
  switch (found.phase) {
    case RecordPhase::kUnreadable:
    case RecordPhase::kStarting:  // nobody was told of it, and it may never come up
      return LeftoverAction::kEnd;
    case RecordPhase::kWarm:
      // A caller must not get what the configuration does not say any more.
      return found.pool_served && found.made_alike ? LeftoverAction::kDial : LeftoverAction::kEnd;
    case RecordPhase::kClaimed:
      // However it was made, its caller has it.
      return found.pool_served ? LeftoverAction::kDial : LeftoverAction::kEnd;
  }
  return LeftoverAction::kEnd;
}

enum class Adoption { kToPool, kToBroker, kEnd };

// `proven`: within the bound, the agent of the very process has shown that it knows the secret, and
// its boot id is the record's.
inline Adoption DecideAdoption(RecordPhase phase, bool proven) {
  if (!proven) return Adoption::kEnd;
  if (phase == RecordPhase::kWarm) return Adoption::kToPool;
  return phase == RecordPhase::kClaimed ? Adoption::kToBroker : Adoption::kEnd;
}

}  // namespace sandbroker::broker
