#include "lib/backend/local/syscall_rules.h"

#include <array>
#include <iterator>
#include <sstream>

namespace sandbroker::local {
namespace {

constexpr std::string_view kAllowed =
    // Files and descriptors.
    "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat "
    "faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl "
    "fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync "
    "ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init "
    "inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr "
    "lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat "
    "openat2 pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead "
    "readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr "
    "splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee truncate "
    "umask unlink unlinkat utime utimensat utimes vmsplice write writev "
    // Waiting for events.
    "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd "
    "eventfd2 io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit poll ppoll "
    "pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime "
    // Memory.
    "brk cachestat madvise map_shadow_stack membarrier memfd_create memfd_secret mincore "
    "mlock mlock2 mlockall mmap mprotect mremap mseal msync munlock munlockall munmap "
    "pkey_alloc pkey_free pkey_mprotect process_mrelease remap_file_pages "
    // Processes, threads, signals. ptrace and process_vm_*: a program may debug its own; the agent
    // is not dumpable, hence out of reach.
    "arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue "
    "futex_wait futex_waitv futex_wake get_robust_list get_thread_area getcpu getegid geteuid "
    "getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid "
    "getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set kill landlock_add_rule "
    "landlock_create_ruleset landlock_restrict_self modify_ldt pause pidfd_open "
    "pidfd_send_signal prctl process_vm_readv process_vm_writev ptrace "
    "restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo "
    "rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max "
    "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
    "sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler "
    "sched_yield seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsuid "
    "setgid setgroups setpgid setpriority setregid setresgid setresuid setreuid setrlimit "
    "setsid setuid sigaltstack tgkill tkill vfork wait4 waitid "
    // System V and POSIX interprocess communication; the namespace is the sandbox's own.
    "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget "
    "msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget "
    // Sockets, but for making them.
    "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg "
    "recvmsg sendmmsg sendmsg sendto setsockopt shutdown "
    // Time, and what the system says about itself. Setting a clock needs a capability.
    "adjtimex alarm clock_adjtime clock_getres clock_gettime clock_nanosleep getitimer "
    "getrandom gettimeofday nanosleep setitimer sysinfo time timer_create timer_delete "
    "timer_getoverrun timer_gettime timer_settime times uname ";

constexpr std::string_view kRefused =
    // Namespaces and mounts.
    "chroot fsconfig fsmount fsopen fspick listmount mount mount_setattr move_mount open_tree "
    "pivot_root setns statmount umount2 unshare "
    // The kernel's own machinery, and its debugging and tracing.
    "acct bpf create_module delete_module finit_module get_kernel_syms init_module ioperm "
    "iopl kcmp kexec_file_load kexec_load lookup_dcookie perf_event_open query_module "
    "quotactl quotactl_fd reboot swapoff swapon syslog uselib userfaultfd vhangup vm86 "
    "vm86old "
    // Large and often broken interfaces that nothing here needs.
    "io_uring_enter io_uring_register io_uring_setup "
    // Keys: a key ring is not part of any namespace but the user's.
    "add_key keyctl request_key "
    // Ways around paths and descriptors.
    "fanotify_init fanotify_mark name_to_handle_at open_by_handle_at pidfd_getfd "
    "process_madvise "
    // Of the whole machine.
    "clock_settime get_mempolicy mbind migrate_pages move_pages set_mempolicy "
    "set_mempolicy_home_node setdomainname sethostname settimeofday stime ";

constexpr auto kFamilies = std::to_array<uint64_t>({1 /*UNIX*/, 2 /*INET*/, 10 /*INET6*/});
// Linux, 32-bit address layouts, and "tell me the present one".
constexpr auto kPersonalities = std::to_array<uint64_t>({0, 8, 0x20000, 0x20008, 0xffffffff});

std::vector<std::string> Words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

std::vector<std::string> AllowedSyscalls() { return Words(kAllowed); }
std::vector<std::string> RefusedSyscalls() { return Words(kRefused); }
std::span<const uint64_t> SocketFamilies() { return kFamilies; }
std::span<const uint64_t> Personalities() { return kPersonalities; }

}  // namespace sandbroker::local
