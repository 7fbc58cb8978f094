// sandbrokerd: configuration, then the app; a failure becomes an exit code of docs/operations.md.
#include <cstdio>

#include "absl/synchronization/mutex.h"
#include "lib/base/status.h"
#include "lib/config/load.h"
#include "server/app/app.h"
#include "server/app/doctor.h"

int main(int argc, char** argv) {
  // The distribution builds Abseil with its debug checks; this one walks a graph of all locks each
  // time gRPC takes one.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  using sandbroker::app::ExitCode;
  using sandbroker::config::Invocation;
  const auto invocation =
      sandbroker::config::Load(sandbroker::config::CurrentSurroundings(argc, argv));
  if (!invocation.ok()) {
    const std::string_view why = sandbroker::MessageOf(invocation.status());
    std::fprintf(stderr, "sandbrokerd: %.*s\n", static_cast<int>(why.size()), why.data());
    return static_cast<int>(ExitCode::kBadConfig);
  }
  switch (invocation->action) {
    case Invocation::Action::kPrint:
      std::fputs(invocation->text.c_str(), stdout);
      return static_cast<int>(ExitCode::kOk);
    case Invocation::Action::kCheckConfig:
      std::puts("the configuration is good");
      return static_cast<int>(ExitCode::kOk);
    case Invocation::Action::kDoctor:
      return static_cast<int>(sandbroker::app::RunDoctor(invocation->config, invocation->json));
    case Invocation::Action::kServe:
      break;
  }
  return static_cast<int>(sandbroker::app::App(invocation->config).Run());
}
