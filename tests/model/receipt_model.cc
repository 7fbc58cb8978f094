#include "tests/model/receipt_model.h"

#include <map>

#include "lib/base/strings.h"

namespace sandbroker::model {
namespace {

using Step = AcquireOnce::Step;
using Phase = AcquireOnce::Phase;
using Wrote = AcquireOnce::Wrote;
using State = Receipt::State;

constexpr WallTime kNeverOver{std::chrono::hours(1000)};

std::string SandboxOf(int call) { return StrCat("s", call); }
size_t CallOf(const std::string& uid) { return static_cast<size_t>(uid[1] - '0'); }

}  // namespace

ReceiptModel::ReceiptModel(const ReceiptBounds& bounds, Rule off)
    : bounds_(bounds),
      off_(off),
      calls_(static_cast<size_t>(bounds.calls)),
      sandboxes_(static_cast<size_t>(bounds.calls)) {
  used_.crashes = used_.unknowns = used_.unreadable = 0;
  used_.ticks = used_.dry = used_.reaps = used_.leaves = 0;
}

std::string ReceiptModel::OwnerOf(int call) const {
  return bounds_.local ? StrCat("broker", generation_) : StrCat("r", ReplicaOf(call));
}

bool ReceiptModel::Faultless() const {
  return used_.crashes + used_.unknowns + used_.unreadable + used_.ticks + used_.dry + used_.reaps +
             used_.leaves ==
         0;
}

std::string ReceiptModel::Fresh(int call) {
  if (Off(Rule::kTokensAreUnique)) return StrCat("t", ReplicaOf(call));
  return StrCat("t", ++minted_);
}

void ReceiptModel::Break(const std::string& what) const {
  if (violation_.empty()) violation_ = what;
}

const ReceiptModel::Call* ReceiptModel::HolderOf(const std::string& token) const {
  for (const Call& call : calls_) {
    if (call.status != Status::kIdle && call.machine.token() == token) return &call;
  }
  return nullptr;
}

std::vector<ReceiptModel::Action> ReceiptModel::Actions() const {
  std::vector<Action> actions;
  const auto add = [&actions](Action::Kind kind, size_t who, How how = kWell) {
    actions.push_back({kind, static_cast<uint8_t>(who), static_cast<uint8_t>(how)});
  };
  bool started_all_before = true;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    if (call.status == Status::kIdle) {
      // Calls that have not begun are alike: in order.
      if (started_all_before) add(Action::kStart, i);
      started_all_before = false;
    }
    if (call.status != Status::kActive) continue;
    const Step step = call.machine.step();
    add(Action::kStep, i, kWell);
    if ((step == Step::kRead && used_.unreadable < bounds_.unreadable) ||
        (step == Step::kWait && used_.leaves < bounds_.leaves) ||
        ((step == Step::kAcquire || step == Step::kAdopt) && used_.dry < bounds_.dry)) {
      add(Action::kStep, i, kBadly);
    } else if ((step == Step::kCreate || step == Step::kSwap) &&
               used_.unknowns < bounds_.unknowns) {
      for (const How how : {kMadeUnanswered, kNotMade, kMadeLater}) add(Action::kStep, i, how);
    }
  }
  for (size_t i = 0; i < late_.size(); ++i) add(Action::kLand, i);
  if (used_.crashes < bounds_.crashes) {
    for (int r = 0; r < (bounds_.local ? 1 : bounds_.replicas); ++r) {
      add(Action::kCrash, static_cast<size_t>(r));
    }
  }
  if (used_.ticks < bounds_.ticks) add(Action::kTick, 0);
  if (used_.reaps < bounds_.reaps) {
    for (size_t i = 0; i < sandboxes_.size(); ++i) {
      if (sandboxes_[i].alive) add(Action::kReap, i);
    }
  }
  return actions;
}

