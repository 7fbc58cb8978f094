// The mutual proof of a link: agent nonce -> broker proof -> agent proof, over a secret that
// only the broker and this sandbox's agent have. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sandbroker::wire {

inline constexpr size_t kNonceSize = 32;
inline constexpr size_t kSecretSize = 32;

enum class Side { kBroker, kAgent };

// What `side` sends to show that it knows `secret`.
std::string MakeProof(Side side, std::string_view secret, std::string_view agent_nonce,
                      std::string_view broker_nonce, std::string_view boot_id);

// UNAUTHENTICATED unless `proof` is what `side` must send.
absl::Status CheckProof(Side side, std::string_view proof, std::string_view secret,
                        std::string_view agent_nonce, std::string_view broker_nonce,
                        std::string_view boot_id);

}  // namespace sandbroker::wire
