#include "lib/backend/local/pool.h"

#include <algorithm>
#include <utility>

#include "lib/backend/local/isolation.h"
#include "lib/base/crypto.h"
#include "lib/base/fail_point.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"
#include "lib/wire/handshake.h"

namespace sandbroker::local {
namespace {

using broker::AcquireQueue;
using broker::Binding;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What a sandbox is made of. Another program or another way of starting it gives another one.
std::string MadeOf(const LocalSettings& settings, const TemplateSettings& tmpl) {
  FieldList fields("made.1");
  fields.Add(SANDBROKER_VERSION).AddAll(BubblewrapArgv(settings.bwrap_path, tmpl, {}, {}));
  fields.Add(static_cast<int64_t>(tmpl.memory_bytes)).Add(static_cast<int64_t>(tmpl.pids));
  return HexEncode(fields.Hash());
}

}  // namespace

bool UidRange::Take(uid_t* uid) {
  *uid = 0;
  if (!enabled_) return true;
  for (size_t tried = 0; tried < used_.size(); ++tried) {
    const size_t at = next_++ % used_.size();
    if (used_[at]) continue;
    used_[at] = true;
    *uid = first_ + static_cast<uid_t>(at);
    return true;
  }
  return false;
}

bool UidRange::TakeThis(uid_t uid) {
  if (!Holds(uid)) return true;
  if (used_[uid - first_]) return false;
  used_[uid - first_] = true;
  return true;
}

void UidRange::Free(uid_t uid) {
  if (Holds(uid)) used_[uid - first_] = false;
}

Pool::Pool(PoolParts parts, PoolSettings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      template_(parts.settings.templates.at(settings_.template_name)),
      made_(MadeOf(parts.settings, template_)),
      host_(HostName()),
      queue_({settings_.warm, settings_.limit, settings_.max_waiting, settings_.max_starting}) {}

broker::PoolCounts Pool::Counts() const {
  broker::PoolCounts counts;
  for (const auto& [uid, member] : members_) {
    if (member.use == Use::kStarting) ++counts.starting;
    if (member.use == Use::kReady) ++counts.ready;
    if (member.use == Use::kClaimed || member.use == Use::kEnding) ++counts.claimed;
  }
  return counts;
}

void Pool::Publish() const {
  const broker::PoolCounts counts = Counts();
  parts_.metrics.SetPool(settings_.name, static_cast<int>(counts.ready),
                         static_cast<int>(counts.starting), static_cast<int>(counts.claimed),
                         static_cast<int>(queue_.waiting()));
}

broker::PoolCapacity Pool::Capacity() const {
  const broker::PoolCounts counts = Counts();
  broker::PoolCapacity capacity;
  capacity.pool = settings_.name;
  capacity.wanted = settings_.warm;
  capacity.ready = counts.ready;
  capacity.pending = counts.starting;
  capacity.claimed = counts.claimed;
  capacity.waiting_callers = queue_.waiting();
  capacity.limit = settings_.limit;
  capacity.last_error = last_error_;
  return capacity;
}

void Pool::Refill() {
  if (draining_ || backoff_timer_) return;
  for (uint32_t n = queue_.ToStart(Counts()); n > 0; --n) {
    Member member;
    if (!parts_.uids.Take(&member.record.host_uid)) {
      last_error_ = "no free host uid; raise uid_count";
      break;
    }
    const std::string uid = NewId();
    member.begun = parts_.loop.Now();
    member.record.uid = uid;
    member.record.pool = settings_.name;
    member.record.made = made_;
    member.record.secret = RandomBytes(wire::kSecretSize);
    members_.emplace(uid, std::move(member));
    parts_.scope.Spawn("start sandbox", StartOne(uid));
  }
  Publish();
}

Task<void> Pool::StartOne(std::string uid) {
  const SandboxRecord& record = members_.at(uid).record;
  const LaunchOrder order{uid, record.host_uid, record.secret, EncodeRecord(record)};
  const auto launch = [this, order] { return Launch(parts_.settings, template_, order); };
  absl::StatusOr<absl::StatusOr<Launched>> launched = co_await parts_.blocking.Run(launch);
  const absl::Status status = launched.ok() ? launched->status() : launched.status();
  if (!status.ok()) {
    const std::vector<OneShot<bool>> waiters = std::move(members_.at(uid).gone_waiters);
    Forget(uid);
    for (const OneShot<bool>& waiter : waiters) waiter.Set(true);
    OnStartFailed(std::string(MessageOf(status)));
    co_return;
  }
  Member& member = members_.at(uid);
  member.sandbox = std::make_shared<LocalSandbox>(parts_.loop, parts_.dialer, parts_.settings, uid,
                                                  **std::move(launched), CallbacksOf(uid));
  member.sandbox->Start();
  if (draining_ || member.use == Use::kEnding) {
    member.use = Use::kEnding;
    member.sandbox->Kill("the broker is stopping");
  }
}

LocalSandbox::Callbacks Pool::CallbacksOf(const std::string& uid) {
  LocalSandbox::Callbacks callbacks;
  callbacks.ready = [this, uid] { OnReady(uid); };
  callbacks.gone = [this, uid](const std::string& cause) { OnGone(uid, cause); };
  callbacks.link_lost = [this, uid](const absl::Status& why) {
    Member& member = members_.at(uid);
    if (member.use == Use::kReady) {
      // Nobody has it: not worth mending.
      member.use = Use::kEnding;
      ready_.erase(std::remove(ready_.begin(), ready_.end(), uid), ready_.end());
      parts_.loop.Post([sandbox = member.sandbox] { sandbox->Kill("warm sandbox lost its link"); });
    } else if (member.use == Use::kClaimed && observer_ != nullptr) {
      observer_->OnLinkLost(uid, why);
    }
  };
  callbacks.link_restored = [this, uid] {
    const Member& member = members_.at(uid);
    if (member.use == Use::kClaimed && observer_ != nullptr) {
      observer_->OnLinkRestored(uid, member.sandbox->link());
    }
  };
  return callbacks;
}

void Pool::OnReady(const std::string& uid) {
  Member& member = members_.at(uid);
  if (member.use != Use::kStarting) return;
  if (member.adopted) return OnAdopted(uid);
  SANDBROKER_FAIL_POINT("launch.ready");
  member.start_time = parts_.loop.Now() - member.begun;
  member.record.phase = broker::RecordPhase::kWarm;
  member.record.host = host_;
  member.record.boot_id = member.sandbox->boot_id();
  member.record.agent = member.sandbox->agent();
  last_error_.clear();
  backoff_ = Duration(0);
  BecomeReady(uid);
  Refill();
}

void Pool::BecomeReady(const std::string& uid) {
  Member& member = members_.at(uid);
  member.sandbox->link()->SetBackstop(parts_.loop.Now() + parts_.settings.warm_backstop);
  if (const auto ticket = queue_.OnReady()) {
    member.use = Use::kClaimed;
    const auto waiter = waiters_.extract(*ticket);
    waiter.mapped().Set(uid);
    return ArmExpiry();
  }
  member.use = Use::kReady;
  ready_.push_back(uid);
  if (!alive_timer_) KeepWarmAlive();
  if (!member.adopted) parts_.scope.Spawn("note warm sandbox", Note(uid));
}

// Without it, a broker that dies now has started this one in vain; nothing else depends on it.
Task<void> Pool::Note(std::string uid) {
  const auto it = members_.find(uid);
  if (it == members_.end()) co_return;
  const absl::Status status = co_await parts_.records.Write(it->second.record);
  SANDBROKER_FAIL_POINT("launch.noted");
  if (status.ok() || ReasonOf(status) == Reason::kSandboxGone) co_return;
  obs::Log(obs::Level::kWarning, "a state file could not be written",
           {{"sandbox", uid}, {"why", MessageOf(status)}});
}

Task<absl::Status> Pool::Remember(std::string uid, broker::Claim claim) {
  const auto it = members_.find(uid);
  if (it == members_.end() || it->second.use != Use::kClaimed) {
    co_return MakeError(Reason::kSandboxGone, "the sandbox has ended");
  }
  SandboxRecord& record = it->second.record;
  record.phase = broker::RecordPhase::kClaimed;
  record.claim = std::move(claim);
  const absl::Status status = co_await parts_.records.Write(record);
  Refill();
  co_return status;
}

const broker::Claim* Pool::ClaimOf(const std::string& uid) const {
  const auto it = members_.find(uid);
  if (it == members_.end() || !it->second.record.claim) return nullptr;
  return &*it->second.record.claim;
}

void Pool::OnGone(const std::string& uid, const std::string& cause) {
  Member& member = members_.at(uid);
  const Use use = member.use;
  const bool adopted = member.adopted;
  const OneShot<bool> settled = member.settled;
  ready_.erase(std::remove(ready_.begin(), ready_.end(), uid), ready_.end());
  const std::vector<OneShot<bool>> waiters = std::move(member.gone_waiters);
  SANDBROKER_FAIL_POINT("release.killed");
  Forget(uid);
  for (const OneShot<bool>& waiter : waiters) waiter.Set(true);
  settled.Set(false);
  const bool bound = use == Use::kClaimed || use == Use::kEnding;
  if (bound && observer_ != nullptr) observer_->OnSandboxGone(uid, cause);
  if (use == Use::kStarting && !adopted) return OnStartFailed(cause);
  Refill();
}

void Pool::OnStartFailed(const std::string& why) {
  last_error_ = why;
  obs::Log(obs::Level::kError, "a sandbox could not be started",
           {{"pool", settings_.name}, {"why", why}});
  parts_.metrics.CountRelease("start_failed");
  if (draining_) return;  // a timer would outlive the pool's end
  backoff_ = std::clamp<Duration>(backoff_ * 2, milliseconds(100), seconds(10));
  backoff_timer_ = parts_.loop.After(backoff_, [this] {
    backoff_timer_.reset();
    Refill();
  });
}

std::string Pool::NextReady() {
  const std::string uid = ready_.front();
  ready_.pop_front();
  members_.at(uid).use = Use::kClaimed;
  return uid;
}

Task<absl::StatusOr<Binding>> Pool::Acquire(broker::AcquireSpec spec, CancelToken cancel) {
  if (draining_) co_return DrainingError();
  if (cancel.cancelled()) co_return MakeError(Reason::kCancelled, "the caller went away");
  const Time arrived = parts_.loop.Now();
  AcquireQueue::Ticket ticket = 0;
  const Time deadline = SaturatingAdd(arrived, spec.wait_bound);
  switch (queue_.Arrive(spec.fallback, deadline, Counts(), &ticket)) {
    case AcquireQueue::Admission::kTake: {
      // Its place is filled once the claim is written (Remember): starting another one takes
      // processor time that this caller would wait for.
      const std::string uid = NextReady();
      co_return Bind(uid, arrived);
    }
    case AcquireQueue::Admission::kDry:
    case AcquireQueue::Admission::kFull:
      co_return DryError(spec);
    case AcquireQueue::Admission::kQueued:
      break;
  }
  OneShot<Handed> handed;
  waiters_.emplace(ticket, handed);
  cancel.OnCancel([this, ticket, handed] {
    if (!queue_.Leave(ticket)) return;
    waiters_.erase(ticket);
    ArmExpiry();
    handed.Set(MakeError(Reason::kCancelled, "the caller went away"));
  });
  ArmExpiry();
  Refill();
  const Handed uid = co_await handed.Wait();
  cancel.OnCancel(nullptr);
  if (!uid.ok()) {
    if (uid.status().code() == absl::StatusCode::kDeadlineExceeded) co_return DryError(spec);
    co_return uid.status();
  }
  co_return Bind(*uid, arrived);
}

absl::StatusOr<Binding> Pool::Bind(const std::string& uid, Time arrived) {
  const auto it = members_.find(uid);
  if (it == members_.end() || it->second.sandbox->link() == nullptr) {
    // It lost its link at this very moment: nobody will have it.
    if (it != members_.end()) {
      it->second.use = Use::kEnding;
      parts_.loop.Post([sandbox = it->second.sandbox] { sandbox->Kill("lost its link"); });
    }
    return MakeError(Reason::kNotReady, "the sandbox ended while it was handed out; try again");
  }
  const Member& member = it->second;
  Binding binding;
  binding.uid = uid;
  binding.link = member.sandbox->link();
  const bool cold = member.begun >= arrived;
  binding.source = cold ? broker::Source::kCold : broker::Source::kWarm;
  binding.started = cold ? member.start_time : Duration(0);
  binding.queued = std::max(parts_.loop.Now() - arrived - binding.started, Duration(0));
  Publish();
  return binding;
}

absl::Status Pool::DryError(const broker::AcquireSpec& spec) const {
  const broker::PoolCounts counts = Counts();
  ErrorDetail detail;
  detail.reason = Reason::kPoolExhausted;
  detail.metadata = {{"pool", settings_.name},
                     {"limit", std::to_string(settings_.limit)},
                     {"claimed", std::to_string(counts.claimed)}};
  const std::string failed = last_error_.empty() ? "" : StrCat("; last start: ", last_error_);
  return MakeError(
      std::move(detail),
      StrCat("pool '", spec.pool, "' had no sandbox in time: ", counts.claimed, " of at most ",
             settings_.limit, " are held, ", queue_.waiting(), " callers wait", failed));
}

void Pool::ArmExpiry() {
  const Time next = queue_.NextDeadline();
  if (next == kNever) {
    expiry_timer_.reset();
    return;
  }
  expiry_timer_ = parts_.loop.After(std::max(next - parts_.loop.Now(), Duration(0)), [this] {
    for (const auto ticket : queue_.Expire(parts_.loop.Now())) {
      waiters_.extract(ticket).mapped().Set(absl::DeadlineExceededError("wait_bound"));
    }
    ArmExpiry();
    Publish();
  });
}

void Pool::KeepWarmAlive() {
  const Time until = parts_.loop.Now() + parts_.settings.warm_backstop;
  for (const std::string& uid : ready_) members_.at(uid).sandbox->link()->SetBackstop(until);
  alive_timer_ = parts_.loop.After(parts_.settings.warm_backstop / 3, [this] { KeepWarmAlive(); });
}

}  // namespace sandbroker::local
