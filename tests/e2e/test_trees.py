"""Process trees: whatever an execution has started ends with it or with its sandbox, wherever it
has gone, and a neighbour in the same sandbox goes on."""
import itertools
import os
import signal
import subprocess
import time

import pytest

from harness import api, proc
from harness.server import run_program
from harness.wait import count, wait_until
from sandbroker.v1 import sandbox_pb2

# A child, one in a session of its own, a daemon nobody waits for.
TREE = "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & exit 0' &) ; "
DAEMON = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & "


def python(script):
    return ["python3", "-c", "import os, time\n" + script]


# 50 lines of processes, each of which begets its successor and ends, as fast as it can.
FORKERS = python("""
for _ in range(50):
    if os.fork() == 0:
        os.setsid()
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
print('up', flush=True)
time.sleep(1000)
""")
STORM = python("""
for _ in range(200):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
print('up', flush=True)
time.sleep(1000)
""")
TREES = {
    "daemons": TREE + "echo up; wait; sleep 1000",
    "ignores TERM": "trap '' TERM; " + TREE + "echo up; while :; do sleep 0.05; done",
    "stops itself": TREE + "echo up; kill -STOP $$",
    "stops its supervisor": TREE + "echo up; kill -STOP $PPID; sleep 1000",
    "respawning forkers": FORKERS,
    "fork storm": STORM,
}
each_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
marks = itertools.count(1)


class Inside:
    """A sandbox with a neighbour that answers, and its processes as the host sees them."""

    def __init__(self, server, stub, **acquire):
        self.stub = stub
        self.sandbox = api.acquire(stub, **acquire).sandbox.sandbox_id
        mark = f"neighbour-{next(marks)}"
        self.neighbour = api.Exec(stub, self.sandbox, ["sh", "-c", "cat; :", mark], stdin=True)
        self.neighbour.wait_ready()
        self.agent = wait_until(lambda: next(
            (agent for agent in server.agents()
             if any(mark.encode() in proc.cmdline(pid) for pid in proc.descendants(agent))), None),
            20, "the agent shows")
        self.before = wait_until(lambda: len(found := self.programs()) == 2 and found, 20,
                                 "the neighbour and its cat")

    def programs(self):
        return proc.programs(self.agent)

    def up(self, tree, **fields):
        """A tree at full height."""
        run = api.Exec(self.stub, self.sandbox, tree, **fields)
        run.wait_output(b"up\n")
        wait_until(lambda: len(self.programs()) >= 5, 20, "the tree stands")
        return run

    def check_only_the_neighbour_lives(self):
        assert self.programs() == self.before
        self.neighbour.write(b"ping\n")
        self.neighbour.read_while(lambda: not self.neighbour.stdout.endswith(b"ping\n"))
        self.neighbour.out[1].clear()
        wait_until(lambda: len(proc.supervisors(self.agent)) == 1 and not proc.zombies(self.agent),
                   20, "nothing of the agent's is left either")


@pytest.fixture
def inside(server, stub):
    one = Inside(server, stub)
    yield one
    api.release(stub, one.sandbox)


@each_tree
def test_T54a_cancel_leaves_nothing(inside, tree):
    run = inside.up(tree)
    run.cancel_program(grace=0.2)
    assert api.end_of(run.finish().ended) == "cancelled"
    inside.check_only_the_neighbour_lives()


@each_tree
def test_T54b_timeout_leaves_nothing(inside, tree):
    run = inside.up(tree, timeout=api.duration(2), kill_grace=api.duration(0.2))
    assert api.end_of(run.finish().ended) == "timed_out"
    inside.check_only_the_neighbour_lives()


@each_tree
def test_T54c_release_leaves_nothing(server, stub, tree):
    inside = Inside(server, stub)
    run = inside.up(tree)
    everything = set(proc.descendants(inside.agent)) | {inside.agent}
    api.release(stub, inside.sandbox)
    assert api.end_of(run.finish().ended) == "sandbox_gone"
    assert not [pid for pid in everything if proc.alive(pid)]
    assert not proc.descendants(inside.agent)


