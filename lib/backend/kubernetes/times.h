// Times as the API server writes and wants them: RFC 3339, UTC. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"

namespace sandbroker::kubernetes {

// "2026-11-29T23:26:00.123456789Z". What ParseTime gives back is the same time.
std::string FormatNanos(WallTime time);
// Six digits, as a Lease's renewTime must have.
std::string FormatMicros(WallTime time);
// Whole seconds, as a claim's shutdownTime must have: with a fraction the controller rewrites it,
// and a later test on the text fails. Rounded up, so that nothing ends early.
std::string FormatSeconds(WallTime time);

// Nothing for whatever is not a time between 1970 and 2200.
std::optional<WallTime> ParseTime(std::string_view text);

}  // namespace sandbroker::kubernetes
