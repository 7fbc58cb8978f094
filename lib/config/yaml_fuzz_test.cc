// Mutations of a good file, from a fixed seed: whatever is read, a Status comes back, soon.
#include <gtest/gtest.h>

#include <random>

#include "lib/base/status.h"
#include "lib/config/yaml.h"

namespace sandbroker::config {
namespace {

constexpr std::string_view kGoodFile = R"(
server:
  listen: "[::1]:1"
  heartbeat_interval: 250ms
  output_window: 2MiB
  blocking_jobs: 77
log: {format: json}
drain:
  delay: 5s
templates:
  default:
    env:
      LANG: C.UTF-8
  big:
    workspace: 1GiB
pools:
  gpu:
    template: big
    warm: 0
    enabled: false
)";

std::string Error(std::string_view text) {
  Config config;
  const absl::Status status = ReadYaml(text, "f.yaml", &config);
  return status.ok() ? "OK" : std::string(MessageOf(status));
}

TEST(ReadYaml, MutatedInput_EndsWithAStatusThatNamesTheFile) {
  std::mt19937 random(20240607);
  constexpr std::string_view kBytes = "{}[]:,-&*!|>'\"%@`#?~ \n\t\\0aZ\x80\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string text(kGoodFile);
    for (unsigned edits = 1 + random() % 6; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          text.insert(at, 1, kBytes[random() % kBytes.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 8);
          break;
      }
    }
    const std::string error = Error(text);
    EXPECT_TRUE(error == "OK" || error.starts_with("f.yaml")) << text << "\n" << error;
  }
}

}  // namespace
}  // namespace sandbroker::config
