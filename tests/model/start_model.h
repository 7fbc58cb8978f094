// A model of protocol D around the production classes ExecutionTable and Handle, for
// start_model_test.cc: clients that repeat their starts, messages that are delayed, doubled and
// lost, programs that end, records that are dropped, and sandboxes whose agent is replaced. One
// step of time is one second: output is kept 1, tombstones 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/broker/core/handle.h"
#include "lib/guest/core/execution_table.h"

namespace sandbroker::model {

// One line of docs/protocols.md D each.
enum class StartRule {
  kNone,
  kKnownIsAttachedTo,
  kSpecIsCompared,
  kTombstoneIsKept,
  kTombstoneLastsItsTime,
  kFullRefusesNewOnes,
  kCallersIncarnation,
  kAttachNamesItsIncarnation,
  kAttachedIsNotDropped,
  kOutputIsKept,
};
inline constexpr int kStartRules = static_cast<int>(StartRule::kOutputIsKept) + 1;
const char* RuleName(StartRule rule);

struct StartBounds {
  int ids = 2;
  int sends = 3;
  int doubles = 1;  // of messages
  int deaths = 0;   // of the agent
  int seconds = 5;
  int others = 0;  // starts with another spec under a known id
  int attaches = 1;
};

class StartModel {
 public:
  StartModel(const StartBounds& bounds, StartRule off);

  struct Action {
    enum Kind : uint8_t {
      kSend,
      kSendOther,
      kRefresh,
      kDeliver,
      kDeliverTwice,
      kLose,
      kEnd,
      kLeave,
      kAttach,
      kSweep,
      kMakeRoom,
      kDie,
      kSecond,
    } kind;
    uint8_t who = 0;
  };
  std::vector<Action> Actions() const;
  void Do(const Action& action);
  std::string Name(const Action& action) const;
  std::string Key() const;
  const std::string& violation() const { return violation_; }

 private:
  struct Message {
    int id;
    bool other;  // spec
    int boot;    // in the handle of the caller's first try
  };
  // One time that a command ran.
  struct RunOf {
    int id;
    bool other;
    int boot;
    std::optional<int> ended;
    std::optional<int> dropped;
    bool attached = true;
  };

  bool Off(StartRule rule) const { return off_ == rule; }
  Time Now() const { return Time() + std::chrono::seconds(1000 + now_); }
  RunOf* Live(int id);  // known to the present agent
  void Send(int id, bool other);
  void Deliver(const Message& message);
  void Created(const Message& message);
  void Attached(const Message& message);
  void Refused(const Message& message, const absl::Status& why);
  void Attach(size_t run);
  void Drop(const std::string& id, bool for_room);
  void Sweep();
  void Die();
  void Check();
  void Break(const std::string& what);

  StartBounds bounds_;
  StartRule off_;
  guest::ExecutionTable::Limits limits_;
  std::optional<guest::ExecutionTable> table_;
  int boot_ = 0;
  int now_ = 0;
  std::vector<std::optional<int>> first_boot_;  // by id: of its caller's first try
  std::vector<Message> under_way_;
  std::vector<RunOf> runs_;
  StartBounds used_;
  std::string violation_;
};

}  // namespace sandbroker::model
