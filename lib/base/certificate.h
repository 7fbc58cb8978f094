// What a server of TLS shows: a certificate that it signed itself, and the key of it. Nobody
// vouches for such a certificate; whoever meets it is bound to it by a signature above TLS
// (lib/wire/handshake.h). Any thread.
#pragma once

#include <string>

#include "lib/base/signing.h"

namespace sandbroker {

struct Identity {
  SigningKey key;
  std::string certificate;  // DER
};

// P-256, made anew, in memory only. Valid at all times: a sandbox's clock decides nothing.
Identity MakeIdentity();

}  // namespace sandbroker
