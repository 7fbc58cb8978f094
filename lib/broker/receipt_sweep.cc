// The sweep of receipts that nobody can ask for any more (docs/protocols.md B, step 4).
#include <algorithm>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {

void Broker::StartSweeping() {
  if (draining_) return;
  scope_.Spawn("sweep receipts", SweepReceipts());
}

Task<void> Broker::SweepReceipts() {
  const auto keys = co_await receipts_.List();
  if (!keys.ok()) {
    obs::Log(obs::Level::kError, "the receipts can't be listed",
             {{"why", MessageOf(keys.status())}});
  } else {
    for (const std::string& key : *keys) {
      if (draining_) co_return;
      const absl::Status status = co_await SweepReceipt(key);
      if (status.ok()) continue;
      obs::Log(obs::Level::kWarning, "a receipt can't be swept",
               {{"receipt", key}, {"why", MessageOf(status)}});
    }
  }
  if (draining_) co_return;
  const Duration pause = std::clamp<Duration>(settings_.receipt_retention / 24,
                                              std::chrono::seconds(1), std::chrono::hours(1));
  sweep_timer_ = scheduler_.After(pause, [this] { StartSweeping(); });
}

Task<absl::Status> Broker::SweepReceipt(std::string key) {
  const auto found = co_await receipts_.Read(key);
  if (!found.ok() || !*found) co_return found.status();
  Receipt receipt = **found;
  const std::string token = receipt.token;
  bool alive = sandboxes_.count(receipt.uid) != 0;
  if (receipt.state == Receipt::State::kBound && !alive) {
    // That this replica does not know it says nothing.
    const absl::Status sought = co_await SeekReceipt(key, CancelToken());
    if (!sought.ok()) co_return sought;
    alive = sandboxes_.count(receipt.uid) != 0;
  }
  absl::StatusOr<bool> done = true;
  switch (DecideSweep(receipt, alive, scheduler_.WallNow(), settings_.receipt_retention)) {
    case Sweep::kKeep:
      break;
    case Sweep::kEnd:
      receipt.state = Receipt::State::kEnded;
      receipt.token = NewId();
      receipt.deadline = scheduler_.WallNow();
      done = co_await receipts_.CompareAndSet(key, token, receipt);
      break;
    case Sweep::kRemove:
      done = co_await receipts_.Remove(key, token);
      break;
  }
  co_return done.status();
}

}  // namespace sandbroker::broker
