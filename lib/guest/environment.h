// The environment executions inherit: what the agent itself was given, then what Bind added, then
// the start's own. Kept in memory only; the agent's own environment is wiped. Agent thread only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/repeated_field.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::guest {

using EnvList = google::protobuf::RepeatedPtrField<agent::v1::EnvVar>;

// INVALID_ARGUMENT about `field` for an empty name, '=' in a name, or a NUL byte.
absl::Status ValidateEnv(const EnvList& env, const std::string& field);

class Environment {
 public:
  // Takes the process's environment over and overwrites its memory with zeros.
  void AdoptFromProcess();
  void Add(const EnvList& env) { Merge(env, &base_); }

  struct Composed {
    std::vector<std::string> entries;  // "NAME=value"
    std::string path;                  // value of PATH
  };
  Composed Compose(const EnvList& own) const;

 private:
  using Variables = std::map<std::string, std::string>;
  static void Merge(const EnvList& env, Variables* into);

  Variables base_;
};

}  // namespace sandbroker::guest
