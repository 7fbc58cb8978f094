// One informer's observer: passes its objects on, and remembers whether its view is up to date.
// Loop thread only.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <utility>

#include "lib/backend/kubernetes/bell.h"
#include "lib/kube/api.h"
#include "lib/obs/log.h"

namespace sandbroker::kubernetes {

class Feed final : public kube::InformerObserver {
 public:
  using See = std::function<void(const boost::json::object&)>;
  // `what` for people. `synced` rings when the view is current; it outlives the feed.
  Feed(std::string what, Bell& synced, See put, See remove)
      : what_(std::move(what)), bell_(synced), put_(std::move(put)), remove_(std::move(remove)) {}

  void OnObject(const boost::json::object& object) override { put_(object); }
  void OnDeleted(const boost::json::object& object) override { remove_(object); }
  void OnSynced() override {
    stale_.clear();
    bell_.Ring();
  }
  void OnStale(const std::string& why) override {
    std::string stale = what_ + ": " + why;
    if (stale == stale_) return;
    stale_ = std::move(stale);
    obs::Log(obs::Level::kWarning, "the cluster can't be followed", {{"why", stale_}});
  }

  // Empty: it is up to date.
  const std::string& stale() const { return stale_; }

 private:
  const std::string what_;
  Bell& bell_;
  const See put_;
  const See remove_;
  std::string stale_ = "the first list of the cluster's objects is not in";
};

}  // namespace sandbroker::kubernetes
