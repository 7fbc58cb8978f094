#include "lib/backend/local/local_sandbox.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::local {
namespace {

using boost::system::error_code;

constexpr size_t kComplaintBytes = 4096;

int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

bool PidfdKill(int pidfd) {
  return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0;
}

}  // namespace

LocalSandbox::LocalSandbox(Loop& loop, broker::AgentDialer& dialer, const LocalSettings& settings,
                           std::string uid, Launched launched, Callbacks callbacks)
    : loop_(loop),
      dialer_(dialer),
      settings_(settings),
      uid_(std::move(uid)),
      launched_(std::move(launched)),
      callbacks_(std::move(callbacks)),
      monitor_(loop.context()),
      agent_(loop.context()),
      errors_(loop.context()) {}

LocalSandbox::~LocalSandbox() = default;

void LocalSandbox::Start() {
  errors_.assign(launched_.stderr_.Release());
  ReadComplaints();
  WatchMonitor();
  Dial(settings_.start_bound);
}

void LocalSandbox::Dial(Duration bound) {
  broker::DialTarget target{launched_.socket_path, launched_.secret, boot_id_, dial_.token()};
  dialer_.Dial(
      target, bound, [self = shared_from_this()](const absl::Status& why) { self->OnLost(why); },
      [self = shared_from_this()](absl::StatusOr<broker::AgentDialer::Dialed> dialed) {
        self->OnDialed(std::move(dialed));
      });
}

void LocalSandbox::OnDialed(absl::StatusOr<broker::AgentDialer::Dialed> dialed) {
  if (state_ == State::kEnding || state_ == State::kGone) {
    if (dialed.ok()) dialed->link->Close(absl::CancelledError("the sandbox is ending"));
    return;
  }
  if (!dialed.ok()) {
    return Kill(StrCat("its agent could not be reached: ", MessageOf(dialed.status())));
  }
  const bool first = boot_id_.empty();
  link_ = std::move(dialed->link);
  boot_id_ = link_->info().boot_id;
  state_ = State::kReady;
  up_since_ = loop_.Now();
  if (first) WatchAgent(dialed->peer_pid);
  if (state_ != State::kReady) return;
  first ? callbacks_.ready() : callbacks_.link_restored();
}

void LocalSandbox::OnLost(const absl::Status& why) {
  if (state_ != State::kReady) return;
  state_ = State::kLinkless;
  link_.reset();
  obs::Log(obs::Level::kWarning, "link lost", {{"sandbox", uid_}, {"why", MessageOf(why)}});
  callbacks_.link_lost(why);
  if (DetailOf(why).metadata.count("silent") != 0) {
    // It had its three heartbeats. Ending it turns "does not answer" into "gone for certain".
    return Kill("its agent was silent for three heartbeats");
  }
  // Links that only come to drop again share one bound; one that lasted starts it anew.
  const Time now = loop_.Now();
  if (down_since_ == kNever || now - up_since_ >= settings_.relink_bound) {
    down_since_ = now;
    relink_pause_ = Duration(0);
  }
  const Duration left = down_since_ + settings_.relink_bound - now;
  if (left <= Duration(0)) return Kill("its link kept dropping");
  relink_timer_ =
      loop_.After(std::min<Duration>(relink_pause_, left), [weak = weak_from_this(), left] {
        const auto self = weak.lock();
        if (self && self->state_ == State::kLinkless) self->Dial(left);
      });
  // The first try comes at once; an agent that drops each link is not asked in a tight loop.
  relink_pause_ = std::clamp<Duration>(relink_pause_ * 2, std::chrono::milliseconds(5),
                                       std::chrono::seconds(1));
}

void LocalSandbox::ReadComplaints() {
  errors_.async_read_some(boost::asio::buffer(part_),
                          [self = shared_from_this()](const error_code& error, size_t got) {
                            if (error) return;
                            self->complaint_.append(self->part_.data(), got);
                            if (self->complaint_.size() > kComplaintBytes) {
                              self->complaint_.erase(0, self->complaint_.size() - kComplaintBytes);
                            }
                            self->ReadComplaints();
                          });
}

void LocalSandbox::WatchMonitor() {
  monitor_.assign(launched_.monitor_pidfd.Release());
  monitor_.async_wait(Descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
    if (!error) self->OnMonitorExit();
  });
}

void LocalSandbox::WatchAgent(int pid) {
  const int pidfd = pid > 0 ? PidfdOpen(pid) : -1;
  // It may have ended between its answer and now; then its link is about to be lost.
  if (pidfd < 0) return Kill("its agent ended at once");
  agent_.assign(pidfd);
  agent_.async_wait(Descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
    if (!error) self->OnAgentExit();
  });
}

void LocalSandbox::OnAgentExit() {
  if (cause_.empty()) cause_ = "its agent was killed or ended";
  // The first process of a pid namespace takes everything in it along.
  BecomeGone();
}

void LocalSandbox::OnMonitorExit() {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(launched_.monitor_pid), &info, WEXITED | WNOHANG);
  error_code ignored;
  monitor_.close(ignored);
  if (state_ == State::kGone || agent_.is_open()) return;  // the agent's own exit decides
  if (cause_.empty()) {
    cause_ = StrCat("bubblewrap ended before the agent answered: ", StripWhitespace(complaint_));
  }
  // It ends after its child, unless somebody killed it: then the child is still there.
  if (info.si_code != CLD_EXITED && ChildPid() > 0) kill(ChildPid(), SIGKILL);
  BecomeGone();
}

pid_t LocalSandbox::ChildPid() {
  if (child_pid_ == 0) child_pid_ = ReadChildPid(launched_.info.get());
  return child_pid_;
}

void LocalSandbox::Kill(const std::string& cause) {
  if (state_ == State::kEnding || state_ == State::kGone) return;
  if (cause_.empty()) cause_ = cause;
  state_ = State::kEnding;
  dial_.Cancel();
  KillAgent();
  if (link_) {
    const auto link = std::move(link_);
    link->Close(MakeError(Reason::kSandboxGone, cause_));
  }
}

void LocalSandbox::KillAgent() {
  if (state_ == State::kGone) return;
  if (agent_.is_open()) {
    PidfdKill(agent_.native_handle());
    return;
  }
  // No link was ever up: bubblewrap knows the pid, and as long as it lives it has not reaped it, so
  // the number is still its own. Before it has said so there is nobody to end yet.
  if (ChildPid() > 0) {
    kill(ChildPid(), SIGKILL);
    return;
  }
  kill_timer_ = loop_.After(std::chrono::milliseconds(5), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->KillAgent();
  });
}

void LocalSandbox::BecomeGone() {
  if (state_ == State::kGone) return;
  const auto self = shared_from_this();
  state_ = State::kGone;
  dial_.Cancel();
  error_code ignored;
  kill_timer_.reset();
  relink_timer_.reset();
  agent_.close(ignored);
  errors_.close(ignored);
  if (link_) {
    const auto link = std::move(link_);
    link->Close(MakeError(Reason::kSandboxGone, cause_));
  }
  const auto gone = std::move(callbacks_.gone);
  callbacks_ = {};
  gone(cause_);
}

}  // namespace sandbroker::local
