// Protocol B as one call with a request_id walks it (docs/protocols.md B): which record to read or
// write next, when to take a sandbox, and what to answer when a write was refused or nobody knows
// whether it happened. Every event names the next step; the shell does it. Pure;
// Broker::AcquireWithReceipt acts, the model (receipt_model_test.cc) plays all interleavings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/clock.h"
#include "lib/broker/core/receipt.h"

namespace sandbroker::broker {

class AcquireOnce {
 public:
  enum class Step {
    kRead,     // the record: OnRead or OnUnreadable
    kWait,     // until it may have changed: OnWoken
    kCreate,   // record(), if there is none: OnWrote
    kSwap,     // expected() by record(), compare-and-set: OnWrote
    kAdopt,    // put token() on what an earlier try has claimed: OnSandbox, OnFailed or OnNothing
    kAcquire,  // a sandbox, with token() on it: OnSandbox or OnFailed
    kDestroy,  // own(), which no record can name, if token() is still on it: OnDestroyed
    kAnswer,   // with the own sandbox
    kRepeat,   // answer with the sandbox uid()
    kFail,     // answer with failure()
  };
  enum class Failure {
    kNone,
    kReused,     // another body under this request_id
    kGone,       // its sandbox is gone for good
    kStore,      // the store's own error
    kNoSandbox,  // the acquire's own error
    kLost,       // the receipt could not be written; the same request again will do
  };
  enum class Wrote { kYes, kNo, kUnknown };

  // `life`: how long others wait for this call before they take the receipt over.
  AcquireOnce(std::string body_hash, std::string owner, Duration life)
      : body_hash_(std::move(body_hash)), owner_(std::move(owner)), life_(life) {}

  Step step() const { return step_; }
  // For kCreate and kSwap.
  const Receipt& record() const { return record_; }
  const std::string& expected() const { return expected_; }
  const std::string& uid() const { return uid_; }
  // Of the sandbox taken by this call, and the token it holds the receipt under.
  const std::string& own() const { return own_; }
  const std::string& token() const { return token_; }
  Failure failure() const { return failure_; }
  // Nothing of the call's own is in the record or may get there.
  bool meeting() const { return phase_ == Phase::kMeeting && unknown_ == 0; }

  // `fresh` is a token that nobody has used. `owner_dead`: see Meet.
  void OnRead(const std::optional<Receipt>& found, WallTime now, bool owner_dead,
              const std::string& fresh);
  void OnUnreadable();
  void OnWoken() { step_ = Step::kRead; }
  void OnWrote(Wrote wrote);
  void OnSandbox(const std::string& uid, const std::string& fresh);
  // There is no sandbox, or `uid` was taken and can't be handed out; it is not destroyed yet.
  void OnFailed(const std::string& uid, const std::string& fresh);
  // There is nothing to adopt.
  void OnNothing() { step_ = Step::kAcquire; }
  void OnDestroyed();

  // What tells two calls apart that ask for the same step.
  enum class Phase { kMeeting, kTaking, kHolding, kBinding, kSettling, kOpening, kGivingUp };
  Phase phase() const { return phase_; }
  int unknown() const { return unknown_; }

 private:
  void Settle(const std::optional<Receipt>& found, const std::string& fresh);
  void Go(Phase phase, Step step);
  void Hold();
  void Fail(Failure failure);
  // The record as this call would change it from its own pending one.
  void Change(Receipt::State state, const std::string& uid, const std::string& fresh);

  std::string body_hash_;
  std::string owner_;
  Duration life_;
  Phase phase_ = Phase::kMeeting;
  Step step_ = Step::kRead;
  Failure failure_ = Failure::kNone;
  Receipt record_;
  std::string expected_;
  std::string token_;  // under which the receipt is, or is to be, pending for this call
  std::string own_;
  std::string uid_;
  bool taken_over_ = false;
  int unknown_ = 0;  // writes of `pending` whose outcome nobody knows
};

}  // namespace sandbroker::broker
