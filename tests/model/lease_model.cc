#include "tests/model/lease_model.h"

#include <algorithm>
#include <utility>

namespace sandbroker::model {
namespace {

using std::chrono::seconds;

constexpr int kTtl = 3;
constexpr int kBackstop = 4;  // beyond the lease
constexpr int kSlack = 1;     // what a look or a write may take

int SecondOf(WallTime time) {
  return static_cast<int>(std::chrono::duration_cast<seconds>(time.time_since_epoch()).count());
}

}  // namespace

broker::LeaseSpec LeaseModel::Spec() const {
  const Duration lifetime = seconds(Off(LeaseRule::kMaxLifetime) ? 1000 : bounds_.lifetime);
  return {seconds(kTtl), lifetime, bounds_.keep_while_running};
}

broker::LeaseSettings LeaseModel::Settings() const {
  return {seconds(Off(LeaseRule::kMarginForClocks) ? 0 : 1), seconds(kBackstop), !alone()};
}

LeaseModel::LeaseModel(const LeaseBounds& bounds, LeaseRule off)
    : bounds_(bounds), off_(off), replicas_(static_cast<size_t>(bounds.replicas)) {
  const Lease first(Spec(), Settings(), At(0));
  record_ = {SecondOf(first.until()), false};
  promised_ = record_.until;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i].lease = first;
    Arm(i);
    Push(i);
  }
}

WallTime LeaseModel::NowOf(size_t who) const {
  const bool ahead = bounds_.skew && who + 1 == replicas_.size();
  return At(now_ + (ahead ? 1 : 0));
}

bool LeaseModel::Busy() const {
  return (program_ && bounds_.keep_while_running) ||
         std::any_of(replicas_.begin(), replicas_.end(), [](const Replica& r) { return r.stream; });
}

// A stream whose link has dropped shows in the record alone, and not there if the write has failed.
bool LeaseModel::SeenToBeBusy() const {
  if (used_.failures == 0 || (program_ && bounds_.keep_while_running)) return Busy();
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const Replica& r) { return r.stream && r.linked; });
}

void LeaseModel::Break(const std::string& what) const {
  if (violation_.empty()) violation_ = what;
}

// Timers are in time; what they began may still be under way for a second.
bool LeaseModel::MayPass() const {
  if (alive_ && agent_backstop_ <= now_) return false;
  for (const Replica& replica : replicas_) {
    if (!replica.up || !alive_) continue;
    if (replica.write && replica.write->since < now_) return false;
    const bool asking = replica.asked != Replica::Asked::kNo;
    if (asking && replica.asked_at < now_) return false;
    if (!replica.write && !asking && replica.look_at <= now_) return false;
  }
  return true;
}

void LeaseModel::Do(const Action& action) {
  const size_t who = action.who;
  Replica& replica = replicas_[who];
  switch (action.kind) {
    case Action::kSecond:
      Second();
      break;
    case Action::kCall:
      ++used_.calls;
      Call(who);
      break;
    case Action::kLook:
      LookAt(who);
      break;
    case Action::kAnswer:
      AskAgent(who);
      break;
    case Action::kJudge: {
      replica.asked = Replica::Asked::kNo;
      bool busy = replica.stream && !Off(LeaseRule::kOwnStreamsAreBusy);
      busy |= replica.touched;
      if (Off(LeaseRule::kActivitySinceTheLookCounts)) busy = false;
      Judge(who, replica.lease->See(busy, replica.says));
      break;
    }
    case Action::kWritten:
    case Action::kWriteFails:
    case Action::kMadeUnanswered:
      WriteEnds(who, action.kind);
      break;
    case Action::kDie:
      ++used_.crashes;
      if (replica.write) last_call_ = 0;  // never answered
      replica = Replica();
      replica.up = replica.linked = false;
      break;
    case Action::kReturn:
      Return(who);
      break;
    case Action::kDrop:
      ++used_.drops;
      replica.linked = false;
      if (replica.asked == Replica::Asked::kAsked) {
        // The question is lost with its link.
        replica.asked = Replica::Asked::kNo;
        const bool own = replica.stream && !Off(LeaseRule::kOwnStreamsAreBusy);
        Judge(who, replica.lease->See(own || replica.touched, std::nullopt));
      }
      break;
    case Action::kRelink:
      replica.linked = true;
      replica.reached_since = now_;
      Push(who);
      if (!replica.write) Arm(who);
      break;
    case Action::kProgram:
      ++used_.programs;
      program_ = true;
      break;
    case Action::kProgramEnds:
      program_ = false;
      break;
    case Action::kStream:
      ++used_.streams;
      OpenStream(who);
      break;
    case Action::kStreamEnds:
      replica.stream = false;
      Touch(who);
      break;
  }
  Check();
}

void LeaseModel::OpenStream(size_t who) {
  Replica& replica = replicas_[who];
  Touch(who);
  // A write may take a second and more, and with clocks that differ others look that much sooner.
  const bool thin = replica.lease->Remaining(NowOf(who)) < seconds(alone() ? 1 : 2);
  const bool waits = replica.write && thin && !Off(LeaseRule::kThinLeaseIsWrittenFirst);
  (waits ? replica.opening : replica.stream) = true;
}

