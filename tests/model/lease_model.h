// A model of protocol C around the production class Lease, for lease_model_test.cc: one sandbox,
// its record, the replicas that renew and judge it, and its agent. Replicas die and come back,
// links drop, writes take time, fail or stay without an answer, clocks differ by the margin. One
// step of time is one second: ttl 3, margin 1, backstop 4 beyond the lease. Timers go off in time;
// what they start may take until the next second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/broker/core/lease.h"

namespace sandbroker::model {

using broker::AgentSays;
using broker::Lease;
using broker::Look;

// One line of docs/protocols.md C each.
enum class LeaseRule {
  kNone,
  kWrittenBeforeAnswer,
  kNeverShortened,
  kWritesCompare,
  kDestroyCompares,
  kLookedAtFirst,
  kUnreachableIsLeft,
  kRunningIsBusy,
  kOthersStreamsAreBusy,
  kOwnStreamsAreBusy,
  kOwnStreamsKeepAhead,
  kMaxLifetime,
  kMarginForClocks,
  kAgentKnowsTheBackstop,
  kBackstopLiesBeyond,
  kOutageGivesATtl,
  kOutageOnce,
  kActivityClearsTheMark,
  kOneWriteAThird,
  kThinLeaseIsWrittenFirst,
  kActivitySinceTheLookCounts,
};
inline constexpr int kLeaseRules = static_cast<int>(LeaseRule::kActivitySinceTheLookCounts) + 1;
const char* RuleName(LeaseRule rule);

struct LeaseBounds {
  int replicas = 1;  // one: the local backend, the record's only writer
  int lifetime = 9;
  bool keep_while_running = true;
  bool skew = false;  // the last replica's clock is ahead by the margin
  int calls = 0;
  int crashes = 0;
  int drops = 0;     // of links
  int failures = 0;  // of writes: made or not, without an answer
  int programs = 0;  // started over a stream
  int streams = 0;
};

class LeaseModel {
 public:
  LeaseModel(const LeaseBounds& bounds, LeaseRule off);

  struct Action {
    enum Kind : uint8_t {
      kSecond,
      kCall,
      kLook,
      kAnswer,
      kJudge,
      kWritten,
      kWriteFails,
      kMadeUnanswered,
      kDie,
      kReturn,
      kDrop,
      kRelink,
      kProgram,
      kProgramEnds,
      kStream,
      kStreamEnds,
    } kind;
    uint8_t who = 0;
  };
  std::vector<Action> Actions() const;
  void Do(const Action& action);
  std::string Name(const Action& action) const;
  std::string Key() const;
  const std::string& violation() const { return violation_; }

 private:
  struct Record {
    int until = 0;
    bool outage = false;
  };
  struct Write {
    int until = 0;
    bool outage = false;
    int expected = 0;
    int since = 0;
  };
  struct Replica {
    bool up = true;
    bool linked = true;
    bool stream = false;
    std::optional<Lease> lease;
    std::optional<Write> write;
    bool caller_waits = false;
    bool touched = false;  // since the look began
    bool opening = false;  // a stream, once its lease is written
    enum class Asked : uint8_t { kNo, kAsked, kAnswered } asked = Asked::kNo;
    std::optional<AgentSays> says;
    int asked_of = 0;  // the record's end when the look began
    int asked_at = 0;
    int look_at = 0;
    int broken_until = 0;   // a write failed: none is tried before
    int reached_since = 0;  // up and linked
  };

  bool Off(LeaseRule rule) const { return off_ == rule; }
  bool alone() const { return bounds_.replicas == 1; }
  broker::LeaseSpec Spec() const;
  broker::LeaseSettings Settings() const;
  WallTime At(int second) const { return WallTime(std::chrono::seconds(second)); }
  int HardEnd() const { return bounds_.lifetime; }
  WallTime NowOf(size_t who) const;
  bool MayPass() const;
  bool Busy() const;
  bool SeenToBeBusy() const;

  void Second();
  void Call(size_t who);
  void Touch(size_t who);
  void OpenStream(size_t who);
  void AskAgent(size_t who);
  void StartWrite(size_t who, int until, bool outage);
  void WriteEnds(size_t who, Action::Kind how);
  void AnswerCaller(size_t who);
  void Arm(size_t who);
  void LookAt(size_t who);
  void Judge(size_t who, Look look);
  void TakeBack(size_t who);
  void Return(size_t who);
  void Push(size_t who);
  void Check();
  void CheckItEnds() const;
  void Break(const std::string& what) const;

  LeaseBounds bounds_;
  LeaseRule off_;
  std::vector<Replica> replicas_;
  Record record_;
  bool alive_ = true;
  bool program_ = false;
  int agent_backstop_ = 0;
  int now_ = 0;
  LeaseBounds used_;
  int promised_ = 0;
  int last_call_ = 0;          // begun and not failed
  int grace_ = 0;              // an outage must give at least until then
  bool outage_given_ = false;  // since the last activity
  bool outage_marked_ = false;
  mutable std::string violation_;
};

}  // namespace sandbroker::model
