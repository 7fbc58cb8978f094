// Which system calls a program in a sandbox may make, by name, as plain tables: an allow-list in
// the spirit of the containers' default profile, narrowed where a sandbox without network, devices
// and privileges needs less. syscall_filter.h turns it into what the kernel takes. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sandbroker::local {

// Calls that are passed on whatever their arguments. A name that this architecture does not have is
// left out.
std::vector<std::string> AllowedSyscalls();

// Calls that are known and refused with EPERM. Everything else, a newer kernel's calls included,
// is refused with ENOSYS, so that libraries fall back to older ways.
std::vector<std::string> RefusedSyscalls();

// clone() with any of these makes a namespace and is refused with EPERM. clone3 hides its flags
// behind a pointer and is refused with ENOSYS: libraries then use clone().
inline constexpr uint64_t kNamespaceFlags = 0x7E020000;

// Families socket() makes: AF_UNIX, AF_INET, AF_INET6, and AF_NETLINK with NETLINK_ROUTE, which
// libraries ask for interfaces and addresses. Others are refused with EAFNOSUPPORT.
std::span<const uint64_t> SocketFamilies();
inline constexpr uint64_t kNetlinkFamily = 16;
inline constexpr uint64_t kNetlinkRoute = 0;

// personality() takes these; the rest would weaken the memory layout.
std::span<const uint64_t> Personalities();

}  // namespace sandbroker::local
