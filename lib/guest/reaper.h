// Who of our children has ended. Leaders of executions are announced first and reaped when their
// execution says so; everybody else (orphans, when the agent is PID 1 or a subreaper) is reaped at
// once. Agent thread only.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

namespace sandbroker::guest {

class Reaper {
 public:
  Reaper();

  // `on_ended` runs once, with the leader still unreaped; it must see to it that Reap is called.
  void Watch(pid_t leader, std::function<void(const siginfo_t&)> on_ended);
  // Runs after orphans were reaped.
  void OnOrphans(std::function<void()> fn) { on_orphans_ = std::move(fn); }
  // To be called after SIGCHLD.
  void Collect();
  void Reap(pid_t leader);

  // False: the kernel lists no children, so a leader that is kept unreaped would hide orphans.
  bool can_keep() const { return can_keep_; }

 private:
  bool Handle(const siginfo_t& info);
  void CollectFromList();
  std::vector<pid_t> ListChildren() const;

  bool can_keep_ = false;
  std::unordered_map<pid_t, std::function<void(const siginfo_t&)>> leaders_;
  std::set<pid_t> kept_;  // announced, not yet reaped
  std::function<void()> on_orphans_;
};

}  // namespace sandbroker::guest
