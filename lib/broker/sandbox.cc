#include "lib/broker/sandbox.h"

#include <utility>
#include <vector>

#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/ended.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {
namespace {

// After a lease could not be written.
constexpr Duration kWritePause = std::chrono::seconds(1);
// After its end could not be settled with the backend.
constexpr Duration kEndPause = std::chrono::seconds(5);
// A call that finds less than this on the lease has it written before it begins.
constexpr Duration kThinLease = std::chrono::seconds(5);

}  // namespace

Sandbox::Sandbox(Scheduler& scheduler, obs::Metrics& metrics, Identity identity, Lease lease,
                 std::shared_ptr<AgentLink> link, Hooks hooks)
    : scheduler_(scheduler),
      metrics_(metrics),
      identity_(std::move(identity)),
      lease_(lease),
      link_(std::move(link)),
      incarnation_(link_->info().boot_id),
      hooks_(std::move(hooks)) {}

Sandbox::~Sandbox() {
  *alive_ = false;
  const absl::Status gone = MakeError(Reason::kSandboxGone, "the sandbox ended meanwhile");
  for (const auto& renewal : renewals_) renewal.Set(gone);
}

Claim Sandbox::ClaimWith(WallTime until, bool outage_ttl) const {
  return {identity_.tenant, identity_.labels,  lease_.spec(),  lease_.acquired(), until,
          outage_ttl,       identity_.receipt, identity_.token};
}

Claim Sandbox::claim() const {
  Claim claim = ClaimWith(lease_.until(), lease_.outage_ttl());
  claim.token = kept_token_;
  return claim;
}

void Sandbox::Keep(const Claim& claim, std::function<void(absl::Status)> done) {
  std::optional<Claim> base;
  if (begun_) base = this->claim();
  hooks_.keep(claim, std::move(base), std::move(done));
}

Task<absl::Status> Sandbox::KeepNow() {
  OneShot<absl::Status> kept;
  Keep(ClaimWith(lease_.until(), lease_.outage_ttl()),
       [kept](absl::Status status) { kept.Set(std::move(status)); });
  const auto alive = alive_;
  absl::Status status = co_await kept.Wait();
  if (!*alive) status = MakeError(Reason::kSandboxGone, "the sandbox ended meanwhile");
  if (status.ok()) kept_token_ = identity_.token;
  co_return status;
}

Task<absl::Status> Sandbox::Establish() {
  const absl::Status status = co_await KeepNow();
  if (status.ok()) Begin();
  co_return status;
}

void Sandbox::Restore() {
  begun_ = true;
  kept_token_ = identity_.token;
  ShowState();
  const auto until = lease_.AfterOutage(scheduler_.WallNow());
  ArmWarning();
  if (until) return WriteLease(*until, Why::kOutage);
  if (!lease_.HardOver(scheduler_.WallNow())) PushBackstop();
  ArmLook();
}

// What the record says is true from here on.
void Sandbox::Begin() {
  begun_ = true;
  if (state_ == SandboxState::kStarting) ShowState();
  PushBackstop();
  ArmLook();
  ArmWarning();
}

Task<absl::Status> Sandbox::Restamp(std::string token) {
  identity_.token = std::move(token);
  co_return co_await KeepNow();
}

void Sandbox::ShowState() {
  state_ = !begun_ ? SandboxState::kStarting
           : link_ ? SandboxState::kReady
                   : SandboxState::kUnreachable;
  hooks_.changed();
}

void Sandbox::TakeOver(const Claim& claim) {
  overtaken_ = true;
  identity_.token = kept_token_ = claim.token;
  lease_.TakeOver(claim.until, claim.outage_ttl);
  // What is being handed out or written tells the agent when it is.
  if (begun_) PushBackstop();
  hooks_.changed();
}

void Sandbox::OnClaimChanged(const Claim& claim) {
  TakeOver(claim);
  if (begun_ && state_ != SandboxState::kReleasing && !writing_) ArmLook();
}

bool Sandbox::StillOver(const Claim& record) {
  TakeOver(record);
  const bool over = lease_.Decide(scheduler_.WallNow(), Look::kIdle) == Lease::Verdict::kTakeBack;
  if (writing_) return false;
  if (over && !touched_ && relays_.empty()) return true;
  if (over) Touch();  // somebody came since the agent was asked
  if (over && !writing_) LookAfterWrite();
  if (!over) ArmLook();
  return false;
}

void Sandbox::LookLater() {
  look_timer_ = scheduler_.After(kEndPause, [this] { OnLook(); });
}

void Sandbox::LookAfterWrite() {
  look_timer_ = scheduler_.After(kWritePause, [this] { OnLook(); });
}

void Sandbox::EndLater() {
  look_timer_ = scheduler_.After(kEndPause, [this] { hooks_.over(); });
}

void Sandbox::Touch() {
  touched_ = true;
  if (writing_ || scheduler_.Now() < write_again_) return;
  const auto until = lease_.Activity(scheduler_.WallNow());
  if (until) WriteLease(*until, Why::kActivity);
}

