"""What a hostile program can ask of the kernel. Every try has a control that succeeds: outside, or
inside with what is allowed."""
import platform

import pytest

from harness import api, walls

x86_64_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")


def test_filter_and_no_new_privileges_are_in_force(jail):
    status = dict(line.split(":\t") for line in jail.shell("cat /proc/self/status").splitlines())
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name


USERNS = "attempt(call, 272, 0x10000000)"  # unshare(CLONE_NEWUSER)
CLONE_USERNS = """
def child():
    pid = libc.syscall(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid < 0: raise OSError(ctypes.get_errno(), "clone")
    os.waitpid(pid, 0)
attempt(child)
"""


@x86_64_only
@pytest.mark.parametrize("script", [USERNS, CLONE_USERNS], ids=["unshare", "clone"])
def test_user_namespaces_cannot_be_made(jail, script):
    assert walls.outside(script) == ["ok"]
    assert jail.tries(script) == ["EPERM"]
    assert jail.tries(CLONE_USERNS.replace("0x10000000 | ", "")) == ["ok"]


@x86_64_only
def test_clone3_looks_absent_so_that_libraries_use_clone(jail):
    clone3 = "attempt(call, 435, 0, 0)"
    assert walls.outside(clone3) != ["ENOSYS"]
    assert jail.tries(clone3) == ["ENOSYS"]
    threads = "import threading; t = threading.Thread(target=print, args=('ran',)); t.start()"
    assert jail.tries(threads) == ["ran"]


MOUNT = """
def mount():
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
attempt(mount)
"""


def test_mounts_are_refused(jail):
    assert walls.outside(MOUNT, prefix=walls.with_own_namespaces("--mount")) == ["ok"]
    assert jail.tries(MOUNT) == ["EPERM"]


LOOKS_AT_ARGUMENTS = {"umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen",
                      "fsmount", "setns", "io_uring_setup", "keyctl", "add_key", "request_key",
                      "pidfd_getfd", "kcmp"}


@x86_64_only
@pytest.mark.parametrize("name,number", [
    ("umount2", 166), ("pivot_root", 155), ("chroot", 161), ("open_tree", 428),
    ("move_mount", 429), ("fsopen", 430), ("fsmount", 432), ("mount_setattr", 442), ("setns", 308),
    ("bpf", 321), ("perf_event_open", 298), ("userfaultfd", 323), ("io_uring_setup", 425),
    ("keyctl", 250), ("add_key", 248), ("request_key", 249), ("kexec_load", 246),
    ("init_module", 175), ("finit_module", 313), ("delete_module", 176), ("reboot", 169),
    ("swapon", 167), ("syslog", 103), ("acct", 163), ("quotactl", 179), ("iopl", 172),
    ("open_by_handle_at", 304), ("fanotify_init", 300), ("pidfd_getfd", 438), ("kcmp", 312),
    ("sethostname", 170), ("settimeofday", 164)])
def test_system_call_is_refused(jail, name, number):
    """With arguments that are all wrong: EPERM comes before anybody looks at them."""
    call = f"attempt(call, {number}, -1, -1, -1, -1, -1)"
    assert jail.tries(call) == ["EPERM"], name
    # The control, where the kernel looks at the arguments before it looks at rights.
    if name in LOOKS_AT_ARGUMENTS:
        assert walls.outside(call, prefix=walls.with_own_namespaces("--mount")) != ["EPERM"]


@x86_64_only
def test_unknown_system_call_looks_like_an_older_kernel(jail):
    assert jail.tries("attempt(call, 900)") == ["ENOSYS"]


# getpid by machine code: once as this architecture calls the kernel, once as 32-bit programs do.
MACHINE_CODE = """
import mmap
code = bytes.fromhex(sys.argv[1])
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0)
"""


@x86_64_only
def test_32_bit_system_calls_end_the_process(jail):
    native = "b8270000000f05c3"  # mov eax, 39; syscall; ret
    foreign = "b814000000cd80c3"  # mov eax, 20; int 0x80; ret
    assert jail.tries(MACHINE_CODE, native) == ["True"]
    reply = jail.script(MACHINE_CODE, foreign)
    assert api.end_of(reply.ended) == "signaled" and reply.ended.signaled.number == 31  # SIGSYS


SOCKETS = """
for family, kind in ((socket.AF_INET, socket.SOCK_RAW), (socket.AF_PACKET, socket.SOCK_RAW),
                     (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)):
    attempt(socket.socket, family, kind, 1 if kind == socket.SOCK_RAW else 0)
"""


def test_raw_and_packet_sockets_are_refused(jail):
    assert walls.outside(SOCKETS, prefix=walls.with_own_namespaces("--net")) == ["ok"] * 4
    assert jail.tries(SOCKETS) == ["EPERM", "EAFNOSUPPORT", "ok", "ok"]


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_ALG", "AF_BLUETOOTH", "AF_CAN", "AF_TIPC"])
def test_unusual_socket_families_do_not_exist(jail, family):
    script = f"attempt(socket.socket, socket.{family}, socket.SOCK_SEQPACKET)"
    assert jail.tries(script) == ["EAFNOSUPPORT"]


def test_network_interfaces_can_be_listed_but_are_only_loopback(jail):
    assert jail.tries("print(*[name for _, name in socket.if_nameindex()])") == ["lo"]


@x86_64_only
def test_key_rings_do_not_leak_into_a_sandbox(jail):
    """A key put into the session's ring by whoever started the broker."""
    add = ("data = ctypes.create_string_buffer(b'secret')\n"
           "attempt(call, 248, b'user', b'sandbroker-test', data, 6, -2)")  # KEY_SPEC_PROCESS
    if walls.outside(add) != ["ok"]:
        pytest.skip("this kernel keeps no keys")
    assert jail.tries(add) == ["EPERM"]
    assert jail.tries("attempt(call, 249, b'user', b'sandbroker-test', 0, 0)") == ["EPERM"]


def test_core_dumps_reach_nobody(jail):
    """core_pattern may name a handler on the host, which would be given a hostile core."""
    import resource
    limit = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"
    assert jail.tries(limit) == ["1", "1"]
    assert resource.getrlimit(resource.RLIMIT_CORE)[1] != 1  # the tests' own is another
    reply = jail.run("kill -SEGV $$")
    assert reply.ended.signaled.number == 11 and not reply.ended.signaled.core_dumped


@x86_64_only
def test_address_randomisation_cannot_be_switched_off(jail):
    switch_off = "attempt(call, 135, 0x0040000)"
    assert walls.outside(switch_off) == ["ok"]
    assert jail.tries(switch_off) == ["ENOSYS"]
    assert jail.tries("attempt(call, 135, 0xffffffff)") == ["ok"]
