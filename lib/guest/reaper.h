// The agent's children: supervisors, which it knows, and everybody else, who is what a supervisor
// left behind. Reaps all that end, wakes supervisors that were stopped, and sweeps: kills strangers
// until there are none. In slices, so that the agent's other work goes on. Agent thread only.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/base/clock.h"

namespace sandbroker::guest {

class Reaper {
 public:
  explicit Reaper(boost::asio::io_context& io);

  using OnEnded = std::function<void(const siginfo_t&)>;
  // Whatever is our child now was there before us and is left alone.
  void SpareExisting();
  void WatchSupervisor(pid_t pid, OnEnded on_ended);
  // Spoken of when it ends as our child, once its supervisor is gone. It is no less a stranger.
  void WatchProgram(pid_t pid, const void* owner, OnEnded on_ended);
  // It was reaped by somebody else, and its pid may be another owner's already.
  void ForgetProgram(pid_t pid, const void* owner);

  // To be called after SIGCHLD.
  void OnChildren();
  // `done` runs once no stranger is left.
  void Sweep(std::function<void()> done);
  // Kills and reaps all children, spared ones excepted, before it returns; false: not within
  // `bound`. For the agent's own end.
  bool EndAll(Duration bound);

 private:
  struct Supervisor {
    OnEnded on_ended;
    int stops = 0;
  };
  struct Program {
    const void* owner = nullptr;
    OnEnded on_ended;
  };
  // One turn's work.
  static constexpr int kReapsPerTurn = 256;
  static constexpr int kKillsPerTurn = 128;
  // A supervisor that is stopped more often is given up, as if it had been killed.
  static constexpr int kMaxStops = 64;

  bool Collect();
  void Handle(const siginfo_t& info);
  void WakeStopped();
  void SweepSlice();
  int KillStrangers();
  void ArmTimer();

  boost::asio::io_context& io_;
  std::unordered_map<pid_t, Supervisor> supervisors_;
  std::unordered_map<pid_t, Program> programs_;
  std::unordered_set<pid_t> spared_;
  std::vector<std::function<void()>> sweeping_for_;
  boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                    boost::asio::wait_traits<std::chrono::steady_clock>,
                                    boost::asio::io_context::executor_type>
      timer_;
  bool turn_posted_ = false;
};

}  // namespace sandbroker::guest