// An agent does not count a reader whose link was lost a moment ago.
void LeaseModel::AskAgent(size_t who) {
  Replica& replica = replicas_[who];
  replica.asked = Replica::Asked::kAnswered;
  replica.says = AgentSays{program_ && !Off(LeaseRule::kRunningIsBusy) ? 1u : 0u, 0};
  if (Off(LeaseRule::kOthersStreamsAreBusy)) return;
  for (const Replica& other : replicas_) {
    replica.says->attached += other.stream && other.linked ? 1 : 0;
  }
}

void LeaseModel::Second() {
  if (agent_backstop_ <= now_) {
    // It hears a later time with every heartbeat of a broker that lives and reaches it.
    bool looked_after = false;
    for (const Replica& replica : replicas_) {
      // One that has just come may be too late.
      looked_after |= replica.up && replica.linked && replica.reached_since + 3 <= now_;
    }
    if (looked_after && Busy() && now_ < HardEnd() && used_.failures == 0)
      Break("it ended itself while it was in use");
    alive_ = false;
    return;
  }
  ++now_;
}

void LeaseModel::Call(size_t who) {
  last_call_ = now_;
  Touch(who);
  if (!replicas_[who].write && now_ < replicas_[who].broken_until) {
    last_call_ = 0;  // it fails
    return;
  }
  if (replicas_[who].write && !Off(LeaseRule::kWrittenBeforeAnswer)) {
    replicas_[who].caller_waits = true;
  } else {
    AnswerCaller(who);
  }
}

void LeaseModel::AnswerCaller(size_t who) {
  Replica& replica = replicas_[who];
  replica.caller_waits = false;
  int until = SecondOf(replica.lease->until());
  if (Off(LeaseRule::kWrittenBeforeAnswer) && replica.write) until = replica.write->until;
  if (until > record_.until) Break("an answer promises more than is written");
  promised_ = std::max(promised_, until);
}

void LeaseModel::Touch(size_t who) {
  Replica& replica = replicas_[who];
  replica.touched = true;
  if (replica.write || now_ < replica.broken_until) return;
  if (Off(LeaseRule::kNeverShortened)) {
    return StartWrite(who, SecondOf(replica.lease->until()) - 1, false);
  }
  const auto until = replica.lease->Activity(NowOf(who));
  if (until) return StartWrite(who, SecondOf(*until), false);
  if (Off(LeaseRule::kOneWriteAThird)) StartWrite(who, SecondOf(replica.lease->until()), false);
}

void LeaseModel::StartWrite(size_t who, int until, bool outage) {
  Replica& replica = replicas_[who];
  replica.write = Write{until, outage, SecondOf(replica.lease->until()), now_};
}

void LeaseModel::WriteEnds(size_t who, Action::Kind how) {
  Replica& replica = replicas_[who];
  const Write write = *replica.write;
  replica.write.reset();
  const bool fits = alone() || Off(LeaseRule::kWritesCompare) || write.expected == record_.until;
  if (how != Action::kWriteFails && fits) {
    if (write.until < record_.until) Break("the lease was shortened");
    if (write.outage && outage_given_) Break("a second ttl for an outage and nobody came");
    const bool same = !write.outage && write.until == record_.until && !record_.outage;
    if (alone() && same && used_.failures == 0) {
      Break("written although nothing changed");
    }
    outage_given_ = write.outage;
    record_ = {write.until, write.outage && !Off(LeaseRule::kOutageOnce)};
    if (Off(LeaseRule::kActivityClearsTheMark) && !write.outage) record_.outage = outage_marked_;
    outage_marked_ = record_.outage;
  }
  if (how != Action::kWritten) {
    ++used_.failures;
    replica.caller_waits = false;  // its call fails
    if (std::exchange(replica.opening, false)) replica.stream = true;
    replica.look_at = replica.broken_until = now_ + 1;
    last_call_ = 0;
    if (write.outage) grace_ = 0;
    return;
  }
  if (fits && write.outage) {
    replica.lease->WrittenAfterOutage(At(write.until));
  } else if (fits) {
    replica.lease->Written(At(write.until));
  } else {
    // Somebody else wrote: what the record says, and once more if that is not enough.
    replica.lease->Written(At(record_.until));
    if (replica.caller_waits) {
      Touch(who);
      if (replica.write) return;
    }
  }
  Push(who);
  Arm(who);
  if (std::exchange(replica.opening, false)) replica.stream = true;
  if (replica.caller_waits) AnswerCaller(who);
}

void LeaseModel::Push(size_t who) {
  const Replica& replica = replicas_[who];
  if (!replica.up || !replica.linked || !replica.lease || replica.write) return;
  if (Off(LeaseRule::kAgentKnowsTheBackstop) && agent_backstop_ != 0) return;
  if (Off(LeaseRule::kAgentKnowsTheBackstop)) {
    agent_backstop_ = 1000;
    return;
  }
  const WallTime at =
      Off(LeaseRule::kBackstopLiesBeyond) ? replica.lease->until() : replica.lease->backstop();
  // The newest word counts; those of slower replicas are shorter, never longer.
  agent_backstop_ = std::max(agent_backstop_, SecondOf(at));
}

