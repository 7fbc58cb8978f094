#include "lib/guest/environment.h"

#include <string.h>
#include <unistd.h>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::guest {

absl::Status ValidateEnv(const EnvList& env, const std::string& field) {
  for (const auto& variable : env) {
    const std::string& name = variable.name();
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      return InvalidField(field, "name of a variable is empty or holds '=' or NUL");
    }
    if (variable.value().find('\0') != std::string::npos) {
      return InvalidField(field, StrCat("value of ", name, " holds NUL"));
    }
  }
  return absl::OkStatus();
}

void Environment::AdoptFromProcess() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (char* equals = ::strchr(*entry, '='); equals != nullptr) {
      base_.insert_or_assign(std::string(*entry, equals), std::string(equals + 1));
    }
    ::explicit_bzero(*entry, ::strlen(*entry));
  }
  ::clearenv();
}

void Environment::Merge(const EnvList& env, Variables* into) {
  for (const auto& variable : env) into->insert_or_assign(variable.name(), variable.value());
}

Environment::Composed Environment::Compose(const EnvList& own) const {
  Composed composed;
  const Variables* all = &base_;
  Variables merged;
  if (!own.empty()) {
    merged = base_;
    Merge(own, &merged);
    all = &merged;
  }
  composed.entries.reserve(all->size());
  for (const auto& [name, value] : *all) {
    composed.entries.push_back(StrCat(name, "=", value));
    if (name == "PATH") composed.path = value;
  }
  return composed;
}

}  // namespace sandbroker::guest
