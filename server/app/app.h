// The life of the process: environment, parts, service, drain. Main thread throughout; the order
// of the steps is docs/operations.md's.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "lib/config/config.h"
#include "server/app/exit_code.h"
#include "server/app/parts.h"
#include "server/app/signals.h"
#include "server/app/state_dir.h"

namespace sandbroker::app {

class App {
 public:
  // `config` has passed Validate.
  explicit App(config::Config config) : config_(std::move(config)) {}

  // Serves until a signal. Call once, while the process has one thread.
  ExitCode Run();

 private:
  absl::Status Open(Parts& parts);
  absl::Status Recover(Parts& parts);
  absl::Status Listen(Parts& parts);
  absl::Status Serve(Parts& parts);
  // Order and reasons: docs/architecture.md, shutdown.
  void Drain(Parts& parts, Signals& signals);
  void Stop(Parts& parts, Signals& signals);
  void WaitForCalls(Parts& parts, Signals& signals);
  ExitCode Fail(ExitCode code, const absl::Status& why) const;
  void LogStart(const Parts& parts, const std::string& address) const;

  const config::Config config_;
};

}  // namespace sandbroker::app
