// How a view of one resource is kept: list, then watch from the list's version, go on from the
// last version heard of, list again and tell the difference when that version is gone. Decides
// what comes next and what the observer hears; does nothing itself. Pure.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kube/api.h"

namespace sandbroker::kube {

struct WatchSettings {
  // The server ends a watch after this; it sends bookmarks about once a minute and before the end.
  Duration timeout = std::chrono::seconds(90);
  // Not a byte for this much longer: the connection is cut.
  Duration silence_slack = std::chrono::seconds(10);
  // Of the whole list, with its retries.
  Duration list_bound = std::chrono::seconds(30);
  // Between two tries after a failure; doubled each time, and jittered.
  Duration first_delay = std::chrono::milliseconds(100);
  Duration max_delay = std::chrono::seconds(10);
};

class WatchMachine {
 public:
  struct Action {
    enum class Kind { kList, kWatch, kWait };
    Kind kind = Kind::kList;
    std::string resource_version = {};  // of kWatch: where to go on
    Duration delay = {};                // of kWait
  };
  // What the observer is to hear, in this order.
  struct News {
    enum class Kind { kObject, kDeleted, kSynced, kStale };
    Kind kind;
    boost::json::object object = {};  // of kObject and kDeleted
    std::string why = {};             // of kStale
  };
  enum class End { kClean, kCut, kSilent };

  // `random` answers numbers in [0, 1).
  WatchMachine(WatchSettings settings, std::function<double()> random);

  // What to do now. Asked again after each thing that happened.
  Action Next();

  // After kList.
  std::vector<News> OnList(const Result& result);
  // After kWatch: the server's answer, before anything is read from it.
  std::vector<News> OnWatch(const Result& result, Time now);
  // One event of the open watch. `*over`: nothing more is to be read from it.
  std::vector<News> OnEvent(boost::json::object event, bool* over);
  // The open watch ended, unless OnEvent said so before.
  std::vector<News> OnWatchEnd(End end, const std::string& why, Time now);

  bool synced() const { return synced_ && !stale_; }
  size_t objects() const { return objects_.size(); }

 private:
  struct Known {
    std::string uid;
    std::string version;
    boost::json::object object;
  };

  void Fail(std::optional<Duration> retry_after);
  void Stale(const std::string& why, std::vector<News>* news);
  void Fresh(std::vector<News>* news);
  void Take(boost::json::object object, std::vector<News>* news);
  void Drop(const std::string& key, std::vector<News>* news);
  void Expired(const std::string& why, std::vector<News>* news);
  std::vector<News> OnErrorEvent(const boost::json::object& event);

  const WatchSettings settings_;
  const std::function<double()> random_;
  std::map<std::string, Known> objects_;  // by namespace/name
  std::string version_;                   // empty: list
  std::string kind_;                      // of the list's items, which do not say it themselves
  std::string api_version_;
  bool synced_ = false;
  bool stale_ = false;
  int failures_ = 0;    // in a row
  int breaks_ = 0;      // versions in a row that were gone before anything was heard
  bool heard_ = false;  // an event came on this watch
  Time opened_{};
  std::optional<Duration> delay_;  // to wait before anything else
};

}  // namespace sandbroker::kube