void ReceiptModel::Do(const Action& action) {
  switch (action.kind) {
    case Action::kStart:
      Start(action.who);
      break;
    case Action::kStep:
      Advance(action.who, static_cast<How>(action.how));
      break;
    case Action::kLand: {
      const LateWrite write = late_[action.who];
      late_.erase(late_.begin() + action.who);
      Write(write.create, write.expected, write.record);
      break;
    }
    case Action::kCrash:
      Crash(action.who);
      break;
    case Action::kTick:
      ++used_.ticks;
      ++now_;
      break;
    case Action::kReap:
      ++used_.reaps;
      sandboxes_[action.who].alive = false;
      break;
  }
  Check();
}

void ReceiptModel::Start(int index) {
  Call& call = calls_[static_cast<size_t>(index)];
  call.status = Status::kActive;
  call.body = bounds_.other_body && index == bounds_.calls - 1 ? "b" : "a";
  call.owner = OwnerOf(index);
  // Others wait for one tick.
  call.machine = AcquireOnce(call.body, call.owner, std::chrono::seconds(1));
}

void ReceiptModel::Crash(int replica) {
  ++used_.crashes;
  if (bounds_.local) ++generation_;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].status == Status::kActive && ReplicaOf(static_cast<int>(i)) == replica) {
      calls_[i].status = Status::kDead;
    }
  }
}

void ReceiptModel::Advance(int index, How how) {
  Call& call = calls_[static_cast<size_t>(index)];
  switch (call.machine.step()) {
    case Step::kRead:
      if (how == kBadly) {
        ++used_.unreadable;
        return call.machine.OnUnreadable();
      }
      return Read(index);
    case Step::kWait:
      if (record_ && (record_->token == call.machine.token() || record_->token == call.forgotten)) {
        return Break("a call waits for itself");
      }
      if (how == kWell) return call.machine.OnWoken();
      ++used_.leaves;
      call.status = Status::kFailed;
      return;
    case Step::kCreate:
    case Step::kSwap:
      return WriteStep(index, how);
    case Step::kAdopt:
      if (!call.holds && how == kWell) return Adopt(index);
      return TakeStep(index, how);
    case Step::kAcquire:
      return TakeStep(index, how);
    case Step::kDestroy:
      if (!Off(Rule::kOwnIsDestroyed)) EndOwn(index);
      return call.machine.OnDestroyed();
    case Step::kAnswer:
      return Answer(index, call.machine.own());
    case Step::kRepeat:
      return Answer(index, call.machine.uid());
    case Step::kFail: {
      call.status = call.machine.failure() == AcquireOnce::Failure::kReused ||
                            call.machine.failure() == AcquireOnce::Failure::kGone
                        ? Status::kGone
                        : Status::kFailed;
      if (call.status == Status::kFailed && Faultless()) Break("it fails though nothing failed");
      return;
    }
  }
}

// What the call is shown of the record, as the rules that are switched off would see it.
std::optional<Receipt> ReceiptModel::Shown(int index) const {
  const Call& call = calls_[static_cast<size_t>(index)];
  std::optional<Receipt> found = record_;
  if (!found) return found;
  if (call.machine.phase() == Phase::kSettling) {
    if (Off(Rule::kReadAgainWhenRefused)) {
      found->state = State::kBound;
      found->uid = SandboxOf(index);
    }
    // Its own pending record looks like one that is over.
    if (Off(Rule::kLateWriteIsShutOut) && found->token == call.machine.token()) {
      found->token = "?";
      found->state = State::kEnded;
    }
    if (Off(Rule::kOnlyBoundToAnotherEndsIt) && found->token != call.machine.token() &&
        found->state != State::kBound) {
      found->state = State::kEnded;
    }
    return found;
  }
  if (Off(Rule::kBodyIsCompared)) found->body_hash = call.body;
  const bool gone = found->state == State::kBound && !sandboxes_[CallOf(found->uid)].alive;
  if (Off(Rule::kGoneIsNeverReplaced) && gone) found->state = State::kOpen;
  if (Off(Rule::kBoundIsRepeated) && found->state == State::kBound) found->state = State::kOpen;
  if (Off(Rule::kOpenIsFree) && found->state == State::kOpen) {
    found->state = State::kPending;
    found->deadline = kNeverOver;
  } else if (Off(Rule::kPendingIsWaitedFor) && found->state == State::kPending) {
    found->state = State::kOpen;
  }
  if (Off(Rule::kDeadlineFreesIt)) found->deadline = kNeverOver;
  return found;
}

