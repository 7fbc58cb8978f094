#include "lib/broker/watch.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"

namespace sandbroker::broker {

Watch::Watch(Broker& broker, Scheduler& scheduler, std::string tenant, LabelSelector selector,
             WatchObserver* observer, const std::vector<std::string>& snapshot, size_t limit)
    : broker_(&broker),
      scheduler_(scheduler),
      tenant_(std::move(tenant)),
      selector_(std::move(selector)),
      observer_(observer),
      queue_(snapshot, limit) {}

Watch::~Watch() {
  *alive_ = false;
  if (broker_ != nullptr) broker_->Forget(this);
}

bool Watch::Sees(const Sandbox& sandbox) const {
  return sandbox.identity().tenant == tenant_ && selector_.Matches(sandbox.identity().labels);
}

std::optional<WatchEvent> Watch::Next() {
  while (broker_ != nullptr && !queue_.empty()) {
    WatchQueue::Next next = queue_.Pop();
    WatchEvent event;
    if (next.uid.empty()) return event;
    if (next.removal) {
      event.kind = WatchEvent::Kind::kRemoved;
      event.removal = *std::move(next.removal);
      return event;
    }
    auto view = broker_->ViewOf(next.uid);
    if (!view) continue;  // gone before it was told of
    const WatchQueue::News news = queue_.Tell(next.uid, *view);
    if (news == WatchQueue::News::kNothing) continue;
    event.kind =
        news == WatchQueue::News::kAdded ? WatchEvent::Kind::kAdded : WatchEvent::Kind::kModified;
    event.sandbox = *std::move(view);
    return event;
  }
  return std::nullopt;
}

void Watch::OnChanged(const std::string& uid) {
  queue_.OnChanged(uid);
  Poke();
}

void Watch::OnRemoved(const std::string& uid, Removal removal) {
  queue_.OnRemoved(uid, std::move(removal));
  Poke();
}

void Watch::Poke() {
  if (queue_.overrun()) {
    return End(MakeError(Reason::kCapacity,
                         "this watcher reads too slowly for what changes; watch again"));
  }
  if (std::exchange(poked_, true)) return;
  scheduler_.Post([this, alive = alive_] {
    if (!*alive) return;
    poked_ = false;
    const absl::Status why = ended_;  // this may die in the call
    why.ok() ? observer_->OnNews() : observer_->OnWatchEnded(why);
  });
}

void Watch::End(absl::Status why) {
  if (broker_ == nullptr) return;
  std::exchange(broker_, nullptr)->Forget(this);
  ended_ = std::move(why);
  queue_ = WatchQueue({}, 0);
  Poke();
}

absl::StatusOr<std::unique_ptr<Watch>> Broker::WatchSandboxes(const Principal& who,
                                                              LabelSelector selector,
                                                              WatchObserver* observer) {
  if (draining_) {
    return MakeError(Reason::kServerDraining, "this server is going away; try another");
  }
  if (watches_.size() >= settings_.max_watches) {
    return MakeError(Reason::kCapacity,
                     StrCat("the server has ", watches_.size(), " watchers; limit max_watches"));
  }
  std::vector<std::pair<WallTime, std::string>> there;
  for (const auto& [uid, sandbox] : sandboxes_) {
    if (sandbox->identity().tenant != who.tenant) continue;
    if (sandbox->state() == SandboxState::kStarting) continue;  // not promised to anybody yet
    if (!selector.Matches(sandbox->identity().labels)) continue;
    there.emplace_back(sandbox->lease().acquired(), uid);
  }
  std::sort(there.begin(), there.end());
  std::vector<std::string> uids;
  uids.reserve(there.size());
  for (auto& [acquired, uid] : there) uids.push_back(std::move(uid));
  auto watch = std::make_unique<Watch>(*this, scheduler_, who.tenant, std::move(selector), observer,
                                       uids, settings_.max_watch_changes);
  watches_.insert(watch.get());
  metrics_.AddWatchers(1);
  return watch;
}

void Broker::Forget(Watch* watch) {
  if (watches_.erase(watch) != 0) metrics_.AddWatchers(-1);
}

void Broker::EndWatches() {
  const auto all = watches_;
  for (Watch* watch : all) {
    watch->End(MakeError(Reason::kServerDraining, "this server is going away; watch another"));
  }
}

std::optional<SandboxView> Broker::ViewOf(const std::string& uid) const {
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end() || it->second->state() == SandboxState::kStarting) return std::nullopt;
  return View(*it->second);
}

void Broker::OnSandboxChanged(const std::string& uid) {
  if (watches_.empty()) return;
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end() || it->second->state() == SandboxState::kStarting) return;
  const auto all = watches_;
  for (Watch* watch : all) {
    if (watch->Sees(*it->second)) watch->OnChanged(uid);
  }
}

void Broker::TellRemoved(const Sandbox& sandbox, Reason reason, const std::string& cause) {
  if (watches_.empty()) return;
  const Removal removal{View(sandbox).handle, reason, cause};
  const auto all = watches_;
  for (Watch* watch : all) {
    if (watch->Sees(sandbox)) watch->OnRemoved(sandbox.identity().uid, removal);
  }
}

}  // namespace sandbroker::broker
