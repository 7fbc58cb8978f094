// Splitting and checking of HOST:PORT.
#include "lib/config/address.h"

#include <arpa/inet.h>

#include <cstring>

#include "lib/base/strings.h"
#include "lib/config/units.h"

namespace sandbroker::config {
namespace {

bool IsIpv4(const std::string& host) {
  in_addr parsed;
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool IsIpv6(const std::string& host) {
  in6_addr parsed;
  return inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  const auto bad = [text] {
    return absl::InvalidArgumentError(
        StrCat("'", text.substr(0, 128), "' is not HOST:PORT with a numeric host"));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  const absl::StatusOr<uint32_t> port = ParseCount(text.substr(colon + 1));
  if (!port.ok() || *port > 65535) return bad();
  Address address;
  address.port = static_cast<uint16_t>(*port);
  address.v6 = ConsumePrefix(&host, "[") && ConsumeSuffix(&host, "]");
  address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  if (!(address.v6 ? IsIpv6(address.host) : IsIpv4(address.host))) return bad();
  return address;
}

std::string Address::ToString() const {
  return v6 ? StrCat("[", host, "]:", port) : StrCat(host, ":", port);
}

bool Address::IsLoopback() const {
  if (v6) {
    in6_addr parsed;
    return inet_pton(AF_INET6, host.c_str(), &parsed) == 1 && IN6_IS_ADDR_LOOPBACK(&parsed);
  }
  in_addr parsed;
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 && (ntohl(parsed.s_addr) >> 24) == 127;
}

}  // namespace sandbroker::config
