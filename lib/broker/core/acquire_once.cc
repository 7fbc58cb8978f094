#include "lib/broker/core/acquire_once.h"

namespace sandbroker::broker {
namespace {

// A store that fails twice in a row is not asked again.
constexpr int kMaxUnknown = 2;

}  // namespace

void AcquireOnce::Go(Phase phase, Step step) {
  phase_ = phase;
  step_ = step;
}

void AcquireOnce::Fail(Failure failure) {
  failure_ = failure;
  step_ = Step::kFail;
}

void AcquireOnce::Change(Receipt::State state, const std::string& uid, const std::string& fresh) {
  expected_ = token_;
  record_.state = state;
  record_.uid = uid;
  record_.token = fresh;
}

void AcquireOnce::OnRead(const std::optional<Receipt>& found, WallTime now, bool owner_dead,
                         const std::string& fresh) {
  if (phase_ == Phase::kSettling) return Settle(found, fresh);
  if (unknown_ > 0 && found && found->token == token_) return Hold();  // written after all
  const Meeting meeting = Meet(found, body_hash_, now, owner_dead);
  switch (meeting) {
    case Meeting::kReused:
      return Fail(Failure::kReused);
    case Meeting::kGone:
      return Fail(Failure::kGone);
    case Meeting::kRepeat:
      uid_ = found->uid;
      return Go(Phase::kMeeting, Step::kRepeat);
    case Meeting::kWait:
      return Go(Phase::kMeeting, Step::kWait);
    case Meeting::kCreate:
    case Meeting::kTake:
      break;
  }
  // One that may still arrive is written again under its own token, so that both are the same.
  if (unknown_ == 0) token_ = fresh;
  record_ = {Receipt::State::kPending, body_hash_, token_, owner_, now + life_, ""};
  expected_ = found ? found->token : "";
  taken_over_ = found.has_value();
  Go(Phase::kTaking, meeting == Meeting::kCreate ? Step::kCreate : Step::kSwap);
}

// Whoever had the receipt before may have claimed a sandbox: it is used, not left to its lease.
void AcquireOnce::Hold() { Go(Phase::kHolding, taken_over_ ? Step::kAdopt : Step::kAcquire); }

void AcquireOnce::OnUnreadable() {
  // The sandbox may be what the record names: it is left to its lease.
  Fail(phase_ == Phase::kSettling ? Failure::kLost : Failure::kStore);
}

void AcquireOnce::OnSandbox(const std::string& uid, const std::string& fresh) {
  own_ = uid;
  Change(Receipt::State::kBound, uid, fresh);
  Go(Phase::kBinding, Step::kSwap);
}

void AcquireOnce::OnFailed(const std::string& uid, const std::string& fresh) {
  own_ = uid;
  Change(Receipt::State::kOpen, "", fresh);
  Go(Phase::kOpening, Step::kSwap);
}

void AcquireOnce::OnWrote(Wrote wrote) {
  const bool yes = wrote == Wrote::kYes;
  switch (phase_) {
    case Phase::kTaking:
      if (yes) return Hold();
      if (wrote == Wrote::kUnknown && ++unknown_ >= kMaxUnknown) return Fail(Failure::kStore);
      return Go(Phase::kMeeting, Step::kRead);
    case Phase::kBinding:
      if (yes) return Go(Phase::kBinding, Step::kAnswer);
      return Go(Phase::kSettling, Step::kRead);
    case Phase::kOpening:
      // Lost: whoever took the receipt over may have taken the sandbox along.
      if (yes && !own_.empty()) return Go(Phase::kOpening, Step::kDestroy);
      return Fail(Failure::kNoSandbox);
    case Phase::kGivingUp:
      // Won: the late write of the binding can't land any more.
      if (yes) return Go(Phase::kGivingUp, Step::kDestroy);
      if (wrote == Wrote::kUnknown) return Fail(Failure::kLost);
      return Go(Phase::kSettling, Step::kRead);
    case Phase::kMeeting:
    case Phase::kHolding:
    case Phase::kSettling:
      return;  // no write is asked for there
  }
}

// Refused or unknown: only what the record says now counts, never what this call remembers.
void AcquireOnce::Settle(const std::optional<Receipt>& found, const std::string& fresh) {
  const bool bound = found && found->state == Receipt::State::kBound;
  if (bound && found->uid == own_) return Go(Phase::kSettling, Step::kAnswer);
  if (found && found->token == token_) {
    Change(Receipt::State::kOpen, "", fresh);
    return Go(Phase::kGivingUp, Step::kSwap);
  }
  if (bound || (found && found->state == Receipt::State::kEnded)) {
    // For ever another's.
    if (bound) uid_ = found->uid;
    return Go(Phase::kSettling, Step::kDestroy);
  }
  // Taken over, and not bound yet: the other may have put its token on this sandbox, or may be
  // about to. What it leaves is its lease's.
  Fail(Failure::kLost);
}

void AcquireOnce::OnDestroyed() {
  if (!uid_.empty()) {
    step_ = Step::kRepeat;
    return;
  }
  Fail(phase_ == Phase::kOpening ? Failure::kNoSandbox : Failure::kLost);
}

}  // namespace sandbroker::broker
