// Ids that callers choose and ids that we make. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace sandbroker {

// [A-Za-z0-9._-]{1,64}: execution ids, request ids, holders.
bool IsValidId(std::string_view id);

// 32 lower-case hex digits from 16 random bytes: boot ids, object uids, minted execution ids.
std::string NewId();

}  // namespace sandbroker
