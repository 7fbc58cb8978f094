"""What a hostile program can do to the agent beside it, which has its uid. The control is a child
of its own, to which it may do all of that."""
import platform

import pytest

from harness import api, walls

# Prints what can be done to the process named by argv, "own" being a child.
TRIES = """
import subprocess, time
def target():
    if sys.argv[1] != "own": return int(sys.argv[1])
    child = subprocess.Popen(["sleep", "1000"], env={"SECRET": "1"})
    while open(f"/proc/{child.pid}/cmdline").read() != "sleep\\0" + "1000\\0": pass
    return child.pid
pid = target()
def ptrace(): call(101, 16, pid, 0, 0); os.waitpid(pid, 0x40000000); call(101, 17, pid, 0, 0)
def vm_read():
    line = next(l for l in open(f"/proc/{pid}/maps") if "r" in l.split()[1])
    class IoVec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    buffer = ctypes.create_string_buffer(8)
    mine = IoVec(ctypes.addressof(buffer), 8)
    theirs = IoVec(int(line.split("-")[0], 16), 8)
    call(310, pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
attempt(lambda: open(f"/proc/{pid}/environ").read())
attempt(lambda: open(f"/proc/{pid}/maps").read())
attempt(lambda: open(f"/proc/{pid}/mem", "rb"))
attempt(os.listdir, f"/proc/{pid}/fd")
attempt(os.readlink, f"/proc/{pid}/exe")
attempt(vm_read)
attempt(ptrace)
if pid != 1: os.kill(pid, signal.SIGKILL)
"""


def test_own_child_is_open_to_a_program(jail):
    """The control of the next test."""
    assert jail.tries(TRIES, "own") == ["ok"] * 7


def test_agents_memory_environment_and_descriptors_are_closed(jail):
    tries = jail.tries(TRIES, "1")
    assert set(tries) <= {"EACCES", "EPERM"} and len(tries) == 7, tries


@pytest.mark.parametrize("limit", ["NOFILE", "CPU", "FSIZE"])
def test_agents_limits_cannot_be_changed(jail, limit):
    script = f"import resource; attempt(resource.prlimit, {{}}, resource.RLIMIT_{limit}, (64, 64))"
    assert jail.tries(script.format("0")) == ["ok"]
    assert jail.tries(script.format("1")) == ["ENOSYS"]


@pytest.mark.parametrize("number", [9, 15, 2, 19, 1, 6, 11, 17])
def test_no_signal_reaches_the_agent(jail, number):
    """It is the first process of its namespace and obeys only what comes from outside."""
    child = ("pid = os.posix_spawn('/usr/bin/sleep', ['sleep', '1000'], {})\n"
             "os.kill(pid, 9); print(os.WTERMSIG(os.waitpid(pid, 0)[1]))")
    assert jail.tries(child) == ["9"]
    jail.script(f"attempt(os.kill, 1, {number})")
    jail.script(f"attempt(os.kill, -1, {number})")
    assert jail.run(["echo", "alive"]).stdout == b"alive\n"


# A signal with a sender of one's own choice: 0 is how one from outside the namespace looks.
FORGED = """
info = bytearray(128)
info[0:4] = signal.SIGTERM.to_bytes(4, "little")
info[8:12] = (-1).to_bytes(4, "little", signed=True)  # SI_QUEUE; the kernel takes no other
attempt(call, 129, {pid}, signal.SIGTERM, (ctypes.c_char * 128).from_buffer(info))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")
def test_forged_signal_from_outside_does_not_end_the_agent(jail):
    taken = "signal.signal(15, lambda *_: print('taken'))\n"
    assert jail.tries(taken + FORGED.format(pid="os.getpid()")) == ["taken", "ok"]
    assert jail.tries(FORGED.format(pid="1")) == ["ok"]  # the kernel lets it through
    assert jail.run(["echo", "alive"]).stdout == b"alive\n"
    assert jail.run(["echo", "still alive"]).stdout == b"still alive\n"


def test_descriptors_of_the_agent_are_not_inherited(jail):
    look = "print(*sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
    numbers = [int(word) for word in jail.tries(look)]
    assert numbers[:3] == [0, 1, 2] and len(numbers) <= 4, numbers  # and listdir's own


def test_secret_of_an_acquire_is_not_in_the_agents_environment(walled):
    jail = walls.Jail(walled.stub(), env={"TOKEN": "late-bound"})
    assert jail.tries("print(os.environ['TOKEN'])") == ["late-bound"]
    assert jail.run("cat /proc/1/environ /proc/1/cmdline | grep late-bound").ended.exited.code != 0
    jail.release()


def test_programs_cannot_hold_the_agents_socket(walled, jail):
    """It was bound outside; inside there is no path that leads to it."""
    script = "print(*[line.split()[-1] for line in open('/proc/net/unix')])"
    assert not [word for word in jail.tries(script) if word.startswith(("/", "@"))]
    assert api.run(jail.stub, jail.id, ["true"]).ended.exited.code == 0
