// sandbroker-agent: the program inside a sandbox that starts processes and moves their bytes.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <string_view>
#include <utility>

#include "lib/guest/agent.h"
#include "lib/guest/options.h"

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitFailure = 1;

int Fail(int code, const absl::Status& why) {
  std::fprintf(stderr, "sandbroker-agent: %s\n", std::string(why.message()).c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // The local backend asks it, to learn whether this file runs inside bubblewrap at all.
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("sandbroker-agent " SANDBROKER_VERSION);
    return 0;
  }
  auto options = sandbroker::guest::ParseAgentOptions(argc, argv);
  if (!options.ok()) {
    std::fputs(sandbroker::guest::AgentUsage().c_str(), stderr);
    return Fail(kExitUsage, options.status());
  }
  auto secret = sandbroker::guest::ReadSecret(*options);
  if (!secret.ok()) return Fail(kExitUsage, secret.status());
  boost::asio::io_context io(1);
  sandbroker::guest::Agent agent(io, *std::move(options), *std::move(secret));
  if (const absl::Status status = agent.Start(); !status.ok()) return Fail(kExitFailure, status);
  return agent.Run();
}