void LeaseModel::Arm(size_t who) {
  Replica& replica = replicas_[who];
  const int ahead = SecondOf(NowOf(who)) - now_;
  replica.look_at = SecondOf(replica.lease->NextWake(NowOf(who))) - ahead;
}

void LeaseModel::LookAt(size_t who) {
  Replica& replica = replicas_[who];
  if (replica.lease->KeepsAhead(NowOf(who))) {
    if (replica.stream && !Off(LeaseRule::kOwnStreamsKeepAhead)) Touch(who);
    if (!replica.write) Arm(who);
    return;
  }
  if (!alone()) replica.lease->Written(At(record_.until));
  replica.touched = false;
  replica.says.reset();
  replica.asked_of = record_.until;
  replica.asked_at = now_;
  if (Off(LeaseRule::kLookedAtFirst)) return Judge(who, Look::kIdle);
  const bool known = replica.lease->HardOver(NowOf(who)) || replica.stream;
  if (known || !replica.linked) {
    const bool own = replica.stream && !Off(LeaseRule::kOwnStreamsAreBusy);
    return Judge(who, replica.lease->See(own, std::nullopt));
  }
  replica.asked = Replica::Asked::kAsked;
}

void LeaseModel::Judge(size_t who, Look look) {
  Replica& replica = replicas_[who];
  if (replica.write && !Off(LeaseRule::kActivitySinceTheLookCounts)) return;
  if (Off(LeaseRule::kUnreachableIsLeft) && look == Look::kUnreachable) look = Look::kIdle;
  switch (replica.lease->Decide(NowOf(who), look)) {
    case Lease::Verdict::kNotYet:
      return Arm(who);
    case Lease::Verdict::kRenew:
      Touch(who);
      if (!replica.write) replica.look_at = now_ + 1;
      return;
    case Lease::Verdict::kWaitForBackstop:
      replica.look_at = SecondOf(replica.lease->backstop());
      return;
    case Lease::Verdict::kTakeBack:
      return TakeBack(who);
  }
}

void LeaseModel::TakeBack(size_t who) {
  Replica& replica = replicas_[who];
  if (!alone() && replica.asked_of != record_.until && !Off(LeaseRule::kDestroyCompares)) {
    replica.lease->Written(At(record_.until));
    return Arm(who);
  }
  alive_ = false;
  if (now_ >= HardEnd() - (bounds_.skew ? 1 : 0)) return;
  const bool unreachable = !replica.says;
  if (SeenToBeBusy() &&
      !(unreachable && now_ >= SecondOf(replica.lease->backstop()) && !replica.stream)) {
    Break("taken back while it was in use");
  }
  if (now_ < promised_) Break("taken back before the promised end");
  if (now_ < grace_) Break("taken back less than a ttl after an outage");
  if (alone() && last_call_ > 0 && now_ < last_call_ + kTtl) Break("taken back after a call");
}

void LeaseModel::Return(size_t who) {
  Replica& replica = replicas_[who];
  replica = Replica();
  replica.reached_since = now_;
  replica.lease = Lease(Spec(), Settings(), At(0), At(record_.until), record_.outage);
  const WallTime now = NowOf(who);
  const bool first = !outage_given_;
  // Another replica may have looked already.
  if (alone() && replica.lease->Over(now) && first) grace_ = std::min(now_ + kTtl, HardEnd());
  std::optional<WallTime> until;
  if (!Off(LeaseRule::kOutageGivesATtl)) until = replica.lease->AfterOutage(now);
  if (until) {
    StartWrite(who, SecondOf(*until), true);
    return;
  }
  Push(who);
  Arm(who);
}

void LeaseModel::Check() {
  if (!violation_.empty()) return;
  if (alive_ && now_ > HardEnd() + kSlack) Break("it lives past max_lifetime");
  CheckItEnds();
}

// Nobody comes any more, programs end, and replicas stay as they are: it is gone in the end.
void LeaseModel::CheckItEnds() const {
  LeaseModel world = *this;
  world.program_ = false;
  for (Replica& replica : world.replicas_) replica.stream = replica.opening = false;
  for (int step = 0; step < 400 && world.alive_; ++step) {
    if (world.MayPass() || world.agent_backstop_ <= world.now_) {
      world.Second();
      continue;
    }
    for (size_t i = 0; i < world.replicas_.size() && world.alive_; ++i) {
      Replica& replica = world.replicas_[i];
      if (!replica.up) continue;
      if (replica.write) {
        world.WriteEnds(i, Action::kWritten);
      } else if (replica.asked != Replica::Asked::kNo) {
        replica.asked = Replica::Asked::kNo;
        world.Judge(i, replica.linked ? Look::kIdle : Look::kUnreachable);
      } else if (replica.look_at <= world.now_) {
        world.LookAt(i);
      }
    }
    if (world.now_ > now_ + 2 * kTtl + kBackstop + 6) break;
  }
  if (world.alive_) Break("idle, and never taken back");
}

}  // namespace sandbroker::model
