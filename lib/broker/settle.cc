// What a call waits for before it is told that its sandbox is gone: the backend's word on a handle
// this replica does not know, or the outcome of a take-back that is under way. The usual call finds
// its sandbox known and waits for nothing.
#include <algorithm>
#include <utility>

#include "lib/async/for_each.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"

namespace sandbroker::broker {
namespace {

// Handles of other replicas that one call asks for at the same time.
constexpr size_t kSeeksOfOneCall = 16;

}  // namespace

bool Broker::Unsettled(const Principal& who, const std::string& text) const {
  const auto handle = OpenHandle(who, text);
  return handle.ok() && Unsettled(handle->uid);
}

bool Broker::Unsettled(const std::string& uid) const {
  if (settling_.count(uid) != 0) return true;
  return sandboxes_.count(uid) == 0 && remembered_.count(uid) == 0;
}

Task<absl::Status> Broker::Settle(Principal who, std::string text, CancelToken cancel) {
  const auto handle = OpenHandle(who, text);
  // What is wrong with a handle, the call itself says.
  if (!handle.ok() || !Unsettled(handle->uid)) co_return absl::OkStatus();
  const bool first = settling_.count(handle->uid) == 0;
  if (first && settling_.size() >= settings_.max_seeks) {
    co_return MakeError(Reason::kCapacity, StrCat("more than ", settings_.max_seeks,
                                                  " handles of other replicas at once"));
  }
  const OneShot<absl::Status> settled = Enter(&settling_, handle->uid);
  if (first) scope_.Spawn("seek sandbox", Seek(handle->name, handle->uid));
  co_return co_await WaitIn(&settling_, handle->uid, settled, cancel);
}

Task<std::vector<absl::Status>> Broker::SettleAll(Principal who, std::vector<std::string> handles) {
  std::vector<absl::Status> settled(handles.size());
  std::vector<size_t> unsettled;
  for (size_t i = 0; i < handles.size(); ++i) {
    if (Unsettled(who, handles[i])) unsettled.push_back(i);
  }
  const auto settle = [this, &who, &handles, &settled, &unsettled](size_t n) -> Task<void> {
    const size_t i = unsettled[n];
    settled[i] = co_await Settle(who, handles[i], CancelToken());
  };
  co_await ForEach(scope_, unsettled.size(), kSeeksOfOneCall, settle);
  co_return settled;
}

Task<void> Broker::Seek(std::string name, std::string uid) {
  const absl::Status status = co_await backend_.Seek(std::move(name), uid);
  if (status.ok() && sandboxes_.count(uid) == 0) Keep(uid, Reason::kSandboxGone, "");
  Wake(&settling_, uid, status);
}

Task<absl::Status> Broker::SeekReceipt(std::string key, CancelToken cancel) {
  const auto task = [](Broker* broker, std::string receipt) -> Task<void> {
    const absl::Status status = co_await broker->backend_.SeekReceipt(receipt);
    broker->Wake(&broker->seeking_receipts_, receipt, status);
  };
  const bool first = seeking_receipts_.count(key) == 0;
  const OneShot<absl::Status> settled = Enter(&seeking_receipts_, key);
  if (first) scope_.Spawn("seek receipt", task(this, key));
  co_return co_await WaitIn(&seeking_receipts_, key, settled, cancel);
}

// Before the work begins: it may be done at once.
OneShot<absl::Status> Broker::Enter(Waiters* waiters, const std::string& key) {
  OneShot<absl::Status> settled;
  (*waiters)[key].push_back(settled);
  return settled;
}

// The work itself is bounded by the backend; this bounds what a caller waits for it.
Task<absl::Status> Broker::WaitIn(Waiters* waiters, std::string key, OneShot<absl::Status> settled,
                                  CancelToken cancel) {
  const auto timer = scheduler_.After(settings_.seek_bound, [settled] {
    settled.Set(MakeError(Reason::kApiTimeout, "the backend does not say what became of it"));
  });
  cancel.OnCancel([settled] { settled.Set(MakeError(Reason::kCancelled, "the caller left")); });
  absl::Status status = co_await settled.Wait();
  cancel.OnCancel(nullptr);
  if (const auto it = waiters->find(key); it != waiters->end()) {
    auto& all = it->second;
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto& one) { return one.done(); }),
              all.end());
  }
  co_return status;
}

void Broker::Wake(Waiters* waiters, const std::string& key, const absl::Status& status) {
  const auto it = waiters->find(key);
  if (it == waiters->end()) return;
  const std::vector<OneShot<absl::Status>> all = std::move(it->second);
  waiters->erase(it);
  for (const OneShot<absl::Status>& one : all) one.Set(status);
}

}  // namespace sandbroker::broker
