// Request targets of the Kubernetes API: paths of resources and query strings, escaped, so that no
// name or selector can change what is asked for. Pure.
#pragma once

#include <string>
#include <string_view>

#include "lib/kube/api.h"

namespace sandbroker::kube {

// Everything but RFC 3986's unreserved characters as %XX: right inside a path segment and a query.
std::string EscapeUrl(std::string_view text);

// "/apis/GROUP/VERSION/namespaces/SPACE/PLURAL[/NAME]", "/api/VERSION/..." for the core group. An
// empty space leaves its two segments out.
std::string ResourcePath(const Resource& resource, std::string_view space,
                         std::string_view name = "");

// Appends one "key=value" to a target, escaped.
void AddQuery(std::string* target, std::string_view key, std::string_view value);

// False for what can't be a segment of a path: empty, ".", "..", longer than 253, or with a
// character that no Kubernetes name has. Asked of names before a request is made of them.
bool IsPathName(std::string_view name);

}  // namespace sandbroker::kube
