#include "lib/backend/local/isolation.h"

#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

class Arguments {
 public:
  explicit Arguments(std::string program) : argv_{std::move(program)} {}
  template <class... Parts>
  Arguments& Add(Parts&&... parts) {
    (argv_.emplace_back(std::forward<Parts>(parts)), ...);
    return *this;
  }
  Arguments& Tmpfs(const char* mode, uint64_t bytes, const char* where) {
    return Add("--perms", mode, "--size", std::to_string(bytes), "--tmpfs", where);
  }
  std::vector<std::string> Take() { return std::move(argv_); }

 private:
  std::vector<std::string> argv_;
};

// Every namespace is new, and no further user namespace can be made inside; nothing is inherited
// but what follows.
void AddNamespaces(Arguments& args) {
  args.Add("--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-net");
  args.Add("--unshare-uts", "--unshare-cgroup-try", "--as-pid-1", "--new-session");
  args.Add("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox");
  args.Add("--seccomp", std::to_string(kSeccompFd));
  args.Add("--info-fd", std::to_string(kInfoFd), "--clearenv");
}

void AddHostUsr(Arguments& args) {
  args.Add("--ro-bind", "/usr", "/usr");
  for (const char* dir : {"bin", "sbin", "lib", "lib64"}) {
    args.Add("--symlink", StrCat("usr/", dir), StrCat("/", dir));
  }
  args.Add("--perms", "0755", "--dir", "/etc");
  // Public and needed by what lies in /usr: command names and the loader's cache.
  args.Add("--ro-bind-try", "/etc/alternatives", "/etc/alternatives");
  args.Add("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache");
  int fd = kFirstEtcFd;
  for (const EtcFile& file : MinimalEtc()) {
    args.Add("--perms", "0644", "--file", std::to_string(fd++), file.path);
  }
}

void AddProc(Arguments& args, const std::vector<HiddenPath>& hidden) {
  args.Add("--proc", "/proc");
  for (const HiddenPath& path : hidden) {
    if (path.folder) {
      args.Tmpfs("0555", 4096, path.path.c_str()).Add("--remount-ro", path.path);
    } else {
      // bubblewrap binds without devices, so that even opening it fails.
      args.Add("--ro-bind", "/dev/null", path.path);
    }
  }
}

// Sizes are set on every tmpfs; bubblewrap's own default is half of the host's memory.
void AddWritable(Arguments& args, const TemplateSettings& tmpl) {
  args.Add("--dev", "/dev");
  args.Tmpfs("1777", tmpl.tmp_bytes, "/dev/shm").Add("--remount-ro", "/dev");
  args.Tmpfs("1777", tmpl.tmp_bytes, "/tmp");
  args.Tmpfs("0755", 1 << 20, "/run");
  args.Tmpfs("0755", tmpl.workspace_bytes, "/workspace");
  args.Add("--chdir", "/workspace", "--remount-ro", "/");
}

void AddEnvironment(Arguments& args, const TemplateSettings& tmpl) {
  const std::pair<const char*, const char*> base[] = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", "/workspace"},
      {"USER", "sandbox"},
      {"LANG", "C.UTF-8"},
      {"TMPDIR", "/tmp"},
  };
  for (const auto& [name, value] : base) args.Add("--setenv", name, value);
  for (const auto& [name, value] : tmpl.env) args.Add("--setenv", name, value);
}

}  // namespace

std::vector<EtcFile> MinimalEtc() {
  return {
      {"/etc/passwd",
       "root:x:0:0:root:/root:/usr/sbin/nologin\n"
       "sandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n"
       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
      {"/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
      {"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
      {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
  };
}

std::vector<HiddenPath> HiddenProcPaths() {
  std::vector<HiddenPath> paths;
  for (const char* folder : {"acpi", "asound", "bus", "driver", "fs", "irq", "scsi"}) {
    paths.push_back({StrCat("/proc/", folder), true});
  }
  for (const char* file :
       {"cmdline", "interrupts", "kcore", "key-users", "keys", "kmsg", "latency_stats",
        "sched_debug", "sysrq-trigger", "timer_list", "timer_stats"}) {
    paths.push_back({StrCat("/proc/", file), false});
  }
  return paths;
}

std::vector<std::string> BubblewrapArgv(const std::string& bwrap, const TemplateSettings& tmpl,
                                        const std::vector<HiddenPath>& hidden,
                                        const std::vector<std::string>& command) {
  Arguments args(bwrap);
  AddNamespaces(args);
  if (tmpl.rootfs.empty()) {
    AddHostUsr(args);
  } else {
    args.Add("--ro-bind", tmpl.rootfs, "/");
  }
  AddProc(args, hidden);
  AddWritable(args, tmpl);
  AddEnvironment(args, tmpl);
  args.Add("--");
  for (const std::string& part : command) args.Add(part);
  return args.Take();
}

std::string ExplainFailure(const std::string& stderr_text, const HostFacts& host) {
  const auto says = [&](const char* text) { return stderr_text.find(text) != std::string::npos; };
  const bool no_namespace = says("No permissions to create new namespace") ||
                            says("Creating new namespace failed") || says("setting up uid map");
  // Ubuntu lets the namespace be made and takes its privileges away, so it shows later on.
  const bool no_power = says("loopback: Failed") || says("Failed to make / slave") ||
                        says("Can't mount") || says("Operation not permitted") ||
                        says("Permission denied");
  if (host.apparmor_restricts_userns && (no_namespace || no_power)) {
    return "AppArmor of this host restricts user namespaces "
           "(kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu 24.04). Either give "
           "bubblewrap a profile that says `userns,` (docs/operations.md shows it), or switch the "
           "restriction off: sysctl kernel.apparmor_restrict_unprivileged_userns=0";
  }
  if (no_namespace && !host.userns_allowed) {
    return "user namespaces are switched off for unprivileged processes: set "
           "kernel.unprivileged_userns_clone to 1 (Debian) and user.max_user_namespaces above 0";
  }
  if (no_namespace) {
    return "this host does not let an unprivileged process make user namespaces. Enable them: "
           "sysctl kernel.unprivileged_userns_clone=1 (Debian), "
           "sysctl kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap "
           "(Ubuntu), user.max_user_namespaces above 0, and in a container a seccomp profile that "
           "allows clone and unshare with CLONE_NEWUSER";
  }
  if (says("Can't mount proc")) {
    return "a new /proc can't be mounted: in a container, run with an unmasked /proc "
           "(--security-opt systempaths=unconfined)";
  }
  if (says("Can't mkdir") || says("Can't create file") || says("Can't find source path")) {
    return "the template's rootfs needs the folders /dev /proc /run /tmp /workspace, because it is "
           "mounted read-only";
  }
  if (says("Unknown option")) {
    return "bubblewrap is too old; 0.8 or newer is needed";
  }
  return "bubblewrap failed; its own words follow";
}

}  // namespace sandbroker::local
