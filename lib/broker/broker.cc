#include "lib/broker/broker.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lib/base/crypto.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/core/spec_hash.h"
#include "lib/broker/ended.h"
#include "lib/broker/sandbox.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {
namespace {

bool ParseInt(std::string_view text, int64_t* number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

}  // namespace

Broker::Broker(Scheduler& scheduler, TaskScope& scope, Backend& backend, ReceiptStore& receipts,
               obs::Metrics& metrics, BrokerSettings settings)
    : scheduler_(scheduler),
      scope_(scope),
      backend_(backend),
      receipts_(receipts),
      metrics_(metrics),
      settings_(std::move(settings)) {
  backend_.SetObserver(this);
}

Broker::~Broker() {
  EndWatches();
  backend_.SetObserver(nullptr);
}

absl::StatusOr<Handle> Broker::OpenHandle(const Principal& who, const std::string& text) const {
  auto handle = DecodeHandle(text, settings_.handle_key);
  if (!handle.ok()) return handle;
  const bool elsewhere = handle->kind != 't' || handle->space != backend_.space();
  if (handle->tenant != who.tenant || elsewhere) {
    // The same answer as for a forged one: its existence is nobody else's business.
    return DecodeHandle("", settings_.handle_key).status();
  }
  return handle;
}

absl::Status Broker::GoneError(const Handle& handle) const {
  const auto it = remembered_.find(handle.uid);
  if (it == remembered_.end() || it->second.cause.empty()) {
    return MakeError(Reason::kSandboxGone, "the sandbox of this handle is gone");
  }
  ErrorDetail detail;
  detail.reason = it->second.reason;
  detail.metadata["cause"] = it->second.cause;
  return MakeError(std::move(detail),
                   it->second.reason == Reason::kLeaseExpired
                       ? "its lease ran out and the sandbox was taken back"
                       : StrCat("the sandbox of this handle is gone: ", it->second.cause));
}

absl::StatusOr<Sandbox*> Broker::Find(const Principal& who, const std::string& text) {
  return Find(OpenHandle(who, text));
}

absl::StatusOr<Sandbox*> Broker::Find(const absl::StatusOr<Handle>& handle) {
  if (!handle.ok()) return handle.status();
  const auto it = sandboxes_.find(handle->uid);
  if (it == sandboxes_.end()) return GoneError(*handle);
  Sandbox* sandbox = it->second.get();
  if (sandbox->state() == SandboxState::kReleasing) {
    return MakeError(Reason::kSandboxGone, "the sandbox is being released");
  }
  // Past its end and not yet taken back: it may be busy, which only a look can tell, so a call
  // keeps it like any other.
  return sandbox;
}

SandboxView Broker::View(const Sandbox& sandbox) const {
  const Sandbox::Identity& identity = sandbox.identity();
  const Lease& lease = sandbox.lease();
  SandboxView view;
  const std::string& name = identity.name.empty() ? identity.pool : identity.name;
  view.handle = EncodeHandle(
      {identity.tenant, 't', backend_.space(), name, identity.uid, sandbox.incarnation()},
      settings_.handle_key);
  view.state = sandbox.state();
  view.pool = identity.pool;
  view.labels = identity.labels;
  view.lease = {lease.until(), lease.Remaining(scheduler_.WallNow()), lease.spec()};
  view.incarnation = sandbox.incarnation();
  view.acquired = lease.acquired();
  if (view.state == SandboxState::kUnreachable) {
    view.not_ready_reason = "its agent does not answer; the link is being restored";
  }
  return view;
}

absl::StatusOr<SandboxView> Broker::Get(const Principal& who, const std::string& handle) {
  const auto sandbox = Find(who, handle);
  if (!sandbox.ok()) return sandbox.status();
  return View(**sandbox);
}

absl::StatusOr<SandboxPage> Broker::List(const Principal& who, const LabelSelector& selector,
                                         size_t page_size, const std::string& token) const {
  // (acquired, uid) is a stable order; the token is the MACed place after which to go on.
  std::vector<std::pair<std::pair<WallTime, std::string>, const Sandbox*>> all;
  for (const auto& [uid, sandbox] : sandboxes_) {
    if (sandbox->identity().tenant != who.tenant) continue;
    if (sandbox->state() == SandboxState::kStarting) continue;  // not promised to anybody yet
    if (!selector.Matches(sandbox->identity().labels)) continue;
    all.push_back({{sandbox->lease().acquired(), uid}, sandbox.get()});
  }
  std::sort(all.begin(), all.end());
  std::pair<WallTime, std::string> after{WallTime::min(), ""};
  if (!token.empty()) {
    const auto place = DecodeHandle(token, settings_.handle_key);
    int64_t nanos = 0;
    if (!place.ok() || place->kind != 'p' || place->tenant != who.tenant ||
        !ParseInt(place->name, &nanos)) {
      return InvalidField("page_token", "not one that this server has given out");
    }
    after = {WallTime(Duration(nanos)), place->uid};
  }
  SandboxPage page;
  for (const auto& [place, sandbox] : all) {
    if (place <= after) continue;
    if (page.sandboxes.size() == page_size) {
      page.next_token = EncodeHandle(
          {who.tenant, 'p', "", StrCat(after.first.time_since_epoch().count()), after.second, ""},
          settings_.handle_key);
      break;
    }
    page.sandboxes.push_back(View(*sandbox));
    after = place;
  }
  return page;
}

absl::StatusOr<std::vector<PoolCapacity>> Broker::Capacity(const Principal&,
                                                           const std::string& pool) const {
  std::vector<PoolCapacity> pools = backend_.Capacity();
  if (pool.empty()) return pools;
  for (PoolCapacity& capacity : pools) {
    if (capacity.pool == pool) return std::vector<PoolCapacity>{std::move(capacity)};
  }
  return MakeError(Reason::kPoolNotFound, StrCat("no pool '", CEscape(pool), "'"));
}

Task<std::vector<RenewItem>> Broker::Renew(Principal who, std::vector<std::string> handles) {
  const std::vector<absl::Status> settled = co_await SettleAll(who, handles);
  std::vector<absl::StatusOr<Handle>> opened;
  opened.reserve(handles.size());
  // Begun before any is waited for, so that they are written beside each other.
  for (size_t i = 0; i < handles.size(); ++i) {
    opened.push_back(OpenHandle(who, handles[i]));
    if (!settled[i].ok()) opened.back() = settled[i];
    if (const auto sandbox = Find(opened.back()); sandbox.ok()) (*sandbox)->Touch();
  }
  std::vector<RenewItem> items;
  for (size_t i = 0; i < handles.size(); ++i) {
    RenewItem item{handles[i], absl::OkStatus(), {}};
    auto sandbox = Find(opened[i]);
    item.status = sandbox.status();
    if (sandbox.ok()) item.status = co_await (*sandbox)->Renew();
    // It may have ended while it was written.
    if (item.status.ok()) {
      sandbox = Find(opened[i]);
      item.status = sandbox.status();
    }
    if (item.status.ok()) item.lease = View(**sandbox).lease;
    items.push_back(std::move(item));
  }
  co_return items;
}

absl::StatusOr<std::shared_ptr<Execution>> Broker::Start(const Principal& who, StartSpec spec,
                                                         ExecutionObserver* observer) {
  if (draining_) {
    return MakeError(Reason::kServerDraining, "this server is going away; try another");
  }
  const auto handle = OpenHandle(who, spec.handle);
  const auto found = Find(handle);
  if (!found.ok()) return found.status();
  Sandbox& sandbox = **found;
  if (sandbox.attached() >= settings_.max_streams_per_sandbox) {
    return MakeError(Reason::kCapacity, StrCat("the sandbox has ", sandbox.attached(),
                                               " open executions; limit max_streams_per_sandbox = ",
                                               settings_.max_streams_per_sandbox));
  }
  agent::Start start = std::move(spec.start);
  start.set_spec_hash(SpecHash(start));
  // The caller's incarnation, never this replica's present view (docs/protocols.md D).
  start.set_boot_id(handle->incarnation);
  if (start.execution_id().empty()) {
    start.set_execution_id(NewId());
    start.set_throwaway_id(true);
  }
  start.mutable_reader()->set_holder(who.name);
  const uint64_t attempt = NextAttempt(spec.attempt);
  start.mutable_reader()->set_attempt(attempt);
  if (start.stdin()) {
    start.mutable_writer()->set_holder(who.name);
    start.mutable_writer()->set_attempt(attempt);
  }
  sandbox.Touch();
  return sandbox.Start(std::move(start), settings_.output_window, observer);
}

// Leaves room for re-attachments of one try, so that the caller's next try is newer than all of
// them. A caller without numbers of its own gets the time, which also survives a restart.
uint64_t Broker::NextAttempt(std::optional<uint64_t> callers) {
  if (callers) return (*callers + 1) << 12;
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      scheduler_.WallNow().time_since_epoch());
  last_attempt_ = std::max(last_attempt_ + 1, static_cast<uint64_t>(now.count()));
  return last_attempt_ << 12;
}

}  // namespace sandbroker::broker