void ReceiptModel::Read(int index) {
  Call& call = calls_[static_cast<size_t>(index)];
  if (Off(Rule::kSameTokenAgain) && call.machine.unknown() > 0 &&
      call.machine.phase() == Phase::kMeeting) {
    call.forgotten = call.machine.token();
    call.machine = AcquireOnce(call.body, call.owner, std::chrono::seconds(1));
  }
  const std::optional<Receipt> found = Shown(index);
  const bool dead =
      bounds_.local && found && found->owner != OwnerOf(index) && !Off(Rule::kDeadOwnerFreesIt);
  call.machine.OnRead(found, Now(), dead, Fresh(index));
}

bool ReceiptModel::Write(bool create, const std::string& expected, const Receipt& record) {
  if (create && record_ && !Off(Rule::kCreateIsExclusive)) return false;
  if (!create) {
    if (!record_) return false;
    if (record_->token != expected && !Off(Rule::kChangesCompareTokens)) return false;
  }
  record_ = record;
  return true;
}

void ReceiptModel::WriteStep(int index, How how) {
  AcquireOnce& machine = calls_[static_cast<size_t>(index)].machine;
  const bool create = machine.step() == Step::kCreate;
  const bool skipped = (Off(Rule::kBoundBeforeAnswer) && machine.phase() == Phase::kBinding) ||
                       (Off(Rule::kOpenedAfterFailure) && machine.phase() == Phase::kOpening);
  if (skipped) return machine.OnWrote(Wrote::kYes);
  const bool giving_up = machine.phase() == Phase::kGivingUp;
  bool made = false;
  if (how == kWell || how == kMadeUnanswered) {
    made = Write(create, machine.expected(), machine.record());
  } else if (how == kMadeLater) {
    late_.push_back({create, machine.expected(), machine.record()});
  }
  if (how == kWell) {
    if (!made && giving_up && Off(Rule::kRefusedOpeningLooksAgain)) made = true;
    return machine.OnWrote(made ? Wrote::kYes : Wrote::kNo);
  }
  ++used_.unknowns;
  const bool rash = giving_up && Off(Rule::kUnknownOpeningKeepsIt);
  machine.OnWrote(rash ? Wrote::kYes : Wrote::kUnknown);
}

void ReceiptModel::Adopt(int index) {
  Call& call = calls_[static_cast<size_t>(index)];
  for (size_t i = 0; i < sandboxes_.size(); ++i) {
    if (!sandboxes_[i].alive || Off(Rule::kLeftoverIsAdopted)) continue;
    if (!Off(Rule::kStampedBeforeBinding)) sandboxes_[i].stamp = call.machine.token();
    call.holds = true;
    call.answer = SandboxOf(static_cast<int>(i));
    return;
  }
  call.machine.OnNothing();
}

// First it has one, then it knows whether it can be used.
void ReceiptModel::TakeStep(int index, How how) {
  Call& call = calls_[static_cast<size_t>(index)];
  Sandbox& fresh = sandboxes_[static_cast<size_t>(index)];
  if (!call.holds && how == kWell) {
    fresh = {true, true, false, call.machine.token()};
    call.holds = true;
    call.answer = SandboxOf(index);
    return;
  }
  const std::string uid = call.answer;
  call.answer.clear();
  if (how == kWell) return call.machine.OnSandbox(uid, Fresh(index));
  ++used_.dry;
  call.machine.OnFailed(uid, Fresh(index));
  if (Off(Rule::kOpenedBeforeDestroyed) && !uid.empty()) EndOwn(index);
}

