#include "server/services/watch_session.h"

#include <utility>

#include "lib/rpc/buffers.h"
#include "server/services/translate.h"

namespace sandbroker::services {

void WatchOutbox::Push(const v1::WatchSandboxesResponse& event) {
  messages_.push_back(rpc::Serialize(event));
}

rpc::Outgoing WatchOutbox::Pop() {
  rpc::Outgoing outgoing{std::move(messages_.front()), 1};
  messages_.pop_front();
  return outgoing;
}

WatchSession::WatchSession(rpc::StreamCore& stream, WatchOutbox* outbox, broker::Broker& broker,
                           const Authoriser& authoriser)
    : stream_(stream), outbox_(outbox), broker_(broker), authoriser_(authoriser) {}

void WatchSession::OnRequest(v1::WatchSandboxesRequest request) {
  const absl::Status status = Begin(request);
  if (!status.ok()) return stream_.FinishAfterFlush(status);
  OnNews();
}

absl::Status WatchSession::Begin(const v1::WatchSandboxesRequest& request) {
  const auto who = authoriser_.Authorise(stream_.context());
  if (!who.ok()) return who.status();
  auto selector = LabelSelector::Parse(request.label_selector(), "label_selector");
  if (!selector.ok()) return selector.status();
  auto watch = broker_.WatchSandboxes(*who, *std::move(selector), this);
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  return absl::OkStatus();
}

void WatchSession::OnNews() {
  while (watch_ && under_way_ < kAhead) {
    const auto event = watch_->Next();
    if (!event) return;
    v1::WatchSandboxesResponse message;
    ToProto(*event, &message);
    ++under_way_;
    stream_.Send([&] { outbox_->Push(message); });
  }
}

void WatchSession::OnSent(uint64_t credit) {
  under_way_ -= credit;
  OnNews();
}

void WatchSession::OnGone() { watch_.reset(); }

void WatchSession::OnWatchEnded(const absl::Status& why) {
  watch_.reset();
  stream_.FinishAfterFlush(why);
}

}  // namespace sandbroker::services
