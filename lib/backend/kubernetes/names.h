// Names of the objects that we make: claims (a cold sandbox, its pod and its service take the same
// name, hence 63 characters at most) and what fits into a label. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sandbroker::kubernetes {

// By which the controller finds the pod of a sandbox (label sandbox-name-hash): FNV-1a, 32 bits.
// Two names of one hash in one namespace break both sandboxes.
uint32_t NameHash(std::string_view name);

// "sb-" and 20 of [a-z2-7], 100 random bits. `taken` says whether a hash belongs to a name that is
// known already; such a name is not chosen, unless eight in a row are taken.
std::string NewClaimName(const std::function<bool(uint32_t hash)>& taken);

// What a label can hold of a receipt's key. Two keys may share it: compare the whole one.
std::string LabelOfReceipt(std::string_view key);

// A label's value: up to 63 of [A-Za-z0-9._-], ends being letters or digits. "" is one.
bool IsLabelValue(std::string_view text);

}  // namespace sandbroker::kubernetes
