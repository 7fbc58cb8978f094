// Keeps one observer's view of one resource up to date: lists, watches on a connection of its own,
// and goes on after every break, as WatchMachine decides. Loop thread only; outlives its task,
// which the scope joins soon after Stop.
#pragma once

#include <string>
#include <vector>

#include "lib/async/cancel.h"
#include "lib/async/task_scope.h"
#include "lib/kube/client.h"
#include "lib/kube/watch_machine.h"

namespace sandbroker::kube {

class Informer {
 public:
  // `space` empty: all namespaces. `labels`: a selector or empty. The references and the observer
  // outlive the informer.
  Informer(Client& client, TaskScope& scope, Resource resource, std::string space,
           std::string labels, WatchSettings settings, InformerObserver* observer);

  // Once.
  void Start();
  // The observer hears nothing more, from now on.
  void Stop();
  // The first list is in and the view is current, as far as is known.
  bool synced() const { return machine_.synced(); }
  // Objects it knows of.
  size_t objects() const { return machine_.objects(); }

 private:
  Task<void> Run();
  Task<void> List();
  Task<void> Watch(std::string version);
  std::string WatchTarget(const std::string& version) const;
  void Tell(std::vector<WatchMachine::News> news);
  Time Now() const;

  Client& client_;
  TaskScope& scope_;
  const Resource resource_;
  const std::string space_;
  const std::string labels_;
  const WatchSettings settings_;
  InformerObserver* const observer_;
  WatchMachine machine_;
  CancelSource stop_;
};

}  // namespace sandbroker::kube
