#include "lib/broker/sandbox.h"

#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/ended.h"

namespace sandbroker::broker {

Sandbox::Sandbox(Scheduler& scheduler, obs::Metrics& metrics, Identity identity,
                 const LeaseSpec& lease, const LeaseSettings& settings,
                 std::shared_ptr<AgentLink> link, std::function<void()> over)
    : scheduler_(scheduler),
      metrics_(metrics),
      identity_(std::move(identity)),
      lease_(lease, settings, scheduler.WallNow()),
      link_(std::move(link)),
      incarnation_(link_->info().boot_id),
      over_(std::move(over)) {
  PushBackstop();
  ArmLook();
  ArmWarning();
}

Sandbox::~Sandbox() { *alive_ = false; }

void Sandbox::Touch() {
  const auto until = lease_.Activity(scheduler_.WallNow());
  if (!until) return;
  lease_.Written(*until);
  PushBackstop();
  ArmLook();
}

void Sandbox::PushBackstop() {
  if (!link_) return;
  link_->SetBackstop(scheduler_.Now() + (lease_.backstop() - scheduler_.WallNow()));
}

void Sandbox::ArmLook() {
  const Duration until_look = lease_.NextLook() - scheduler_.WallNow();
  look_timer_ = scheduler_.After(std::max(until_look, Duration(0)), [this] { OnLook(); });
}

void Sandbox::ArmWarning() {
  const WallTime now = scheduler_.WallNow();
  const WallTime next = lease_.NextWarning(now);
  if (next == WallTime::max()) return;
  warn_timer_ = scheduler_.After(next - now, [this] { Warn(); });
}

void Sandbox::Warn() {
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(
      lease_.hard_end() - scheduler_.WallNow() + std::chrono::milliseconds(500));
  const std::string message =
      StrCat("the sandbox reaches its max_lifetime in ", left.count(), " s and ends then");
  const auto relays = relays_;  // an observer may leave in its callback
  for (const auto& [key, relay] : relays) relay->Warn("LEASE_ENDING", message);
  ArmWarning();
}

void Sandbox::OnLook() {
  if (state_ == SandboxState::kReleasing) return;
  if (lease_.HardOver(scheduler_.WallNow())) {
    Judge(Look::kIdle);
  } else if (!relays_.empty()) {
    Judge(Look::kBusy);  // an open stream is activity
  } else if (!link_ || !link_->open()) {
    Judge(Look::kUnreachable);
  } else {
    link_->Query([this, alive = alive_](absl::StatusOr<agent::Report> report) {
      if (!*alive) return;
      if (!report.ok()) return Judge(Look::kUnreachable);
      const bool running = lease_.spec().keep_while_running && report->running() > 0;
      Judge(running || report->attached() > 0 ? Look::kBusy : Look::kIdle);
    });
  }
}

void Sandbox::Judge(Look look) {
  const WallTime now = scheduler_.WallNow();
  switch (lease_.Decide(now, look)) {
    case Lease::Verdict::kNotYet:  // renewed meanwhile
      return ArmLook();
    case Lease::Verdict::kRenew:
      return Touch();
    case Lease::Verdict::kWaitForBackstop:
      look_timer_ = scheduler_.After(lease_.backstop() - now, [this] { OnLook(); });
      return;
    case Lease::Verdict::kTakeBack:
      look_timer_.reset();
      return over_();
  }
}

absl::StatusOr<std::shared_ptr<Execution>> Sandbox::Start(agent::Start start, uint64_t window,
                                                          ExecutionObserver* observer) {
  if (!link_ || !link_->open()) {
    return MakeError(Reason::kAgentUnreachable, "the sandbox's agent does not answer just now");
  }
  auto relay =
      std::make_shared<ExecutionRelay>(scheduler_, this, observer, std::move(start), window);
  relays_.emplace(relay.get(), relay);
  metrics_.AddOpenStreams(1);
  relay->Begin(*link_);
  return relay;
}

void Sandbox::OnOutput(uint64_t bytes) {
  metrics_.AddOutputBytes(static_cast<double>(bytes));
  Touch();
}

void Sandbox::OnInput(uint64_t bytes) {
  metrics_.AddInputBytes(static_cast<double>(bytes));
  Touch();
}

void Sandbox::MarkReleasing(Reason reason, const std::string& cause) {
  if (state_ == SandboxState::kReleasing) return;
  state_ = SandboxState::kReleasing;
  release_reason_ = reason;
  release_cause_ = cause;
}

void Sandbox::OnLinkLost() {
  link_.reset();
  if (state_ == SandboxState::kReady) state_ = SandboxState::kUnreachable;
}

void Sandbox::OnLinkRestored(std::shared_ptr<AgentLink> link) {
  link_ = std::move(link);
  if (state_ == SandboxState::kUnreachable) state_ = SandboxState::kReady;
  PushBackstop();
  ArmLook();                    // one that found no link was left to the backstop
  const auto relays = relays_;  // a relay that ends in Resume leaves the map
  for (const auto& [key, relay] : relays) relay->Resume(*link_);
}

void Sandbox::OnGone(const agent::Ended& ended) {
  look_timer_.reset();
  warn_timer_.reset();
  const auto relays = relays_;
  for (const auto& [key, relay] : relays) relay->OnGone(ended);
}

void Sandbox::FailAll(const absl::Status& status) {
  const auto relays = relays_;
  for (const auto& [key, relay] : relays) relay->Fail(status);
}

void Sandbox::OnRelayOver(ExecutionRelay* relay) {
  if (relays_.erase(relay) != 0) metrics_.AddOpenStreams(-1);
}

void Sandbox::OnExecutionEnded(const agent::Ended& ended) {
  metrics_.CountExecution(std::string(EndName(ended)));
  if (ended.duration_ns() > 0) {
    metrics_.ObserveExecution(std::chrono::duration<double>(Duration(ended.duration_ns())).count());
  }
  Touch();
}

}  // namespace sandbroker::broker
