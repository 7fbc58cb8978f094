#include "tools/cli/exit_code.h"

#include <cerrno>
#include <csignal>

#include "lib/base/strings.h"
#include "tools/cli/stdio.h"

namespace sandbroker::cli {
namespace {

std::string Detail(const std::string& text) { return text.empty() ? "" : ": " + text; }

Outcome OfSignal(const v1::Signaled& signaled) {
  Outcome outcome{ExitCodeOfSignal(signaled.number()), ""};
  // As in a shell: an interrupted program and a closed pipe explain themselves.
  if (signaled.number() == SIGINT || signaled.number() == SIGPIPE) return outcome;
  outcome.message = StrCat("the program was ended by signal ", signaled.number(),
                           signaled.core_dumped() ? " (core dumped)" : "");
  return outcome;
}

Outcome OfStartFailed(const v1::StartFailed& failed) {
  const bool not_found = failed.error_number() == ENOENT && failed.step() == "exec";
  const std::string why =
      failed.message().empty() ? ErrorText(failed.error_number()) : failed.message();
  return {not_found ? kExitNotFound : kExitCannotStart,
          StrCat("the program could not be started (", failed.step(), "): ", why)};
}

}  // namespace

Outcome OutcomeOf(const v1::ExecEnded& ended) {
  switch (ended.reason_case()) {
    case v1::ExecEnded::kExited:
      return {ended.exited().code(), ""};
    case v1::ExecEnded::kSignaled:
      return OfSignal(ended.signaled());
    case v1::ExecEnded::kTimedOut:
      return {kExitTimedOut, "the program was ended by its timeout"};
    case v1::ExecEnded::kOutOfMemory:
      return {kExitOutOfMemory, "the program was ended because memory ran out"};
    case v1::ExecEnded::kCancelled:
      return {kExitCancelled,
              StrCat("the program was cancelled", ended.cancelled().by().empty() ? "" : " by ",
                     ended.cancelled().by())};
    case v1::ExecEnded::kStartFailed:
      return OfStartFailed(ended.start_failed());
    case v1::ExecEnded::kLeaseExpired:
      return {kExitLeaseExpired, "the sandbox's lease ran out and the program went with it"};
    case v1::ExecEnded::kAgentLost:
      return {kExitAgentLost, StrCat("the sandbox's agent died and the program with it",
                                     Detail(ended.agent_lost().detail()))};
    case v1::ExecEnded::kSandboxGone:
      return {kExitSandboxGone,
              StrCat("the sandbox is gone", Detail(ended.sandbox_gone().cause()))};
    case v1::ExecEnded::kOutcomeUnknown:
      return {kExitOutcomeUnknown, StrCat("how the program ended is not known",
                                          Detail(ended.outcome_unknown().detail()))};
    case v1::ExecEnded::REASON_NOT_SET:
      break;
  }
  return {kExitOutcomeUnknown, "the program ended in a way this version does not know"};
}

}  // namespace sandbroker::cli