@each_tree
def test_T54d_lease_end_leaves_nothing(server, stub, tree):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(1), max_lifetime=api.duration(4))
    inside = Inside(server, stub, lease=lease)
    run = inside.up(tree)
    everything = set(proc.descendants(inside.agent)) | {inside.agent}
    assert api.end_of(run.finish().ended) == "lease_expired"
    wait_until(lambda: not [pid for pid in everything if proc.alive(pid)], 10, "all of it ended")


def test_T54e_cancel_of_fifty_forkers_takes_less_than_a_second(inside):
    took = []
    for _ in range(count(3, 20)):
        run = inside.up(FORKERS)
        begin = time.monotonic()
        run.cancel_program(grace=0)
        run.finish()
        took.append(time.monotonic() - begin)
        inside.check_only_the_neighbour_lives()
    print("cancel of 50 forkers, ms:", [round(1000 * seconds) for seconds in sorted(took)])
    # The best of them: whoever else is busy on this machine is not what is measured.
    assert min(took) < 1


def test_program_that_kills_its_supervisor_ends_with_all_it_started(inside):
    run = api.Exec(inside.stub, inside.sandbox, TREE + "kill -KILL $PPID; exec sleep 1000").finish()
    assert api.end_of(run.ended) == "signaled" and run.ended.signaled.number == 9
    assert [warning.reason for warning in run.warnings] == ["SUPERVISOR_KILLED"]
    inside.check_only_the_neighbour_lives()


def test_kill_of_everybody_is_told_to_each_execution_and_the_sandbox_lives(inside):
    """A program may kill all that runs in its sandbox: executions are no border to each other."""
    run = api.Exec(inside.stub, inside.sandbox, "kill -KILL -1; sleep 1000").finish()
    assert run.ended.signaled.number == 9
    assert inside.neighbour.finish().ended.signaled.number == 9
    assert api.run(inside.stub, inside.sandbox, ["echo", "ok"]).stdout == b"ok\n"
    wait_until(lambda: not inside.programs(), 10, "nothing of both is left")


def test_supervisor_that_is_stopped_still_tells_of_the_end(inside):
    run = api.Exec(inside.stub, inside.sandbox, "kill -STOP $PPID; exit 3").finish()
    assert run.ended.exited.code == 3
    # Everybody but the one who does it, the neighbour included.
    run = api.Exec(inside.stub, inside.sandbox, "kill -STOP -1; kill -CONT -1; exit 4").finish()
    assert run.ended.exited.code == 4
    inside.check_only_the_neighbour_lives()


def test_release_tells_of_daemons_and_of_what_still_runs(server, stub):
    inside = Inside(server, stub)
    environment = {**os.environ, "SANDBROKER_ADDRESS": server.address}
    daemon = api.Exec(stub, inside.sandbox, DAEMON + "exit 0", execution_id="left-a-daemon")
    assert daemon.finish().ended.exited.code == 0
    running = api.Exec(stub, inside.sandbox, ["sleep", "1000"], execution_id="still-running")
    running.wait_ready()
    wait_until(lambda: len(inside.programs()) == 4, 10, "daemon and sleep")
    everything = inside.programs()
    done = run_program("sandbroker", "release", inside.sandbox, env=environment,
                       stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    line = done.stdout.decode()
    assert "released; it ended " in line
    assert "still-running" in line and line.rstrip().endswith("left-a-daemon")
    assert not [pid for pid in everything if proc.alive(pid)]


def test_daemon_lives_on_after_its_program_and_does_not_keep_the_sandbox(server, stub):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(1))
    held = api.acquire(stub, lease=lease).sandbox.sandbox_id
    reply = api.run(stub, held, DAEMON + "echo $!")
    look = api.run(stub, held, f"cat /proc/{int(reply.stdout)}/comm")
    assert look.stdout == b"sleep\n"
    wait_until(lambda: api.capacity(stub).claimed == 0, 30, "the lease is over")


