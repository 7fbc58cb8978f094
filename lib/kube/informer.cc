#include "lib/kube/informer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/kube/random.h"
#include "lib/kube/url.h"
#include "lib/kube/watch_stream.h"

namespace sandbroker::kube {
namespace {

using Action = WatchMachine::Action;
using News = WatchMachine::News;

// Of connecting and the answer's head; a watch that is open has its own bound.
constexpr Duration kOpenBound = std::chrono::seconds(10);

}  // namespace

Informer::Informer(Client& client, TaskScope& scope, Resource resource, std::string space,
                   std::string labels, WatchSettings settings, InformerObserver* observer)
    : client_(client),
      scope_(scope),
      resource_(std::move(resource)),
      space_(std::move(space)),
      labels_(std::move(labels)),
      settings_(settings),
      observer_(observer),
      machine_(settings, Jitter) {}

void Informer::Start() { scope_.Spawn("informer", Run()); }

void Informer::Stop() { stop_.Cancel(); }

Time Informer::Now() const { return client_.transport().scheduler().Now(); }

Task<void> Informer::Run() {
  while (!stop_.token().cancelled()) {
    const Action action = machine_.Next();
    if (action.kind == Action::Kind::kList) {
      co_await List();
    } else if (action.kind == Action::Kind::kWatch) {
      co_await Watch(action.resource_version);
    } else {
      CallEnd end(client_.transport().scheduler(), Duration::max(), stop_.token());
      co_await end.Sleep(action.delay);
    }
  }
}

Task<void> Informer::List() {
  const Result result =
      co_await client_.List(resource_, space_, labels_, settings_.list_bound, stop_.token());
  Tell(machine_.OnList(result));
}

std::string Informer::WatchTarget(const std::string& version) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(settings_.timeout).count();
  std::string target = ResourcePath(resource_, space_);
  AddQuery(&target, "watch", "1");
  AddQuery(&target, "allowWatchBookmarks", "true");
  AddQuery(&target, "resourceVersion", version);
  AddQuery(&target, "timeoutSeconds", std::to_string(std::max<int64_t>(seconds, 1)));
  if (!labels_.empty()) AddQuery(&target, "labelSelector", labels_);
  return target;
}

Task<void> Informer::Watch(std::string version) {
  const Duration silence = settings_.timeout + settings_.silence_slack;
  CallEnd end(client_.transport().scheduler(), kOpenBound, stop_.token());
  WatchStream stream(client_.transport(), end);
  const Result opened = co_await stream.Open(WatchTarget(version));
  Tell(machine_.OnWatch(opened, Now()));
  if (!opened.ok()) co_return;
  end.Extend(silence);
  for (bool over = false; !over;) {
    auto event = co_await stream.Next(silence);
    if (stop_.token().cancelled()) co_return;
    if (!event) break;
    Tell(machine_.OnEvent(*std::move(event), &over));
    if (over) co_return;
  }
  const auto how = stream.clean() ? WatchMachine::End::kClean
                   : end.over()   ? WatchMachine::End::kSilent
                                  : WatchMachine::End::kCut;
  Tell(machine_.OnWatchEnd(how, stream.error(), Now()));
}

void Informer::Tell(std::vector<News> news) {
  for (const News& one : news) {
    if (stop_.token().cancelled()) return;
    switch (one.kind) {
      case News::Kind::kObject:
        observer_->OnObject(one.object);
        break;
      case News::Kind::kDeleted:
        observer_->OnDeleted(one.object);
        break;
      case News::Kind::kSynced:
        observer_->OnSynced();
        break;
      case News::Kind::kStale:
        observer_->OnStale(one.why);
        break;
    }
  }
}

}  // namespace sandbroker::kube
