// All processes of one execution: its program, what that started, and the supervisor that holds
// them together. Signals them, and says what ended. Owned by the execution, and by the reaper until
// the supervisor is gone. Agent thread only.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "lib/guest/input_pipe.h"
#include "lib/guest/reaper.h"
#include "lib/process/supervise.h"

namespace sandbroker::guest {

class ProcessTree : public std::enable_shared_from_this<ProcessTree> {
 public:
  struct End {
    int code = 0;  // si_code and si_status
    int status = 0;
  };
  struct Events {
    std::function<void(const End&)> on_program_ended;
    // It ended and others did not.
    std::function<void()> on_others_remain;
    // Nobody is left in the program's session.
    std::function<void()> on_session_gone;
    // Not by us: everything that is left is being killed.
    std::function<void()> on_supervisor_killed;
    // Nothing is left; after on_program_ended, and the last.
    std::function<void()> on_gone;
  };
  // `reaper` outlives it.
  ProcessTree(boost::asio::io_context& io, Reaper* reaper, Supervised supervised, Events events);
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  void Start();
  // To the program's process group, as long as that number is surely its own.
  void SignalGroup(int number);
  // All of it, whatever it has become. on_gone follows.
  void Kill();

 private:
  void WaitForEvents();
  void TakeEvents();
  void TakeEvent(const SupervisorEvent& event);
  void OnProgramEnd(const End& end);
  void OnSupervisorEnd(const siginfo_t& info);
  void OnProgramReaped();
  bool ReapedBySupervisor() const;
  void CloseEvents();
  void CheckGone();

  Reaper* const reaper_;
  Supervised supervised_;
  const Events events_;
  Descriptor descriptor_;
  bool supervisor_lives_ = true;
  bool killed_ = false;
  bool program_told_ = false;
  bool program_reaped_ = false;
  bool swept_ = false;
  bool gone_ = false;
};

}  // namespace sandbroker::guest
