#include "lib/guest/process_tree.h"

#include <signal.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace sandbroker::guest {

ProcessTree::ProcessTree(boost::asio::io_context& io, Reaper* reaper, Supervised supervised,
                         Events events)
    : reaper_(reaper),
      supervised_(std::move(supervised)),
      events_(std::move(events)),
      descriptor_(io, supervised_.events.Release()) {}

ProcessTree::~ProcessTree() {
  if (!supervisor_lives_) return;
  // Only when the whole agent goes. Its memory is never given back while it may run.
  ::kill(supervised_.supervisor, SIGKILL);
  static auto* const kept = new std::vector<std::shared_ptr<SupervisorPool::Region>>();
  kept->push_back(std::move(supervised_.region));
}

void ProcessTree::Start() {
  const auto self = shared_from_this();
  reaper_->WatchSupervisor(supervised_.supervisor,
                           [self](const siginfo_t& info) { self->OnSupervisorEnd(info); });
  reaper_->WatchProgram(supervised_.program, this, [self](const siginfo_t& info) {
    self->OnProgramEnd({info.si_code, info.si_status});
    self->OnProgramReaped();
  });
  WaitForEvents();
}

void ProcessTree::SignalGroup(int number) {
  if (!program_reaped_ && !ReapedBySupervisor()) ::kill(-supervised_.program, number);
}

bool ProcessTree::ReapedBySupervisor() const {
  return supervised_.board != nullptr &&
         __atomic_load_n(&supervised_.board->program_reaped, __ATOMIC_SEQ_CST) != 0;
}

void ProcessTree::Kill() {
  if (std::exchange(killed_, true)) return;
  if (supervisor_lives_) ::kill(supervised_.supervisor, SIGKILL);
}

void ProcessTree::WaitForEvents() {
  descriptor_.async_wait(Descriptor::wait_read,
                         [weak = weak_from_this()](boost::system::error_code error) {
                           const auto self = weak.lock();
                           if (error || !self) return;
                           self->TakeEvents();
                           if (self->descriptor_.is_open()) self->WaitForEvents();
                         });
}

void ProcessTree::TakeEvents() {
  const auto self = shared_from_this();
  while (descriptor_.is_open()) {
    SupervisorEvent event;
    const ssize_t n = ::read(descriptor_.native_handle(), &event, sizeof(event));
    if (n == sizeof(event)) {
      TakeEvent(event);
    } else if (n == 0) {
      CloseEvents();
    } else {
      return;
    }
  }
}

void ProcessTree::CloseEvents() {
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

void ProcessTree::TakeEvent(const SupervisorEvent& event) {
  switch (event.kind) {
    case SupervisorEvent::kProgramEnded:
      return OnProgramEnd({event.code, event.status});
    case SupervisorEvent::kOthersRemain:
      return events_.on_others_remain();
    case SupervisorEvent::kSessionGone:
      return events_.on_session_gone();
    default:
      return;
  }
}

void ProcessTree::OnProgramEnd(const End& end) {
  if (!std::exchange(program_told_, true)) events_.on_program_ended(end);
}

void ProcessTree::OnSupervisorEnd(const siginfo_t& info) {
  supervisor_lives_ = false;
  // What it had still to say.
  TakeEvents();
  CloseEvents();
  if (ReapedBySupervisor()) {
    reaper_->ForgetProgram(supervised_.program, this);
    OnProgramReaped();
  }
  supervised_.board = nullptr;
  supervised_.region.reset();
  // It only leaves by itself when the program is the last of its tree.
  swept_ = info.si_code == CLD_EXITED && info.si_status == 0;
  if (swept_) return CheckGone();
  if (!std::exchange(killed_, true)) events_.on_supervisor_killed();
  reaper_->Sweep([self = shared_from_this()] {
    self->swept_ = true;
    self->CheckGone();
  });
}

void ProcessTree::OnProgramReaped() {
  program_reaped_ = true;
  CheckGone();
}

void ProcessTree::CheckGone() {
  if (supervisor_lives_ || !program_reaped_ || !swept_ || std::exchange(gone_, true)) return;
  events_.on_gone();
}

}  // namespace sandbroker::guest
