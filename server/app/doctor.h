// `sandbrokerd --doctor`: looks whether this host is fit and what would protect it better, prints
// it, and starts nothing. Main thread.
#pragma once

#include "lib/config/config.h"
#include "server/app/exit_code.h"

namespace sandbroker::app {

// Text for people, or one JSON object. kEnvironment when the server would refuse to start.
ExitCode RunDoctor(const config::Config& config, bool json);

}  // namespace sandbroker::app
