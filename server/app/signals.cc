#include "server/app/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "lib/obs/log.h"
#include "server/app/exit_code.h"

namespace sandbroker::app {
namespace {

using obs::Level;

// For what is left to do after a second signal: killing sandboxes.
constexpr std::chrono::seconds kQuickBound(5);
// How often the thread looks at its deadline.
constexpr timespec kTick{0, 100'000'000};

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

// Other threads may hold any lock, so nothing is destroyed.
[[noreturn]] void EndNow(std::string_view why) {
  obs::Log(Level::kError, "ended by force", {{"why", why}});
  obs::FlushLog();
  _exit(static_cast<int>(ExitCode::kForced));
}

}  // namespace

void Signals::Block() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A reader that closed our stderr or a socket is an error code, not the end.
  signal(SIGPIPE, SIG_IGN);
}

Signals::Signals(std::function<void()> on_quick)
    : on_quick_(std::move(on_quick)), thread_([this] { Run(); }) {}

Signals::~Signals() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  thread_.join();
}

void Signals::WaitForStop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return seen_ > 0; });
}

void Signals::WaitUnlessQuick(std::chrono::nanoseconds delay) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, delay, [this] { return seen_ > 1; });
}

bool Signals::quick() const {
  const std::lock_guard lock(mutex_);
  return seen_ > 1;
}

void Signals::SetDeadline(Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline_ ? std::min(*deadline_, deadline) : deadline;
}

void Signals::Run() {
  const sigset_t set = StopSignals();
  while (true) {
    const int number = sigtimedwait(&set, nullptr, &kTick);
    if (number > 0) OnSignal(number);
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (deadline_ && Clock::now() >= *deadline_) EndNow("the shutdown took too long");
  }
}

void Signals::OnSignal(int number) {
  int seen = 0;
  {
    const std::lock_guard lock(mutex_);
    seen = ++seen_;
  }
  changed_.notify_all();
  obs::Log(Level::kInfo, "signal", {{"number", number}, {"count", seen}});
  if (seen == 2) {
    SetDeadline(Clock::now() + kQuickBound);
    on_quick_();
  }
  if (seen > 2) EndNow("a third signal");
}

}  // namespace sandbroker::app
