// One program on the command line: our stdin to it, its outputs to ours, our signals to it, its end
// to an exit code.
#pragma once

#include <atomic>
#include <string>

#include "sandbroker/client/client.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/interrupt_policy.h"
#include "tools/cli/interrupts.h"
#include "tools/cli/stdio.h"

namespace sandbroker::cli {

struct SessionOptions {
  client::Program program;
  client::ExecOptions exec = {.input = client::Stdin::kPipe};
  // Events as JSON lines on stdout instead of the program's own output.
  bool json = false;
};

class ExecSession {
 public:
  // Starts the program. All references must outlive this.
  ExecSession(const client::Client& client, const std::string& sandbox_id,
              const SessionOptions& options);

  // Returns our exit code, after saying on stderr what the code does not.
  int Run(Interrupts& interrupts);

 private:
  void OnSignal(int signal);
  void OnEvent(const client::Event& event);
  void Print(int fd, const std::string& data);
  int Finish(const absl::Status& status);

  const SessionOptions& options_;
  client::Execution execution_;
  InterruptPolicy policy_;
  std::atomic<bool> left_ = false;
  bool ready_ = false;
  // Per descriptor: what is printed there is dropped from now on.
  bool closed_[3] = {};
  // Why output of the program could not be written; empty when it could.
  std::string write_error_;
  std::optional<v1::ExecEnded> end_;
};

}  // namespace sandbroker::cli
