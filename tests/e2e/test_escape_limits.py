"""What a hostile program can use up. Each try runs into the sandbox's own bound, and a neighbour
does not notice. The bounds are those of conftest.py."""
import pytest

from harness import api, proc, walls
from harness.wait import wait_until

FORKS = """
import time
made = 0
try:
    while made < int(sys.argv[1]):
        if os.fork() == 0:
            os.closerange(0, 3)  # nobody waits for our output
            time.sleep(1000)
        made += 1
except OSError as error:
    print(errno.errorcode[error.errno])
print(made)
"""


def test_fork_bomb_stays_within_its_bound(walled, jail):
    neighbour = walls.Jail(walled.stub())
    assert jail.tries(FORKS, "20")[-1] == "20"  # the control: below the bound
    jail.release()
    bomb = walls.Jail(walled.stub())
    error, made = bomb.tries(FORKS, "1000")
    assert error == "EAGAIN" and 30 < int(made) < 64
    # Its own bound is used up; nobody else's is.
    assert neighbour.tries(FORKS, "20")[-1] == "20"
    neighbour.release()
    before = len(proc.descendants(walled.pid))
    bomb.release()
    wait_until(lambda: len(proc.descendants(walled.pid)) < before - 20, 20, "the bomb is gone")
    jail.id = api.acquire(jail.stub).sandbox.sandbox_id


def test_real_fork_bomb_is_ended_with_its_sandbox(walled):
    jail = walls.Jail(walled.stub())
    # Without a further fork: the shell that fails at one would end, and the bomb go on without it.
    run = api.Exec(jail.stub, jail.id, "f() { f | f & }; echo up; f; exec sleep 1000")
    run.wait_output(b"up")
    jail.release()
    run.finish()
    assert api.end_of(run.ended) == "sandbox_gone"
    wait_until(lambda: len(proc.agents(walled.pid)) <= 2, 20, "only warm sandboxes are left")
    neighbour = walls.Jail(walled.stub())
    assert neighbour.run(["true"]).ended.exited.code == 0
    neighbour.release()


FILL = """
folder, size = sys.argv[1], int(sys.argv[2])
written = 0
try:
    with open(folder + "/fill", "wb", buffering=0) as file:
        while written < size:
            written += file.write(bytes(65536))
except OSError as error:
    print(errno.errorcode[error.errno])
print(written)
os.unlink(folder + "/fill")
"""


@pytest.mark.parametrize("folder,size", [("/workspace", 8 << 20), ("/tmp", 4 << 20),
                                         ("/dev/shm", 4 << 20), ("/run", 1 << 20)])
def test_disk_fill_ends_at_the_size(walled, jail, folder, size):
    assert jail.tries(FILL, folder, str(size // 2)) == [str(size // 2)]
    error, written = jail.tries(FILL, folder, str(1 << 30))
    assert error == "ENOSPC" and size // 2 < int(written) <= size
    hold = walls.Jail(walled.stub())
    hold.shell(f"head -c {size} /dev/zero > {folder}/full")
    assert jail.tries(FILL, folder, str(size // 2)) == [str(size // 2)]
    hold.release()


def test_other_folders_take_nothing(jail):
    for folder in ("/", "/dev", "/usr", "/etc", "/proc"):
        reply = jail.script(f"open({folder!r} + '/fill', 'wb')")
        assert reply.ended.exited.code != 0, folder


OPEN = """
held = []
try:
    while len(held) < int(sys.argv[1]):
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(errno.errorcode[error.errno])
print(len(held))
"""


def test_descriptors_end_at_the_bound(jail):
    assert jail.tries(OPEN, "100") == ["100"]
    error, held = jail.tries(OPEN, "100000")
    assert error == "EMFILE" and 400 < int(held) < 512
    # Raising it again is refused, also by way of another process.
    raise_it = ("import resource\n"
                "try: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)); print('ok')\n"
                "except ValueError: print('refused')")
    assert jail.tries(raise_it) == ["refused"]
    # The agent's own are not the programs': it still starts and serves.
    assert jail.run(["echo", "still"]).stdout == b"still\n"


INOTIFY = """
libc.inotify_init.restype = ctypes.c_int
made = 0
while made < int(sys.argv[1]) and libc.inotify_init() >= 0: made += 1
print(made)
"""


def test_inotify_instances_come_back_with_the_end_of_a_program(walled, jail):
    """As root a sandbox has a quota of its own, too: its uid is nobody else's."""
    assert jail.tries(INOTIFY, "5") == ["5"]
    used_up = api.Exec(jail.stub, jail.id, [
        walls.PYTHON, "-I", "-u", "-c", walls.PRELUDE + INOTIFY + "import time; time.sleep(1000)",
        "100000"])
    used_up.read_while(lambda: b"\n" not in used_up.out[1])
    neighbour = walls.Jail(walled.stub())
    if walled.kind == "root":
        assert neighbour.tries(INOTIFY, "5") == ["5"]
    neighbour.release()
    used_up.cancel_program(grace=0)
    used_up.finish()
    assert jail.tries(INOTIFY, "5") == ["5"]


def test_shared_memory_and_queues_are_the_sandboxs_own(walled, jail):
    make = ("key = 0x5b\nid = libc.shmget(key, 4096, 0o1666)\n"
            "print('ok' if id >= 0 else errno.errorcode[ctypes.get_errno()])")
    find = make.replace("0o1666", "0o666")
    assert jail.tries(make) == ["ok"] and jail.tries(find) == ["ok"]
    neighbour = walls.Jail(walled.stub())
    assert neighbour.tries(find) == ["ENOENT"]
    neighbour.release()


def test_priority_cannot_be_raised(jail):
    assert jail.tries("attempt(os.setpriority, os.PRIO_PROCESS, 0, 5)") == ["ok"]
    assert jail.tries("attempt(os.setpriority, os.PRIO_PROCESS, 0, -5)") == ["EACCES"]
    fifo = "attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))"
    assert jail.tries(fifo) == ["EPERM"]
