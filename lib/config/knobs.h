// The tables of all keys: name in the file, flag, and where the value lives. File, environment,
// flags and --print-config all go through them, so a key can't exist in one and not in another.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "lib/config/config.h"

namespace sandbroker::config {

using Slot = std::variant<std::string*, uint32_t*, Duration*, ByteSize*, bool*>;

template <class Owner>
struct Knob {
  std::string_view section;  // "server"; empty for keys of a template or pool
  std::string_view key;      // "listen"
  std::string_view flag;     // "listen" for --listen and SANDBROKER_LISTEN; empty = file only
  std::string_view help;
  Slot (*slot)(Owner&);
};

std::span<const Knob<Config>> ServerKnobs();
std::span<const Knob<TemplateConfig>> TemplateKnobs();
std::span<const Knob<PoolConfig>> PoolKnobs();

// Parses by the slot's type; the error does not name the knob.
absl::Status SetSlot(Slot slot, std::string_view text);
std::string PrintSlot(Slot slot);

// "log-format" -> "SANDBROKER_LOG_FORMAT".
std::string EnvironmentName(std::string_view flag);

}  // namespace sandbroker::config
