// From what the operator configured to what each part is told. Pure, but for the place of the agent
// and whether it is there.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lib/backend/local/settings.h"
#include "lib/broker/broker.h"
#include "lib/config/address.h"
#include "lib/config/config.h"
#include "lib/link/native_dialer.h"
#include "lib/obs/log.h"
#include "server/services/service_settings.h"

namespace sandbroker::app {

// As configured, else sandbroker-agent in the folder of this program.
std::string AgentPath(const config::ServerConfig& server);
// Whether this can be started, as far as its file says.
absl::Status CheckAgent(const std::string& path);

local::LocalSettings ToLocalSettings(const config::Config& config);
// Without the handles' key.
broker::BrokerSettings ToBrokerSettings(const config::Config& config, std::string replica_id);
link::LinkSettings ToLinkSettings(const config::Config& config);
services::ServiceSettings ToServiceSettings(const config::Config& config, std::string replica_id);

obs::LogFormat ToLogFormat(const config::LogConfig& log);
obs::Level ToLogLevel(const config::LogConfig& log);

// Of a text that Validate has seen; nothing for "".
std::optional<config::Address> ToAddress(const std::string& text);

// For the start-up line: what keeps sandboxes apart.
std::string DescribeIsolation(const config::Config& config);

}  // namespace sandbroker::app
