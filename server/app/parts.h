// Everything the process is made of, in the order of construction; destroyed the other way round.
// Constructors start nothing: App does, and stops it again.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "lib/async/blocking_pool.h"
#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "lib/broker/broker.h"
#include "lib/config/config.h"
#include "lib/link/native_dialer.h"
#include "lib/obs/metrics.h"
#include "server/app/admin_server.h"
#include "server/app/engine.h"
#include "server/app/grpc_server.h"
#include "server/app/state_dir.h"
#include "server/app/unix_listener.h"
#include "server/services/authoriser.h"
#include "server/services/broker_service.h"

namespace sandbroker::app {

struct Parts {
  // `state` outlives this.
  Parts(const config::Config& config, const StateDir& state);

  // Serving and not draining: what /readyz says.
  std::atomic<bool> ready{false};
  const std::string replica_id;
  obs::Metrics metrics;
  Loop loop;
  BlockingPool blocking;
  TaskScope scope;
  link::NativeDialer dialer;
  const std::unique_ptr<Engine> engine;
  broker::Broker broker;
  services::LocalAuthoriser authoriser;
  services::BrokerService service;
  GrpcServer grpc;
  AdminServer admin;
  UnixListener unix_listener;

 private:
  std::string RenderMetrics();
};

}  // namespace sandbroker::app
