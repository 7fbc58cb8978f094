// One running program, seen from its caller. Events are pulled with Next (unless callbacks were
// given); everything else may be called from any thread beside it. Destroying it leaves the
// program, which goes on: Cancel ends it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sandbroker/client/options.h"

namespace sandbroker::client {

class ExecStream;

class Execution {
 public:
  explicit Execution(std::shared_ptr<ExecStream> stream);
  Execution(Execution&&) noexcept;
  Execution& operator=(Execution&&) noexcept;
  // As Detach.
  ~Execution();

  const std::string& execution_id() const;

  // The next event; nullopt after `ended`, which comes exactly once. An error means that the call
  // is over without one, and says nothing about how the program ended. Heartbeats and input windows
  // are handled inside and not seen here.
  absl::StatusOr<std::optional<Event>> Next();

  // Reads on to the end and drops all output on the way.
  absl::StatusOr<v1::ExecEnded> Wait();

  // Hands `data` to the program's input. Waits while the program does not read, so that a signal
  // never queues behind unread input. FAILED_PRECONDITION once the program takes no more.
  absl::Status WriteStdin(std::string_view data);

  // The input ends here. Again: nothing happens.
  absl::Status CloseStdin();

  // Linux number, to the program's process group.
  absl::Status Signal(int number);

  // TERM, grace, KILL. Unset = the program's kill_grace.
  absl::Status Cancel(std::optional<Duration> kill_grace = std::nullopt);

  // Leaves the program and returns when the call is over. Not from within a callback of this
  // execution, where it only asks for it.
  void Detach();

 private:
  std::shared_ptr<ExecStream> stream_;
};

}  // namespace sandbroker::client
