// One watcher of a tenant's sandboxes: those that are there, then every change. It pulls: what it
// has not taken waits in a bounded queue. The Broker knows every Watch that lives and tells it of
// changes. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/async/scheduler.h"
#include "lib/base/labels.h"
#include "lib/broker/core/types.h"
#include "lib/broker/core/watch_queue.h"

namespace sandbroker::broker {

class Broker;
class Sandbox;

struct WatchEvent {
  enum class Kind { kAdded, kModified, kRemoved, kSynced };
  Kind kind = Kind::kSynced;
  SandboxView sandbox;  // kAdded, kModified
  Removal removal;      // kRemoved
};

class WatchObserver {
 public:
  virtual ~WatchObserver() = default;
  // Next has something again.
  virtual void OnNews() = 0;
  // Nothing more comes: CAPACITY (it reads too slowly) or SERVER_DRAINING. The Watch may be
  // destroyed here.
  virtual void OnWatchEnded(const absl::Status& why) = 0;
};

class Watch {
 public:
  // Made by Broker::Watch. `snapshot`: uids, in their order.
  Watch(Broker& broker, Scheduler& scheduler, std::string tenant, LabelSelector selector,
        WatchObserver* observer, const std::vector<std::string>& snapshot, size_t limit);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Empty: nothing just now; the observer hears when there is.
  std::optional<WatchEvent> Next();

 private:
  friend class Broker;

  bool Sees(const Sandbox& sandbox) const;
  void OnChanged(const std::string& uid);
  void OnRemoved(const std::string& uid, Removal removal);
  // The observer hears it after what is going on now.
  void Poke();
  void End(absl::Status why);

  Broker* broker_;  // null: it has ended
  Scheduler& scheduler_;
  const std::string tenant_;
  const LabelSelector selector_;
  WatchObserver* const observer_;
  WatchQueue queue_;
  absl::Status ended_;
  bool poked_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbroker::broker
