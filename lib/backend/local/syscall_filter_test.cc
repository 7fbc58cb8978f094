// The compiled filter is interpreted here as the kernel does, so that each verdict can be read
// without making a system call.
#include "lib/backend/local/syscall_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/backend/local/syscall_rules.h"

namespace sandbroker::local {
namespace {

#ifdef __x86_64__
constexpr uint32_t kOwnArch = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kOwnArch = AUDIT_ARCH_AARCH64;
#endif

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t Errno(int number) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(number); }

const std::vector<sock_filter>& Program() {
  static const std::vector<sock_filter> program = [] {
    const auto compiled = CompileSyscallFilter();
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    std::vector<sock_filter> code(compiled.ok() ? compiled->size() / sizeof(sock_filter) : 0);
    if (compiled.ok()) std::memcpy(code.data(), compiled->data(), compiled->size());
    return code;
  }();
  return program;
}

bool Jumps(const sock_filter& op, uint32_t value) {
  switch (BPF_OP(op.code)) {
    case BPF_JEQ:
      return value == op.k;
    case BPF_JGT:
      return value > op.k;
    case BPF_JGE:
      return value >= op.k;
    default:
      return (value & op.k) != 0;
  }
}

uint32_t Run(const seccomp_data& data) {
  uint32_t value = 0;
  for (size_t at = 0; at < Program().size(); ++at) {
    const sock_filter& op = Program()[at];
    if (BPF_CLASS(op.code) == BPF_LD) {
      std::memcpy(&value, reinterpret_cast<const char*>(&data) + op.k, sizeof(value));
    } else if (BPF_CLASS(op.code) == BPF_ALU) {
      value &= op.k;
    } else if (BPF_CLASS(op.code) == BPF_RET) {
      return op.k;
    } else if (BPF_OP(op.code) == BPF_JA) {
      at += op.k;
    } else {
      at += Jumps(op, value) ? op.jt : op.jf;
    }
  }
  ADD_FAILURE() << "the program has no end";
  return 0;
}

uint32_t Verdict(long number, uint64_t first = 0, uint64_t third = 0, uint32_t arch = kOwnArch,
                 uint64_t second = 0) {
  seccomp_data data = {};
  data.nr = static_cast<int>(number);
  data.arch = arch;
  data.args[0] = first;
  data.args[1] = second;
  data.args[2] = third;
  return Run(data);
}

TEST(SyscallFilter, Program_FitsTheKernel) {
  ASSERT_FALSE(Program().empty());
  EXPECT_LE(Program().size(), size_t{BPF_MAXINSNS});
}

TEST(SyscallFilter, WhatTheAgentAndItsProgramsNeed_Passes) {
  for (const long number : {SYS_signalfd4,    SYS_pidfd_open,      SYS_pidfd_send_signal,
                            SYS_prctl,        SYS_waitid,          SYS_openat2,
                            SYS_memfd_create, SYS_close_range,     SYS_execve,
                            SYS_prlimit64,    SYS_setsid,          SYS_ptrace,
                            SYS_epoll_pwait,  SYS_timerfd_create,  SYS_futex,
                            SYS_getrandom,    SYS_ioctl,           SYS_inotify_init1,
                            SYS_mkdirat,      SYS_process_vm_readv}) {
    EXPECT_EQ(Verdict(number), kAllow) << number;
  }
  EXPECT_EQ(Verdict(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | 17), kAllow);
  EXPECT_EQ(Verdict(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD),
            kAllow);
}

TEST(SyscallFilter, NamespaceFlags_AreRefusedOneByOne) {
  for (const uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWUTS,
                              CLONE_NEWIPC, CLONE_NEWCGROUP}) {
    EXPECT_EQ(Verdict(SYS_clone, flag | 17), Errno(EPERM)) << flag;
  }
  EXPECT_EQ(Verdict(SYS_clone3), Errno(ENOSYS));
  EXPECT_EQ(Verdict(SYS_unshare, CLONE_NEWUSER), Errno(EPERM));
  EXPECT_EQ(Verdict(SYS_setns), Errno(EPERM));
}

