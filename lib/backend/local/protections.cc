#include "lib/backend/local/protections.h"

#include "lib/backend/local/limits.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

using State = Protection::State;

Protection Namespaces(const absl::Status& probe) {
  if (!probe.ok()) {
    return {"isolation", State::kMissing, "no sandbox can be made", std::string(MessageOf(probe))};
  }
  return {"isolation", State::kActive,
          "user, mount, pid, network, ipc, uts and cgroup namespaces of its own, no capabilities, "
          "no new privileges, no further user namespaces",
          ""};
}

Protection HostUid(const LocalSettings& settings, const HostFacts& host) {
  if (host.is_root) {
    return {"host_uid", State::kActive,
            StrCat("a host uid for each sandbox, from ", settings.uid_first, " to ",
                   uint64_t{settings.uid_first} + settings.uid_count - 1),
            ""};
  }
  return {"host_uid", State::kPartly,
          StrCat("all sandboxes run as uid ", host.uid,
                 ": one can use up what the kernel counts per user (inotify instances, pending "
                 "signals, locked memory), and one that breaks out is this user"),
          "run sandbrokerd as root; the sandboxes then run under uids of their own"};
}

Protection Syscalls(const HostFacts& host) {
  if (!host.seccomp) {
    return {"system_calls", State::kMissing, "this kernel has no seccomp filters",
            "use a kernel with CONFIG_SECCOMP_FILTER"};
  }
  return {"system_calls", State::kActive,
          "an allow-list; other architectures' calls end the "
          "process",
          ""};
}

Protection Memory(const LocalSettings& settings) {
  const Cgroups& cgroups = settings.cgroups;
  if (!cgroups.usable()) {
    return {"memory", State::kMissing, StrCat("can't be limited: ", cgroups.why), cgroups.remedy};
  }
  if (!MemoryLimitWanted(settings)) {
    return {"memory", State::kPartly,
            StrCat("can be limited by ", cgroups.parent, ", and no template asks for it"),
            "set memory in the templates"};
  }
  for (const auto& [name, tmpl] : settings.templates) {
    if (tmpl.memory_bytes != 0) continue;
    return {"memory", State::kPartly, StrCat("template '", name, "' sets no limit"),
            "set memory in this template"};
  }
  return {"memory", State::kActive,
          StrCat("limited by cgroups below ", cgroups.folder, "; out of memory is told apart"), ""};
}

Protection Processes(const HostFacts& host) {
  if (ProcessesCountPerSandbox(host)) {
    return {"processes", State::kActive,
            StrCat("bounded in each sandbox (", kDefaultPids, " unless a template sets pids)"), ""};
  }
  return {"processes", State::kPartly,
          StrCat("bounded, but Linux ", host.kernel, " counts them over all sandboxes together"),
          "run sandbrokerd as root, or use Linux 5.14 or newer"};
}

Protection UserNamespaces(const HostFacts& host, const absl::Status& probe) {
  if (host.apparmor_restricts_userns && !probe.ok()) {
    return {"apparmor", State::kMissing,
            "AppArmor restricts user namespaces, and bubblewrap has no profile that allows them",
            "give bubblewrap a profile with `userns,` (docs/operations.md), or set "
            "kernel.apparmor_restrict_unprivileged_userns=0"};
  }
  return {"apparmor", State::kActive,
          host.apparmor_restricts_userns ? "restricts user namespaces, and bubblewrap may make them"
                                         : "does not stand in the way",
          ""};
}

Protection Disk() {
  return {"disk", State::kActive,
          "/workspace, /tmp, /dev/shm and /run are memory of a fixed size; all else is read-only",
          ""};
}

Protection KernelPointers(const HostFacts& host) {
  if (host.kernel_pointers_hidden) {
    return {"kernel_pointers", State::kActive, "kernel addresses are hidden", ""};
  }
  return {"kernel_pointers", State::kPartly, "/proc/kallsyms may show kernel addresses",
          "sysctl kernel.kptr_restrict=1"};
}

}  // namespace

std::vector<Protection> DescribeProtections(const LocalSettings& settings, const HostFacts& host,
                                            const absl::Status& probe) {
  return {Namespaces(probe), HostUid(settings, host), Syscalls(host), UserNamespaces(host, probe),
          Memory(settings),  Processes(host),         Disk(),         KernelPointers(host)};
}

std::string StateName(State state) {
  switch (state) {
    case State::kActive:
      return "active";
    case State::kPartly:
      return "partly";
    case State::kMissing:
      return "missing";
  }
  return "";
}

}  // namespace sandbroker::local
