// What can happen next in the lease model; keys and names of its states and actions.
#include <algorithm>
#include <chrono>
#include <iterator>

#include "lib/base/strings.h"
#include "tests/model/lease_model.h"

namespace sandbroker::model {

const char* RuleName(LeaseRule rule) {
  static constexpr const char* kNames[] = {
      "none",
      "an answer comes after its write",
      "renewal never shortens",
      "a write compares the end it found",
      "a destroy compares the end it looked at",
      "a lease that is over is looked at",
      "an unreachable agent is left to the backstop",
      "a running program is busy",
      "streams of other replicas are busy",
      "own streams are busy",
      "own streams keep the lease ahead of others' looks",
      "max_lifetime caps all",
      "the margin covers the clocks",
      "the agent knows the backstop",
      "the backstop lies beyond the lease",
      "an outage gives a ttl",
      "once",
      "until real activity",
      "one write a third of the ttl",
      "a stream that finds a thin lease waits for its write",
      "what came since the agent was asked counts",
  };
  static_assert(std::size(kNames) == kLeaseRules);
  return kNames[static_cast<int>(rule)];
}

std::vector<LeaseModel::Action> LeaseModel::Actions() const {
  std::vector<Action> actions;
  if (!alive_) return actions;
  const auto add = [&](Action::Kind kind, size_t who = 0) {
    actions.push_back({kind, static_cast<uint8_t>(who)});
  };
  if (MayPass() || agent_backstop_ <= now_) add(Action::kSecond);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[i];
    if (!replica.up) {
      add(Action::kReturn, i);
      continue;
    }
    if (used_.crashes < bounds_.crashes) add(Action::kDie, i);
    if (used_.calls < bounds_.calls && !replica.caller_waits) add(Action::kCall, i);
    if (replica.asked == Replica::Asked::kAsked) add(Action::kAnswer, i);
    if (replica.asked == Replica::Asked::kAnswered) add(Action::kJudge, i);
    if (replica.write) {
      add(Action::kWritten, i);
      if (used_.failures < bounds_.failures) {
        add(Action::kWriteFails, i);
        add(Action::kMadeUnanswered, i);
      }
    } else if (replica.asked == Replica::Asked::kNo && replica.look_at <= now_) {
      add(Action::kLook, i);
    }
    if (replica.linked && used_.drops < bounds_.drops) add(Action::kDrop, i);
    if (!replica.linked) add(Action::kRelink, i);
    if (replica.stream) add(Action::kStreamEnds, i);
    if (!replica.stream && !replica.opening && replica.linked && used_.streams < bounds_.streams) {
      add(Action::kStream, i);
    }
  }
  if (program_) add(Action::kProgramEnds);
  // It is started over a stream, and may go on without.
  const bool stream = std::any_of(replicas_.begin(), replicas_.end(),
                                  [](const Replica& replica) { return replica.stream; });
  if (!program_ && stream && used_.programs < bounds_.programs) add(Action::kProgram);
  return actions;
}

std::string LeaseModel::Key() const {
  std::string key;
  const auto number = [&key](int value) { key += static_cast<char>(value + 40); };
  for (const int value :
       {now_, record_.until, int{record_.outage}, int{alive_}, int{program_}, agent_backstop_,
        used_.calls, used_.crashes, used_.drops, used_.failures, used_.programs, used_.streams,
        promised_, last_call_, grace_, int{outage_given_}, int{outage_marked_}}) {
    number(value);
  }
  for (const Replica& replica : replicas_) {
    key += '|';
    number(replica.up);
    if (!replica.up) continue;
    const auto until = replica.lease->until().time_since_epoch();
    number(static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(until).count()));
    for (const int value :
         {int{replica.linked}, int{replica.stream}, int{replica.lease->outage_ttl()},
          int{replica.caller_waits}, int{replica.opening}, int{replica.touched},
          static_cast<int>(replica.asked),
          replica.says ? static_cast<int>(replica.says->running) : -1,
          replica.says ? static_cast<int>(replica.says->attached) : -1, replica.asked_of,
          replica.asked_at, replica.look_at, replica.broken_until, replica.reached_since}) {
      number(value);
    }
    if (!replica.write) continue;
    number(replica.write->until);
    number(replica.write->outage);
    number(replica.write->expected);
    number(replica.write->since);
  }
  return key;
}

std::string LeaseModel::Name(const Action& action) const {
  static constexpr const char* kNames[] = {"a second passes",
                                           "a call at",
                                           "looks:",
                                           "is answered:",
                                           "judges:",
                                           "has written:",
                                           "fails to write:",
                                           "has written without an answer:",
                                           "dies:",
                                           "returns:",
                                           "link drops:",
                                           "link is back:",
                                           "a program runs",
                                           "the program ends",
                                           "a stream opens at",
                                           "a stream ends at"};
  return StrCat(now_, " s: ", kNames[action.kind], " ", int{action.who});
}

}  // namespace sandbroker::model
