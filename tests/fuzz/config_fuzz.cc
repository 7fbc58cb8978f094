// The configuration file: any text is read or refused with FILE:LINE; what was read and is valid
// is written to a text that reads to the same.
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/config/config.h"
#include "lib/config/yaml.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {

std::vector<std::string> Seeds() {
  const config::Config defaults;
  return {
      config::WriteYaml(defaults),
      "server:\n  listen: 127.0.0.1:0\n  heartbeat_interval: 200ms\n",
      "pools:\n  large:\n    warm: 1\n    limit: 3\n    template: default\n",
      "templates:\n  default:\n    tmp: 1MiB\n    env: {A: b, C: \"d\\n\"}\n",
      "a: &x [*x, {? b : !!binary c}]\n",
      "log: {format: json}\n---\nlog: {level: debug}\n",
  };
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  config::Config read;
  const absl::Status status = config::ReadYaml(text, "f.yaml", &read);
  if (!status.ok()) {
    SANDBROKER_CHECK(MessageOf(status).starts_with("f.yaml"));
    return 0;
  }
  if (!config::Validate(read).ok()) return 0;
  const std::string written = config::WriteYaml(read);
  config::Config again;
  SANDBROKER_CHECK(config::ReadYaml(written, "w.yaml", &again).ok());
  SANDBROKER_CHECK(config::WriteYaml(again) == written);
  return 0;
}
