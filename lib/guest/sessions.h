// Signals to what an execution started: its process group, then whatever else is still in its
// session. Only to be used while the leader is not reaped, because its unreaped pid is what keeps
// the group's and the session's number from being given to somebody else. Any thread.
#pragma once

#include <sys/types.h>

namespace sandbroker::guest {

void SignalGroup(pid_t leader, int signal);

// SIGKILL to the group, then to every other process of the session until none is left.
void KillSession(pid_t leader);

// Whether a process other than the leader is alive in its session.
bool SessionHasOthers(pid_t leader);

}  // namespace sandbroker::guest
