// sandbrokerd: configuration, then the app; a failure becomes an exit code of docs/operations.md.
#include <cstdio>

#include "absl/synchronization/mutex.h"
#include "lib/base/status.h"
#include "lib/config/load.h"
#include "server/app/app.h"
#include "server/app/doctor.h"
#include "server/app/link_key.h"

namespace {

using sandbroker::app::ExitCode;

int Complain(const absl::Status& status, ExitCode code) {
  const std::string_view why = sandbroker::MessageOf(status);
  std::fprintf(stderr, "sandbrokerd: %.*s\n", static_cast<int>(why.size()), why.data());
  return static_cast<int>(code);
}

int PrintAgentKey(const std::string& state_dir) {
  const auto key = sandbroker::app::ReadOrMakeLinkKey(state_dir);
  if (!key.ok()) return Complain(key.status(), ExitCode::kEnvironment);
  std::puts(key->PublicBase64().c_str());
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

int main(int argc, char** argv) {
  // The distribution builds Abseil with its debug checks; this one walks a graph of all locks each
  // time gRPC takes one.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  using sandbroker::config::Invocation;
  const auto invocation =
      sandbroker::config::Load(sandbroker::config::CurrentSurroundings(argc, argv));
  if (!invocation.ok()) return Complain(invocation.status(), ExitCode::kBadConfig);
  switch (invocation->action) {
    case Invocation::Action::kPrint:
      std::fputs(invocation->text.c_str(), stdout);
      return static_cast<int>(ExitCode::kOk);
    case Invocation::Action::kCheckConfig:
      std::puts("the configuration is good");
      return static_cast<int>(ExitCode::kOk);
    case Invocation::Action::kDoctor:
      return static_cast<int>(sandbroker::app::RunDoctor(invocation->config, invocation->json));
    case Invocation::Action::kPrintAgentKey:
      return PrintAgentKey(invocation->config.server.state_dir);
    case Invocation::Action::kServe:
      break;
  }
  return static_cast<int>(sandbroker::app::App(invocation->config).Run());
}
