// Keys and names of the receipt model's states and actions.
#include <map>

#include "lib/base/strings.h"
#include "tests/model/receipt_model.h"

namespace sandbroker::model {

const char* RuleName(Rule rule) {
  static constexpr const char* kNames[] = {
      "none",
      "create is exclusive",
      "changes compare tokens",
      "tokens are unique",
      "the body is compared",
      "a bound receipt is repeated",
      "a pending receipt is waited for",
      "the deadline frees it",
      "a dead owner frees it",
      "an open receipt is free",
      "a refused binding reads again",
      "a late binding is shut out before its sandbox is destroyed",
      "one's own is destroyed when it lost",
      "the answer comes after the binding",
      "a failed acquire opens the receipt",
      "an unknown write is repeated under its token",
      "a sandbox that is gone is never replaced",
      "an opening of unknown outcome leaves the sandbox to its lease",
      "a refused opening looks again",
      "what a dead call had is adopted",
      "the taker stamps before it binds",
      "only what is stamped as one's own is destroyed",
      "the receipt is open before what failed is destroyed",
      "a refused binding destroys only what is bound elsewhere",
  };
  static_assert(std::size(kNames) == kRules);
  return kNames[static_cast<int>(rule)];
}

// Tokens are named by where they appear: which numbers they got does not matter.
std::string ReceiptModel::Key() const {
  std::map<std::string, char> names;
  std::string key;
  const auto number = [&key](int value) { key += static_cast<char>('0' + value); };
  const auto token = [&](const std::string& value) {
    const auto it = names.emplace(value, static_cast<char>('a' + names.size())).first;
    key += value.empty() ? '-' : it->second;
  };
  const auto text = [&key](const std::string& value) { key += value + ','; };
  const auto receipt = [&](const Receipt& value) {
    number(static_cast<int>(value.state));
    token(value.token);
    text(value.body_hash);
    text(value.owner);
    number(value.deadline > Now());
    text(value.uid);
  };
  if (record_) receipt(*record_);
  for (const Call& call : calls_) {
    const AcquireOnce& machine = call.machine;
    key += '|';
    number(static_cast<int>(call.status));
    if (call.status == Status::kIdle) continue;
    text(call.answer);
    token(machine.token());  // a receipt may hold it when the call is over
    if (call.status != Status::kActive) continue;
    number(static_cast<int>(machine.step()));
    number(static_cast<int>(machine.phase()));
    number(machine.unknown());
    number(call.holds);
    text(call.owner);
    token(machine.expected());
    text(machine.own() + machine.uid());
    token(call.forgotten);
    receipt(machine.record());
  }
  for (const Sandbox& sandbox : sandboxes_) {
    number(sandbox.made + 2 * sandbox.alive + 4 * sandbox.ended_by_call);
    token(sandbox.stamp);
  }
  for (const LateWrite& write : late_) {
    key += write.create ? 'c' : 's';
    token(write.expected);
    receipt(write.record);
  }
  for (const int used : {used_.crashes, used_.unknowns, used_.unreadable, used_.ticks, used_.dry,
                         used_.reaps, used_.leaves}) {
    number(used);
  }
  text(bound_);
  return key;
}

std::string ReceiptModel::Name(const Action& action) const {
  static constexpr const char* kSteps[] = {"reads",    "waits",    "creates", "swaps",   "adopts",
                                           "acquires", "destroys", "answers", "repeats", "fails"};
  static constexpr const char* kHows[] = {"", " badly", " (made, no answer)", " (not made)",
                                          " (made later)"};
  const int who = action.who;
  switch (action.kind) {
    case Action::kStart:
      return StrCat("call ", who, " begins on ", OwnerOf(who));
    case Action::kStep: {
      const auto step = calls_[action.who].machine.step();
      return StrCat("call ", who, " ", kSteps[static_cast<int>(step)], kHows[action.how]);
    }
    case Action::kLand:
      return StrCat("late write ", who, " lands");
    case Action::kCrash:
      return StrCat("replica ", who, " dies");
    case Action::kTick:
      return "deadlines pass";
    case Action::kReap:
      return StrCat("sandbox s", who, " ends");
  }
  return "";
}

}  // namespace sandbroker::model
