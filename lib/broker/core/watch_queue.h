// What one watcher of sandboxes is still to be told: which sandboxes, and in which order. A sandbox
// waits at most once, however often it changes, so a watcher that falls behind sees the newest
// state and not each one between; what grows without end is refused by a limit. Pure;
// lib/broker/watch.h fills and empties it.
//
//   known to the watcher   change         removal
//   no, not waiting        queue added    nothing
//   no, waiting            nothing        forgotten: it never was
//   yes, not waiting       queue change   queue removal
//   yes, waiting           nothing        the removal takes its place
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

// Why a sandbox went.
struct Removal {
  std::string handle;
  Reason reason = Reason::kSandboxGone;
  std::string cause;
};

class WatchQueue {
 public:
  // `snapshot`: uids that are there already, in the order to be told. `limit`: changes that may
  // wait beside them.
  WatchQueue(const std::vector<std::string>& snapshot, size_t limit);

  void OnChanged(const std::string& uid);
  void OnRemoved(const std::string& uid, Removal removal);
  // More waits than the limit allows: the watcher is too slow.
  bool overrun() const;
  bool empty() const { return order_.empty(); }

  struct Next {
    std::string uid;                 // empty: the snapshot has been told
    std::optional<Removal> removal;  // otherwise it is there, or comes
  };
  // Not when empty.
  Next Pop();

  enum class News { kAdded, kModified, kNothing };
  // What `view` of a popped sandbox is to the watcher, who is told of it now.
  News Tell(const std::string& uid, const SandboxView& view);

 private:
  // What may change of one.
  struct Told {
    SandboxState state;
    WallTime expire;
    bool operator==(const Told&) const = default;
  };

  size_t limit_;
  size_t snapshot_left_;
  std::deque<std::string> order_;                          // the empty one: end of the snapshot
  std::map<std::string, std::optional<Removal>> waiting_;  // by uid; those of order_ that count
  std::map<std::string, Told> told_;                       // by uid
};

}  // namespace sandbroker::broker
