// RFC 6902 and RFC 7386, as far as the API server's users use them. Pure.
#pragma once

#include <boost/json/value.hpp>

namespace sandbroker::testing {

// test, add, replace and remove. False: one of them failed; `*target` is then of no use.
bool ApplyJsonPatch(const boost::json::value& operations, boost::json::value* target);
void ApplyMergePatch(const boost::json::value& patch, boost::json::value* target);

}  // namespace sandbroker::testing
