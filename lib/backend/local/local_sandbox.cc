#include "lib/backend/local/local_sandbox.h"

#include <signal.h>
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

// While bubblewrap sets up, its child can't be named: tried again this often, so many times.
constexpr Duration kKillPause = std::chrono::milliseconds(5);
constexpr int kMaxKillTries = 400;

}  // namespace

LocalSandbox::LocalSandbox(Loop& loop, broker::AgentDialer& dialer, const LocalSettings& settings,
                           std::string uid, Launched launched, Callbacks callbacks)
    : loop_(loop),
      dialer_(dialer),
      settings_(settings),
      uid_(std::move(uid)),
      launched_(std::move(launched)),
      callbacks_(std::move(callbacks)),
      boot_id_(launched_.boot_id),
      monitor_(loop.context()),
      agent_(loop.context()),
      errors_(loop.context()) {}

LocalSandbox::~LocalSandbox() = default;

void LocalSandbox::Start() {
  if (launched_.agent_pidfd.valid()) {
    WatchAgent(std::move(launched_.agent_pidfd));
    return Dial(settings_.adopt_bound);
  }
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
  const bool first = state_ == State::kStarting;
  if (first && !FindAgent(&*dialed)) {
    dialed->link->Close(MakeError(Reason::kSandboxGone, cause_));
    return;
  }
  link_ = std::move(dialed->link);
  boot_id_ = link_->info().boot_id;
  state_ = State::kReady;
  up_since_ = loop_.Now();
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

// Who has just proved itself is the process that is watched from now on.
bool LocalSandbox::FindAgent(broker::AgentDialer::Dialed* dialed) {
  const auto fail = [this](const char* why) {
    Kill(why);
    return false;
  };
  if (agent_.is_open()) {
    // One that an earlier broker launched: the record's process must be the one that answers.
    if (dialed->peer_pid != launched_.agent_pid)
      return fail("another process answers for its agent");
  } else {
    UniqueFd pidfd = std::move(dialed->peer_pidfd);
    if (!pidfd.valid() && dialed->peer_pid > 0) pidfd = OpenPidfd(dialed->peer_pid);
    // It may have ended between its answer and now; then its link is about to be lost.
    if (!pidfd.valid()) return fail("its agent ended at once");
    WatchAgent(std::move(pidfd));
  }
  const auto start = StartTimeOf(dialed->peer_pid);
  if (!start) return fail("its agent ended at once");
  agent_name_ = {dialed->peer_pid, *start};
  return true;
}

void LocalSandbox::WatchAgent(UniqueFd pidfd) {
  agent_.assign(pidfd.Release());
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

void LocalSandbox::Stop(const std::string& cause, Duration grace) {
  if (state_ == State::kEnding || state_ == State::kGone) return;
  if (!agent_.is_open() || !SignalProcess(agent_.native_handle(), SIGTERM)) return Kill(cause);
  if (cause_.empty()) cause_ = cause;
  state_ = State::kEnding;
  dial_.Cancel();
  kill_timer_ = loop_.After(grace, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->KillAgent();
  });
}

void LocalSandbox::KillAgent() {
  if (state_ == State::kGone) return;
  if (agent_.is_open()) {
    SignalProcess(agent_.native_handle(), SIGKILL);
    return;
  }
  // No link was ever up: bubblewrap knows the pid, and as long as it lives it has not reaped it, so
  // the number is still its own. Before it has said so there is nobody to end yet.
  if (ChildPid() > 0) {
    kill(ChildPid(), SIGKILL);
    return;
  }
  if (++kill_tries_ > kMaxKillTries) return KillMonitor();
  kill_timer_ = loop_.After(kKillPause, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->KillAgent();
  });
}

// It hangs in its setup. A child that it has made and not told of would be left behind, so they are
// looked for by name.
void LocalSandbox::KillMonitor() {
  if (monitor_.is_open()) SignalProcess(monitor_.native_handle(), SIGKILL);
  EndMarked({uid_}, Duration(0));
}

void LocalSandbox::Abandon() {
  if (state_ == State::kGone) return;
  callbacks_ = {};
  LetGo(MakeError(Reason::kServerDraining, "this server is going away"));
  error_code ignored;
  monitor_.close(ignored);
}

void LocalSandbox::BecomeGone() {
  if (state_ == State::kGone) return;
  const auto self = shared_from_this();
  const auto gone = std::move(callbacks_.gone);
  callbacks_ = {};
  LetGo(MakeError(Reason::kSandboxGone, cause_));
  gone(cause_);
}

void LocalSandbox::LetGo(const absl::Status& why) {
  state_ = State::kGone;
  dial_.Cancel();
  error_code ignored;
  kill_timer_.reset();
  relink_timer_.reset();
  agent_.close(ignored);
  errors_.close(ignored);
  if (!link_) return;
  const auto link = std::move(link_);
  link->Close(why);
}

}  // namespace sandbroker::local
