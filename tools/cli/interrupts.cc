#include "tools/cli/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "lib/base/check.h"

namespace sandbroker::cli {
namespace {

constexpr size_t kMaxPending = 3;

}  // namespace

void Interrupts::Start() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  SANDBROKER_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signals_.Reset(signalfd(-1, &set, SFD_CLOEXEC));
  stop_.Reset(eventfd(0, EFD_CLOEXEC));
  SANDBROKER_CHECK(signals_.valid() && stop_.valid());
  thread_ = std::thread([this] { Loop(); });
}

Interrupts::~Interrupts() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Interrupts::SetHandler(Handler handler) {
  std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
  if (!handler_) return;
  for (int signal : std::exchange(pending_, {})) handler_(signal);
}

void Interrupts::Loop() {
  pollfd fds[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) continue;
    std::lock_guard lock(mutex_);
    const int signal = static_cast<int>(info.ssi_signo);
    if (handler_) {
      handler_(signal);
    } else if (pending_.size() < kMaxPending) {
      pending_.push_back(signal);
    }
  }
}

}  // namespace sandbroker::cli
