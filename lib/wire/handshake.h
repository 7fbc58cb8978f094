// The mutual proof of a link: agent nonce -> broker proof -> agent proof. On a unix socket it is
// over a secret that only the broker and this sandbox's agent have; over TLS both sign, and what
// they sign names the agent's certificate, so that nobody can stand in between. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/signing.h"

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

// What a signature of a link over TLS is about.
struct TlsFacts {
  std::string_view agent_nonce;
  std::string_view broker_nonce;
  std::string_view boot_id;
  // SHA-256 of the agent's certificate (DER): the agent takes its own, the broker the one that it
  // was shown in this very session.
  std::string_view certificate_hash;
};

// What `side` sends to show that it has `key`.
std::string MakeSignature(Side side, const SigningKey& key, const TlsFacts& facts);

// UNAUTHENTICATED unless `signature` is what `side` must send, by one of `keys`.
absl::Status CheckSignature(Side side, std::string_view signature,
                            const std::vector<VerifyKey>& keys, const TlsFacts& facts);

}  // namespace sandbroker::wire
