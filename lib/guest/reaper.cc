#include "lib/guest/reaper.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <ctime>
#include <utility>

#include "lib/guest/child_list.h"

namespace sandbroker::guest {
namespace {

// A stranger in the middle of a fork can't have another child, which makes the sweep converge; it
// is our unreaped child, so the pid is its own.
void End(pid_t pid) {
  const struct rlimit none = {0, 0};
  ::prlimit(pid, RLIMIT_NPROC, &none, nullptr);
  ::kill(pid, SIGKILL);
}

// Looked at again after this long, although every death is told: one that is traced by another, or
// stuck in the kernel, tells nothing.
constexpr Duration kLookAgain = std::chrono::milliseconds(100);

}  // namespace

Reaper::Reaper(boost::asio::io_context& io) : io_(io), timer_(io) {}

void Reaper::SpareExisting() {
  ForEachChild([this](pid_t pid) { return spared_.insert(pid).second; });
}

void Reaper::WatchSupervisor(pid_t pid, OnEnded on_ended) {
  supervisors_.emplace(pid, Supervisor{std::move(on_ended)});
}

void Reaper::WatchProgram(pid_t pid, const void* owner, OnEnded on_ended) {
  programs_.insert_or_assign(pid, Program{owner, std::move(on_ended)});
}

void Reaper::ForgetProgram(pid_t pid, const void* owner) {
  const auto it = programs_.find(pid);
  if (it != programs_.end() && it->second.owner == owner) programs_.erase(it);
}

void Reaper::OnChildren() {
  WakeStopped();
  const bool more = Collect();
  SweepSlice();
  if (!more || std::exchange(turn_posted_, true)) return;
  boost::asio::post(io_, [this] {
    turn_posted_ = false;
    OnChildren();
  });
}

// Answers whether there may be more of them.
bool Reaper::Collect() {
  for (int i = 0; i < kReapsPerTurn; ++i) {
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return false;
    Handle(info);
  }
  return true;
}

void Reaper::Handle(const siginfo_t& info) {
  OnEnded on_ended;
  if (const auto it = supervisors_.find(info.si_pid); it != supervisors_.end()) {
    on_ended = std::move(it->second.on_ended);
    supervisors_.erase(it);
  } else if (const auto it = programs_.find(info.si_pid); it != programs_.end()) {
    on_ended = std::move(it->second.on_ended);
    programs_.erase(it);
  } else {
    spared_.erase(info.si_pid);
  }
  if (on_ended) on_ended(info);
}

// Programs of the same user can stop it, and it must be able to tell of their end.
void Reaper::WakeStopped() {
  for (int i = 0; i < kReapsPerTurn; ++i) {
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0) return;
    const auto it = supervisors_.find(info.si_pid);
    if (it == supervisors_.end()) continue;
    ::kill(info.si_pid, ++it->second.stops > kMaxStops ? SIGKILL : SIGCONT);
  }
}

void Reaper::Sweep(std::function<void()> done) {
  sweeping_for_.push_back(std::move(done));
  // Not from within the caller's own turn.
  if (std::exchange(turn_posted_, true)) return;
  boost::asio::post(io_, [this] {
    turn_posted_ = false;
    OnChildren();
  });
}

// The kernel hands a dead one's children to us before it tells of the death, so each death leads to
// a look at them, and a look that finds nobody is the end.
void Reaper::SweepSlice() {
  if (sweeping_for_.empty()) return;
  const int strangers = KillStrangers();
  if (strangers > 0) return ArmTimer();
  timer_.cancel();
  for (const auto& done : std::exchange(sweeping_for_, {})) done();
}

int Reaper::KillStrangers() {
  int strangers = 0;
  ForEachChild([&](pid_t pid) {
    if (supervisors_.count(pid) != 0 || spared_.count(pid) != 0) return true;
    End(pid);
    return ++strangers < kKillsPerTurn;
  });
  return strangers;
}

void Reaper::ArmTimer() {
  timer_.expires_after(kLookAgain);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) OnChildren();
  });
}

bool Reaper::EndAll(Duration bound) {
  const Time deadline = std::chrono::steady_clock::now() + bound;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  while (std::chrono::steady_clock::now() < deadline) {
    while (Collect()) {
    }
    bool left = false;
    ForEachChild([&](pid_t pid) {
      if (spared_.count(pid) != 0) return true;
      left = true;
      End(pid);
      return true;
    });
    if (!left) return true;
    const timespec wait = {0, std::chrono::nanoseconds(std::chrono::milliseconds(10)).count()};
    ::sigtimedwait(&child, nullptr, &wait);
  }
  return false;
}

}  // namespace sandbroker::guest
