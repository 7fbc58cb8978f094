// A model of protocol B around the production class AcquireOnce, for receipt_model_test.cc: calls
// with one request_id on several replicas, the record they share, and the sandboxes they take.
// Replicas crash at every step, writes get lost, arrive late or without an answer, and sandboxes
// end. Each Rule can be switched off, to show that the model would notice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/broker/core/acquire_once.h"

namespace sandbroker::model {

using broker::AcquireOnce;
using broker::Receipt;

// One line of docs/protocols.md B each.
enum class Rule {
  kNone,
  kCreateIsExclusive,
  kChangesCompareTokens,
  kTokensAreUnique,
  kBodyIsCompared,
  kBoundIsRepeated,
  kPendingIsWaitedFor,
  kDeadlineFreesIt,
  kDeadOwnerFreesIt,
  kOpenIsFree,
  kReadAgainWhenRefused,
  kLateWriteIsShutOut,
  kOwnIsDestroyed,
  kBoundBeforeAnswer,
  kOpenedAfterFailure,
  kSameTokenAgain,
  kGoneIsNeverReplaced,
  kUnknownOpeningKeepsIt,
  kRefusedOpeningLooksAgain,
  kLeftoverIsAdopted,
  kStampedBeforeBinding,
  kStampIsTested,
  kOpenedBeforeDestroyed,
  kOnlyBoundToAnotherEndsIt,
};
inline constexpr int kRules = static_cast<int>(Rule::kOnlyBoundToAnotherEndsIt) + 1;
const char* RuleName(Rule rule);

struct ReceiptBounds {
  int calls = 3;
  int replicas = 3;
  // One replica at a time, which knows that every other is dead (the local backend).
  bool local = false;
  // The last call asks for something else under the same request_id.
  bool other_body = false;
  int crashes = 0;
  int unknowns = 0;  // writes without an answer: made, not made, or made later
  int unreadable = 0;
  int ticks = 0;   // each lets every deadline pass
  int dry = 0;     // acquires that get nothing, or fail after they got one
  int reaps = 0;   // sandboxes that end by themselves or by their lease
  int leaves = 0;  // callers who stop waiting
};

class ReceiptModel {
 public:
  ReceiptModel(const ReceiptBounds& bounds, Rule off);

  struct Action {
    enum Kind : uint8_t { kStart, kStep, kLand, kCrash, kTick, kReap } kind;
    uint8_t who = 0;
    uint8_t how = 0;
  };
  std::vector<Action> Actions() const;
  void Do(const Action& action);
  std::string Name(const Action& action) const;
  std::string Key() const;
  const std::string& violation() const { return violation_; }

 private:
  enum class Status : uint8_t { kIdle, kActive, kDead, kAnswered, kGone, kFailed };
  // How a step goes; what each means depends on the step.
  enum How : uint8_t { kWell, kBadly, kMadeUnanswered, kNotMade, kMadeLater };
  struct Call {
    Status status = Status::kIdle;
    AcquireOnce machine{"", "", Duration(0)};
    std::string body;
    std::string owner;
    std::string answer;     // uid
    std::string forgotten;  // token, when kSameTokenAgain is off
    bool holds = false;     // it has a sandbox, and does not know yet whether that is good
  };
  struct Sandbox {
    bool made = false;
    bool alive = false;
    bool ended_by_call = false;
    std::string stamp;
  };
  struct LateWrite {
    bool create;
    std::string expected;
    Receipt record;
  };

  int ReplicaOf(int call) const { return bounds_.local ? 0 : call % bounds_.replicas; }
  std::string OwnerOf(int call) const;
  WallTime Now() const { return WallTime(std::chrono::seconds(now_)); }
  bool Off(Rule rule) const { return off_ == rule; }
  bool Faultless() const;
  std::string Fresh(int call);

  void Start(int call);
  void Advance(int call, How how);
  void Read(int call);
  std::optional<Receipt> Shown(int call) const;
  bool Write(bool create, const std::string& expected, const Receipt& record);
  void WriteStep(int call, How how);
  void TakeStep(int call, How how);
  void Adopt(int call);
  void EndOwn(int call);
  void Answer(int call, const std::string& uid);
  void Crash(int replica);
  void Check();
  void CheckQuiet();
  void CheckNobodyIsBlocked() const;
  void Break(const std::string& what) const;
  const Call* HolderOf(const std::string& token) const;

  ReceiptBounds bounds_;
  Rule off_;
  std::vector<Call> calls_;
  std::vector<Sandbox> sandboxes_;  // "s0" of call 0, …
  std::optional<Receipt> record_;
  std::vector<LateWrite> late_;
  int now_ = 0;
  int generation_ = 0;  // of the local broker
  int minted_ = 0;
  ReceiptBounds used_;
  std::string bound_;  // uid bound first
  mutable std::string violation_;
};

}  // namespace sandbroker::model