def test_T30_child_that_keeps_the_pipe_delays_the_end_only_so_long_and_is_not_hurt(stub, sandbox):
    begin = time.monotonic()
    script = "(n=0; while echo x; do n=$((n+1)); echo $n >/tmp/n; sleep 0.02; done) & exit 7"
    run = api.Exec(stub, sandbox, script, child_bound=api.duration(0.3)).finish()
    assert run.ended.exited.code == 7 and run.ended.output_open
    assert time.monotonic() - begin < 10

    def printed():
        return int(api.run(stub, sandbox, "cat /tmp/n").stdout or 0)

    # It prints on, with nobody there to read, and no SIGPIPE meets it.
    reached = printed()
    wait_until(lambda: printed() > reached + 5, 20, "the child prints on")


def test_T34_stuck_program_holds_up_nobody_and_its_timeout_is_kept(stub, sandbox):
    stuck = api.Exec(stub, sandbox, "trap '' TERM; while :; do kill -STOP $$; done", timeout=api.duration(1),
                     kill_grace=api.duration(0.3))
    stuck.wait_ready()
    for _ in range(10):
        assert api.run(stub, sandbox, ["echo", "on"]).stdout == b"on\n"
    stuck.finish()
    assert api.end_of(stuck.ended) == "timed_out" and stuck.ended.timed_out.last_signal == 9
    assert stuck.ended.duration.ToNanoseconds() < 5e9


def test_T60_agent_that_is_told_to_end_lets_programs_tidy_up(server, stub):
    inside = Inside(server, stub)
    run = api.Exec(stub, inside.sandbox, "trap 'echo tidy; exit 0' TERM; " + TREE +
                   "echo up; while :; do sleep 0.02; done")
    run.wait_output(b"up\n")
    everything = inside.programs()
    os.kill(inside.agent, signal.SIGTERM)
    assert api.end_of(run.finish().ended) == "cancelled"
    assert run.stdout == b"up\ntidy\n"
    wait_until(lambda: not [pid for pid in everything if proc.alive(pid)], 10, "all of it ended")


@pytest.mark.parametrize("grace", [0, 0.5])
def test_cancelled_but_it_also_succeeded_has_one_true_end(inside, grace):
    ends = set()
    for number in range(count(20, 200)):
        run = api.Exec(inside.stub, inside.sandbox, DAEMON + "echo done; exit 0")
        if number % 4 == 1:
            run.wait_ready()
        if number % 4 >= 2:
            run.wait_output(b"done\n")
        if number % 4 == 3:
            run.finish()
        run.cancel_program(grace=grace)
        run.finish()
        ends.add(api.end_of(run.ended))
        if api.end_of(run.ended) == "exited":
            assert run.stdout == b"done\n" and run.ended.exited.code == 0
        else:
            assert api.end_of(run.ended) == "cancelled"
    assert "exited" in ends


# 10,000 one after the other in full length, CI 300.
def test_T145_sequential_executions_leave_no_fd_zombie_thread_or_memory(inside):
    def run(number):
        script = DAEMON + "kill -KILL $PPID" if number % 50 == 0 else "exit 0"
        reply = api.run(inside.stub, inside.sandbox, script)
        assert number % 50 == 0 or reply.ended.exited.code == 0

    def figures():
        return proc.open_fds(inside.agent), proc.threads(inside.agent)

    for number in range(100):
        run(number)
    inside.check_only_the_neighbour_lives()
    before, memory = figures(), proc.rss_kib(inside.agent)
    for number in range(count(300, 10_000)):
        run(number)
    inside.check_only_the_neighbour_lives()
    assert figures() == before
    # Ends are remembered for 10 minutes, so that they can be asked for again.
    assert proc.rss_kib(inside.agent) - memory < count(4, 24) * 1024