void ReceiptModel::EndOwn(int index) {
  const AcquireOnce& machine = calls_[static_cast<size_t>(index)].machine;
  Sandbox& own = sandboxes_[CallOf(machine.own())];
  if (own.stamp != machine.token() && !Off(Rule::kStampIsTested)) return;
  if (own.alive) own.alive = false, own.ended_by_call = true;
}

void ReceiptModel::Answer(int index, const std::string& uid) {
  Call& call = calls_[static_cast<size_t>(index)];
  call.answer = uid;
  call.status = sandboxes_[CallOf(uid)].alive ? Status::kAnswered : Status::kGone;
  if (!record_ || record_->state != State::kBound || record_->uid != uid) {
    Break("an answer that no record holds");
  } else if (record_->body_hash != call.body) {
    Break("another body is answered");
  }
}

void ReceiptModel::Check() {
  const bool bound = record_ && record_->state == State::kBound;
  if (bound && bound_.empty()) bound_ = record_->uid;
  if (!bound_.empty() && (!bound || record_->uid != bound_)) Break("a bound receipt has changed");
  std::string told;
  for (const Call& call : calls_) {
    if (call.status != Status::kAnswered) continue;
    if (!told.empty() && told != call.answer) Break("two sandboxes for one request");
    told = call.answer;
    if (told != bound_) Break("an answer is contradicted");
  }
  if (bound && sandboxes_[CallOf(bound_)].ended_by_call) {
    Break("a call has ended the sandbox that the record names");
  }
  if (violation_.empty()) CheckQuiet();
  if (violation_.empty()) CheckNobodyIsBlocked();
}

// Once every call is over: nothing is left but what the record names.
void ReceiptModel::CheckQuiet() {
  for (const Call& call : calls_) {
    if (call.status == Status::kActive) return;
  }
  if (used_.unknowns + used_.unreadable > 0) return;  // then the lease takes it
  // What a dead call had is the next one's on a local backend, or its lease's. So is what a call
  // had that was taken for dead.
  const bool bound = record_ && record_->state == State::kBound;
  if (used_.ticks > 0 || (used_.crashes > 0 && !(bounds_.local && bound))) return;
  for (size_t i = 0; i < sandboxes_.size(); ++i) {
    if (!sandboxes_[i].alive) continue;
    if (!bound || record_->uid != SandboxOf(static_cast<int>(i))) Break("a sandbox is left over");
  }
}

// A new call, alone from here on, gets its answer; it waits for a deadline only when the call that
// holds the receipt may be at it or has died where nobody can know.
void ReceiptModel::CheckNobodyIsBlocked() const {
  if (bounds_.other_body) return;
  ReceiptModel world = *this;
  world.late_.clear();
  world.calls_.emplace_back();
  world.sandboxes_.emplace_back();
  const int index = static_cast<int>(world.calls_.size()) - 1;
  world.Start(index);
  Call& call = world.calls_.back();
  for (int step = 0; step < 30 && call.status == Status::kActive; ++step) {
    if (call.machine.step() == Step::kWait) {
      const Call* holder = HolderOf(world.record_->token);
      const bool may_be_at_it =
          holder != nullptr && (holder->status == Status::kActive ||
                                (holder->status == Status::kDead && !bounds_.local));
      if (!may_be_at_it && used_.unknowns + used_.unreadable == 0) {
        return Break("it waits for a call that is over");
      }
      ++world.now_;
    }
    world.Advance(index, kWell);
  }
  const bool gone = call.status == Status::kGone;
  const bool well = call.status == Status::kAnswered || (gone && used_.reaps > 0);
  if (!world.violation_.empty()) Break(StrCat("a new call: ", world.violation_));
  if (!well) Break("a new call is never answered");
}

}  // namespace sandbroker::model
