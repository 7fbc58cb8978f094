#include "lib/backend/local/syscall_filter.h"

#include <seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "lib/backend/local/syscall_rules.h"
#include "lib/base/fd.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

constexpr uint32_t Refuse(int error) { return SCMP_ACT_ERRNO(static_cast<uint32_t>(error)); }

// Collects rules; the one failure that counts is the earliest.
class Filter {
 public:
  // The kernel's own answer to a call it does not know.
  Filter() : context_(seccomp_init(Refuse(ENOSYS)), &seccomp_release) {
    if (context_ == nullptr) {
      Failed("seccomp_init", ENOMEM);
      return;
    }
    // Searched as a tree, not as a list of some hundred comparisons.
    Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
    Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  }

  template <class... Compares>
  void Add(std::string_view name, uint32_t action, Compares... compares) {
    const std::array<scmp_arg_cmp, sizeof...(compares)> all = {compares...};
    AddRule(name, action, all.data(), all.size());
  }

  absl::StatusOr<std::string> Compile() {
    if (!failure_.ok()) return failure_;
    const UniqueFd file(memfd_create("seccomp", MFD_CLOEXEC));
    if (!file.valid()) return absl::InternalError("memfd_create for the seccomp filter");
    if (const int error = seccomp_export_bpf(context_.get(), file.get()); error != 0) {
      Failed("seccomp_export_bpf", -error);
      return failure_;
    }
    std::string program(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
    if (pread(file.get(), program.data(), program.size(), 0) !=
        static_cast<ssize_t>(program.size())) {
      return absl::InternalError("the seccomp filter could not be read back");
    }
    return program;
  }

 private:
  void Set(scmp_filter_attr attribute, uint32_t value) {
    const int error = seccomp_attr_set(context_.get(), attribute, value);
    if (error != 0) Failed("seccomp_attr_set", -error);
  }

  void AddRule(std::string_view name, uint32_t action, const scmp_arg_cmp* compare,
               unsigned count) {
    const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
    // Below zero: unknown to this libseccomp, or not a call of this architecture.
    if (number < 0 || !failure_.ok()) return;
    const int error = seccomp_rule_add_array(context_.get(), action, number, count, compare);
    if (error != 0) Failed(name, -error);
  }

  void Failed(std::string_view what, int error) {
    if (failure_.ok()) {
      failure_ = absl::InternalError(
          StrCat("the seccomp filter can't be made: ", what, ": ", std::strerror(error)));
    }
  }

  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  absl::Status failure_;
};

void AddClone(Filter& filter) {
  filter.Add("clone", SCMP_ACT_ALLOW, SCMP_A0_64(SCMP_CMP_MASKED_EQ, kNamespaceFlags, 0));
  for (int bit = 0; bit < 32; ++bit) {
    const uint64_t flag = uint64_t{1} << bit;
    if ((kNamespaceFlags & flag) == 0) continue;
    filter.Add("clone", Refuse(EPERM), SCMP_A0_64(SCMP_CMP_MASKED_EQ, flag, flag));
  }
}

void AddSocket(Filter& filter) {
  uint64_t highest = kNetlinkFamily;
  for (const uint64_t family : SocketFamilies()) {
    filter.Add("socket", SCMP_ACT_ALLOW, SCMP_A0_64(SCMP_CMP_EQ, family));
    filter.Add("socketpair", SCMP_ACT_ALLOW, SCMP_A0_64(SCMP_CMP_EQ, family));
    highest = std::max(highest, family);
  }
  filter.Add("socket", SCMP_ACT_ALLOW, SCMP_A0_64(SCMP_CMP_EQ, kNetlinkFamily),
             SCMP_A2_64(SCMP_CMP_EQ, kNetlinkRoute));
  filter.Add("socket", Refuse(EPROTONOSUPPORT), SCMP_A0_64(SCMP_CMP_EQ, kNetlinkFamily),
             SCMP_A2_64(SCMP_CMP_NE, kNetlinkRoute));
  for (uint64_t family = 0; family < highest; ++family) {
    bool allowed = family == kNetlinkFamily;
    for (const uint64_t one : SocketFamilies()) allowed = allowed || one == family;
    if (allowed) continue;
    filter.Add("socket", Refuse(EAFNOSUPPORT), SCMP_A0_64(SCMP_CMP_EQ, family));
  }
  filter.Add("socket", Refuse(EAFNOSUPPORT), SCMP_A0_64(SCMP_CMP_GT, highest));
}

// The agent has its programs' uid, so the kernel would let them change its limits. What is left to
// them is RLIMIT_NPROC, with which the agent itself stops those it ends.
void AddLimits(Filter& filter) {
  constexpr scmp_datum_t kNobody = 0;
  filter.Add("prlimit64", SCMP_ACT_ALLOW, SCMP_A0_64(SCMP_CMP_EQ, kNobody));
  filter.Add("prlimit64", SCMP_ACT_ALLOW, SCMP_A2_64(SCMP_CMP_EQ, kNobody));  // only asks
  filter.Add("prlimit64", SCMP_ACT_ALLOW, SCMP_A1_64(SCMP_CMP_EQ, RLIMIT_NPROC));
}

void AddPersonality(Filter& filter) {
  for (const uint64_t value : Personalities()) {
    filter.Add("personality", SCMP_ACT_ALLOW, SCMP_A0_64(SCMP_CMP_EQ, value));
  }
}

}  // namespace

absl::StatusOr<std::string> CompileSyscallFilter() {
  Filter filter;
  for (const std::string& name : AllowedSyscalls()) filter.Add(name, SCMP_ACT_ALLOW);
  for (const std::string& name : RefusedSyscalls()) filter.Add(name, Refuse(EPERM));
  AddClone(filter);
  AddSocket(filter);
  AddLimits(filter);
  AddPersonality(filter);
  return filter.Compile();
}

}  // namespace sandbroker::local
