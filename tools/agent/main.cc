// sandbroker-agent: the program inside a sandbox that starts processes and moves their bytes.
// Executed by itself (argv "/proc/self/exe --print-status") it says with which rights programs run
// here, whatever the image holds.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <string_view>
#include <utility>

#include "lib/base/tls.h"
#include "lib/guest/agent.h"
#include "lib/guest/options.h"

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitFailure = 1;

int Fail(int code, const absl::Status& why) {
  std::fprintf(stderr, "sandbroker-agent: %s\n", std::string(why.message()).c_str());
  return code;
}

int PrintStatus() {
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return kExitFailure;
  char part[4096];
  size_t got;
  while ((got = std::fread(part, 1, sizeof(part), status)) > 0) {
    if (std::fwrite(part, 1, got, stdout) != got) return kExitFailure;
  }
  return std::ferror(status) || std::fflush(stdout) != 0 ? kExitFailure : 0;
}

}  // namespace

int main(int argc, char** argv) {
  // The local backend asks it, to learn whether this file runs inside bubblewrap at all.
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("sandbroker-agent " SANDBROKER_VERSION);
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--print-status") return PrintStatus();
  sandbroker::IgnoreOpenSslConfiguration();
  auto options = sandbroker::guest::ParseAgentOptions(argc, argv);
  if (!options.ok()) {
    std::fputs(sandbroker::guest::AgentUsage().c_str(), stderr);
    return Fail(kExitUsage, options.status());
  }
  auto credentials = sandbroker::guest::ReadCredentials(*options);
  if (!credentials.ok()) return Fail(kExitUsage, credentials.status());
  boost::asio::io_context io(1);
  sandbroker::guest::Agent agent(io, *std::move(options));
  if (const absl::Status status = agent.Start(*std::move(credentials)); !status.ok()) {
    return Fail(kExitFailure, status);
  }
  return agent.Run();
}
