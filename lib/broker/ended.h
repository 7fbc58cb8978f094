// Names and makers of execution ends. Pure.
#pragma once

#include <string>
#include <string_view>

#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::broker {

namespace agent = ::sandbroker::agent::v1;

// "exited", "signaled", … as the fields are called.
inline std::string_view EndName(const agent::Ended& ended) {
  using agent::Ended;
  switch (ended.reason_case()) {
    case Ended::kExited:
      return "exited";
    case Ended::kSignaled:
      return "signaled";
    case Ended::kTimedOut:
      return "timed_out";
    case Ended::kOutOfMemory:
      return "out_of_memory";
    case Ended::kCancelled:
      return "cancelled";
    case Ended::kStartFailed:
      return "start_failed";
    case Ended::kLeaseExpired:
      return "lease_expired";
    case Ended::kAgentLost:
      return "agent_lost";
    case Ended::kSandboxGone:
      return "sandbox_gone";
    case Ended::kOutcomeUnknown:
    case Ended::REASON_NOT_SET:  // of a newer agent: we can't say what it means
      return "outcome_unknown";
  }
  return "outcome_unknown";
}

inline agent::Ended AgentLostEnd(const std::string& detail) {
  agent::Ended ended;
  ended.mutable_agent_lost()->set_detail(detail);
  return ended;
}

inline agent::Ended LeaseExpiredEnd() {
  agent::Ended ended;
  ended.mutable_lease_expired();
  return ended;
}

inline agent::Ended CancelledEnd(const std::string& by) {
  agent::Ended ended;
  ended.mutable_cancelled()->set_by(by);
  return ended;
}

}  // namespace sandbroker::broker