void Sandbox::WriteLease(WallTime until, Why why) {
  writing_ = true;
  overtaken_ = false;
  SANDBROKER_FAIL_POINT("lease.before_write");
  Keep(ClaimWith(until, why == Why::kOutage),
       [this, alive = alive_, until, why](const absl::Status& status) {
         if (*alive) OnLeaseWritten(until, why, status);
       });
}

void Sandbox::OnLeaseWritten(WallTime until, Why why, const absl::Status& status) {
  SANDBROKER_FAIL_POINT("lease.written");
  writing_ = false;
  write_error_ = status;
  if (status.ok()) {
    // Activity counts beside what another replica has written; a ttl for an outage may have been
    // given, or not be needed any more, and then it has been told what stands.
    if (why == Why::kActivity) lease_.Written(until);
    if (why == Why::kOutage && !overtaken_) lease_.WrittenAfterOutage(until);
    PushBackstop();
    ArmLook();
    hooks_.changed();
  } else {
    obs::Log(obs::Level::kWarning, "a lease could not be written",
             {{"sandbox", identity_.uid}, {"why", MessageOf(status)}});
    write_again_ = scheduler_.Now() + kWritePause;
    // What was activity in vain is not asked for again: the lease ends as it is written.
    LookAfterWrite();
  }
  const auto late = std::exchange(late_, {});
  for (const auto& relay : late) {
    if (link_ && link_->open()) relay->BeginLate(*link_);
  }
  // Last: what goes on here may end this sandbox.
  const auto renewals = std::exchange(renewals_, {});
  for (const auto& renewal : renewals) renewal.Set(status);
}

Task<absl::Status> Sandbox::Renew() {
  const auto alive = alive_;
  // A write under way was begun by someone who came earlier: look again after it.
  for (int round = 0; round < 2; ++round) {
    Touch();
    if (!writing_) break;
    OneShot<absl::Status> written;
    renewals_.push_back(written);
    const absl::Status status = co_await written.Wait();
    if (!*alive || !status.ok()) co_return status;
  }
  if (lease_.Activity(scheduler_.WallNow()) && !write_error_.ok()) co_return write_error_;
  co_return absl::OkStatus();
}

void Sandbox::PushBackstop() {
  // While the lease is being written, an end that it had in an outage must not reach the agent.
  if (!link_ || writing_) return;
  link_->SetBackstop(scheduler_.Now() + (lease_.backstop() - scheduler_.WallNow()));
}

void Sandbox::ArmLook() {
  const WallTime now = scheduler_.WallNow();
  const Duration until_look = lease_.NextWake(now) - now;
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
  // What is being written looks again when it is.
  if (state_ == SandboxState::kReleasing || writing_) return;
  if (lease_.KeepsAhead(scheduler_.WallNow())) {
    // Other replicas will look: what is attached here keeps the lease ahead of that.
    if (!relays_.empty()) Touch();
    if (!writing_) ArmLook();
    return;
  }
  SANDBROKER_FAIL_POINT("lease.look");
  touched_ = false;
  // An agent whose answer can change nothing is not asked.
  const bool known = lease_.HardOver(scheduler_.WallNow()) || !relays_.empty();
  if (known || !link_ || !link_->open()) {
    return Judge(lease_.See(!relays_.empty(), std::nullopt));
  }
  link_->Query([this, alive = alive_](absl::StatusOr<agent::Report> report) {
    if (!*alive) return;
    std::optional<AgentSays> says;
    if (report.ok()) says = {report->running(), report->attached()};
    // What came since the agent was asked may have left something that runs.
    Judge(lease_.See(!relays_.empty() || touched_, says));
  });
}

void Sandbox::Judge(Look look) {
  if (writing_) return;  // somebody came while the agent was asked
  const WallTime now = scheduler_.WallNow();
  switch (lease_.Decide(now, look)) {
    case Lease::Verdict::kNotYet:  // renewed meanwhile
      return ArmLook();
    case Lease::Verdict::kRenew:
      Touch();
      if (!writing_) LookAfterWrite();
      return;
    case Lease::Verdict::kWaitForBackstop:
      look_timer_ = scheduler_.After(lease_.backstop() - now, [this] { OnLook(); });
      return;
    case Lease::Verdict::kTakeBack:
      look_timer_.reset();
      return hooks_.over();
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
  Touch();
  if (writing_ && lease_.Remaining(scheduler_.WallNow()) < kThinLease) {
    late_.push_back(relay);
  } else {
    SANDBROKER_FAIL_POINT("exec.before_open");
    relay->Begin(*link_);
    SANDBROKER_FAIL_POINT("exec.opened");
  }
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
  if (begun_) hooks_.changed();
}

void Sandbox::Spare() {
  if (state_ != SandboxState::kReleasing) return;
  ShowState();
  if (begun_ && !writing_) ArmLook();
}

void Sandbox::OnLinkLost() {
  link_.reset();
  if (state_ == SandboxState::kReady) ShowState();
}

void Sandbox::OnLinkRestored(std::shared_ptr<AgentLink> link) {
  link_ = std::move(link);
  if (state_ == SandboxState::kUnreachable) ShowState();
  if (state_ != SandboxState::kStarting) {
    PushBackstop();
    ArmLook();  // one that found no link was left to the backstop
  }
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
