// What the services are told at start, partly only to be told on by GetServerInfo. Plain data; the
// composition root fills it from the same values the broker and the agents get.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/clock.h"

namespace sandbroker::services {

struct ServiceSettings {
  std::string version;
  std::string replica_id;
  // A silent Exec says something this often.
  Duration heartbeat_interval = std::chrono::seconds(10);
  // BrokerSettings::output_window.
  uint64_t output_window = 1024 * 1024;
  uint64_t default_log_bytes = 16 * 1024 * 1024;
  uint64_t max_log_bytes = 256 * 1024 * 1024;
  Duration reattach_window = std::chrono::seconds(60);
  Duration tombstone_time = std::chrono::hours(24);
  // BrokerSettings::max_watches.
  uint32_t max_watchers = 128;
};

}  // namespace sandbroker::services