TEST(SyscallFilter, KernelInterfacesBeyondAProgramsNeed_AreRefused) {
  for (const long number : {SYS_mount,
                            SYS_umount2,
                            SYS_fsopen,
                            SYS_open_tree,
                            SYS_move_mount,
                            SYS_pivot_root,
                            SYS_chroot,
                            SYS_bpf,
                            SYS_perf_event_open,
                            SYS_userfaultfd,
                            SYS_io_uring_setup,
                            SYS_keyctl,
                            SYS_add_key,
                            SYS_request_key,
                            SYS_kexec_load,
                            SYS_init_module,
                            SYS_open_by_handle_at,
                            SYS_reboot,
                            SYS_swapon,
                            SYS_syslog,
                            SYS_fanotify_init,
                            SYS_pidfd_getfd,
                            SYS_quotactl,
                            SYS_settimeofday}) {
    EXPECT_EQ(Verdict(number), Errno(EPERM)) << number;
  }
}

TEST(SyscallFilter, UnknownCall_LooksLikeAnOlderKernel) {
  EXPECT_EQ(Verdict(999), Errno(ENOSYS));
  EXPECT_EQ(Verdict(100000), Errno(ENOSYS));
}

TEST(SyscallFilter, OtherArchitecture_EndsTheProcess) {
  EXPECT_EQ(Verdict(SYS_read, 0, 0, AUDIT_ARCH_I386), uint32_t{SECCOMP_RET_KILL_PROCESS});
#ifdef __x86_64__
  EXPECT_EQ(Verdict(0x40000000 | SYS_read), uint32_t{SECCOMP_RET_KILL_PROCESS});  // x32
#endif
}

TEST(SyscallFilter, SocketFamilies_OnlyTheOrdinaryOnes) {
  for (const int family : {AF_UNIX, AF_INET, AF_INET6}) {
    EXPECT_EQ(Verdict(SYS_socket, family), kAllow) << family;
  }
  EXPECT_EQ(Verdict(SYS_socket, AF_NETLINK, 0), kAllow);
  EXPECT_EQ(Verdict(SYS_socket, AF_NETLINK, 12), Errno(EPROTONOSUPPORT));
  for (const int family : {AF_PACKET, AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_CAN, AF_XDP, 0, 3, 15}) {
    EXPECT_EQ(Verdict(SYS_socket, family), Errno(EAFNOSUPPORT)) << family;
  }
  // Bits that the kernel does not look at are no way around.
  EXPECT_EQ(Verdict(SYS_socket, (uint64_t{1} << 32) | AF_PACKET), Errno(EAFNOSUPPORT));
  EXPECT_NE(Verdict(SYS_socketpair, AF_VSOCK), kAllow);
}

TEST(SyscallFilter, Limits_CanBeChangedOnlyOfOneself) {
  const auto prlimit = [](uint64_t pid, uint64_t resource, uint64_t new_limit) {
    return Verdict(SYS_prlimit64, pid, new_limit, kOwnArch, resource);
  };
  constexpr uint64_t kPointer = 0x7fff00001000;
  EXPECT_EQ(prlimit(0, RLIMIT_NOFILE, kPointer), kAllow);
  EXPECT_EQ(prlimit(1, RLIMIT_NOFILE, 0), kAllow);
  EXPECT_EQ(prlimit(1, RLIMIT_NOFILE, kPointer), Errno(ENOSYS));
  EXPECT_EQ(prlimit(1, RLIMIT_CPU, kPointer), Errno(ENOSYS));
  EXPECT_EQ(prlimit(77, RLIMIT_NPROC, kPointer), kAllow);  // the agent stops forkers with it
}

TEST(SyscallFilter, Personality_CannotWeakenTheMemoryLayout) {
  EXPECT_EQ(Verdict(SYS_personality, 0), kAllow);
  EXPECT_EQ(Verdict(SYS_personality, 0xffffffff), kAllow);
  EXPECT_NE(Verdict(SYS_personality, 0x0040000), kAllow);  // ADDR_NO_RANDOMIZE
}

TEST(SyscallRules, NoCallIsAllowedAndRefused) {
  for (const std::string& allowed : AllowedSyscalls()) {
    for (const std::string& refused : RefusedSyscalls()) EXPECT_NE(allowed, refused);
  }
}

}  // namespace
}  // namespace sandbroker::local
