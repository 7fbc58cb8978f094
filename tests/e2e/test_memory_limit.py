"""Limits of memory by cgroups: the end they lead to, whom they leave alone, and what happens where
they can't be had. With cgroups below the root of the hierarchy, which only root may make."""
import glob
import json
import os
import pathlib
import subprocess

import pytest

from harness import api, proc, walls
from harness.server import program
from harness.wait import wait_until

LIMITED = {
    "local": {"cgroup": "/"},
    "templates": {"default": {"memory": "64MiB", "pids": 200, "workspace": "256MiB"}},
    "pools": {"default": {"warm": 1, "limit": 8}},
}
# Allocates and touches argv[1] MiB.
HOG = [walls.PYTHON, "-I", "-c",
       "import sys, time\nx = b'x' * (int(sys.argv[1]) << 20)\nprint('held', flush=True)\n"
       "if len(sys.argv) > 2: time.sleep(1000)"]


def memory_state():
    done = subprocess.run([program("sandbrokerd"), "--doctor", "--json", "--cgroup", "/"],
                          capture_output=True, text=True, timeout=60)
    return next(one for one in json.loads(done.stdout)["protections"] if one["name"] == "memory")


needs_cgroups = pytest.mark.skipif(memory_state()["state"] == "missing",
                                   reason="no memory cgroup that we may write")


@pytest.fixture(scope="module")
def limited():
    server = walls.WalledServer(config=LIMITED)
    yield server
    server.stop()
    assert folders() == [], "cgroups are left"
    server.remove()


@pytest.fixture
def jail(limited):
    one = walls.Jail(limited.stub())
    yield one
    one.release()


def folders():
    """Cgroups of this server's sandboxes; no other broker uses the hierarchy's root."""
    return glob.glob("/sys/fs/cgroup/memory/sandbroker-*/*") + glob.glob(
        "/sys/fs/cgroup/sandbroker-*/*/")


@needs_cgroups
def test_T61_kernel_kill_is_reported_as_out_of_memory(jail):
    assert jail.run([*HOG, "16"]).stdout == b"held\n"
    reply = jail.run([*HOG, "200"])
    assert api.end_of(reply.ended) == "out_of_memory", reply.ended
    assert reply.ended.output_complete


@needs_cgroups
def test_T61_other_kills_stay_signals(jail):
    jail.run([*HOG, "200"])  # the count is not 0 any more
    reply = jail.run("kill -9 $$")
    assert api.end_of(reply.ended) == "signaled" and reply.ended.signaled.number == 9
    run = api.Exec(jail.stub, jail.id, ["sleep", "1000"])
    run.wait_ready()
    run.signal(9)
    run.finish()
    assert api.end_of(run.ended) == "signaled"


@needs_cgroups
def test_T61_victim_below_a_shell_is_the_shells_to_report(jail):
    reply = jail.run(["sh", "-c", '"$@"; echo "code $?"', "sh", *HOG, "200"])
    assert reply.stdout == b"code 137\n" and reply.ended.exited.code == 0


@needs_cgroups
def test_memory_fill_leaves_agent_and_neighbours_alone(limited, jail):
    neighbour = walls.Jail(limited.stub())
    run = api.Exec(neighbour.stub, neighbour.id, [*HOG, "20", "stay"])
    run.wait_output(b"held")
    agents = set(proc.agents(limited.pid))
    for _ in range(3):
        assert api.end_of(jail.run([*HOG, "200"]).ended) == "out_of_memory"
    assert jail.run(["echo", "alive"]).stdout == b"alive\n"
    assert agents <= set(proc.agents(limited.pid))
    run.cancel_program(grace=0)
    run.finish()
    assert api.end_of(run.ended) == "cancelled"  # until then it ran
    neighbour.release()


@needs_cgroups
def test_all_programs_of_a_sandbox_share_the_limit(jail):
    one = api.Exec(jail.stub, jail.id, [*HOG, "40", "stay"])
    one.wait_output(b"held")
    # Alone each would fit. The kernel chooses which of them goes.
    other = jail.run([*HOG, "40"])
    if api.end_of(other.ended) == "exited":
        one.finish()
        assert api.end_of(one.ended) == "out_of_memory"
    else:
        assert api.end_of(other.ended) == "out_of_memory"
        one.cancel_program(grace=0)
        one.finish()


@needs_cgroups
def test_files_in_memory_count_too(jail):
    """A workspace larger than the limit can't be used to go around it."""
    reply = jail.run("head -c 150m /dev/zero > /workspace/fill")
    assert api.end_of(reply.ended) in ("out_of_memory", "exited")
    assert api.end_of(reply.ended) != "exited" or reply.ended.exited.code != 0
    assert jail.run(["rm", "-f", "/workspace/fill"]).ended.exited.code == 0


@needs_cgroups
def test_cgroup_goes_with_its_sandbox(limited):
    before = len(folders())
    jail = walls.Jail(limited.stub())
    jail.run(["true"])
    wait_until(lambda: len(folders()) == before + 1, 20, "the pool is filled up again")
    jail.release()
    wait_until(lambda: len(folders()) == before, 20, "its cgroup is removed")


@needs_cgroups
def test_cgroup_descriptors_do_not_reach_programs(jail):
    targets = jail.tries("for n in os.listdir('/proc/self/fd'):\n"
                         "    try: print(os.readlink('/proc/self/fd/' + n))\n"
                         "    except OSError: pass")
    assert not [target for target in targets if "cgroup" in target or "memory" in target]
    assert jail.tries("attempt(os.listdir, '/sys/fs/cgroup')") == ["ENOENT"]


@needs_cgroups
def test_command_line_exits_with_the_code_for_out_of_memory(limited):
    done = subprocess.run([program("sandbroker"), "run", "--address", limited.address, "--",
                           *HOG, "200"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 120 and "memory" in done.stderr


V1 = pathlib.Path("/sys/fs/cgroup/memory")


@needs_cgroups
@pytest.mark.skipif(not (walls.is_root() and V1.is_dir()),
                    reason="on version 2 the broker itself would have to be started in it")
def test_ordinary_user_has_limits_in_a_cgroup_of_its_own():
    parent = V1 / f"sandbroker-test-of-{os.getpid()}"
    parent.mkdir()
    os.chown(parent, walls.ORDINARY_UID, walls.ORDINARY_UID)
    config = {**LIMITED, "local": {"cgroup": f"/{parent.name}"}}
    try:
        server = walls.WalledServer(walls.ORDINARY_UID, config=config)
        jail = walls.Jail(server.stub())
        assert jail.run([*HOG, "16"]).stdout == b"held\n"
        assert api.end_of(jail.run([*HOG, "200"]).ended) == "out_of_memory"
        server.stop()
        server.remove()
    finally:
        parent.rmdir()  # empty: nothing was left in it


BIG = {"memory": "64MiB"}


@pytest.mark.parametrize("uid", [0, walls.ORDINARY_UID])
def test_limit_that_cannot_be_enforced_is_refused_with_reason_and_remedy(uid):
    if uid != 0 and not walls.is_root():
        pytest.skip("needs root to become another user")
    parent = "/no/such" if uid == 0 else "/"
    server = walls.WalledServer(uid, config={"local": {"cgroup": parent},
                                             "templates": {"big": BIG}}, ready=False)
    try:
        assert server.wait() == 3
        why = "No such file" if uid == 0 else "Permission denied"
        for text in ("templates.big.memory: 67108864", why, "To enforce it", "limits: advisory"):
            assert text in server.log(), text
    finally:
        server.remove()


def test_advisory_limit_is_warned_of_and_served(make_server):
    server = make_server(config={"local": {"cgroup": "/no/such"},
                                 "templates": {"default": {**BIG, "limits": "advisory"}}})
    assert "a limit is not enforced" in server.log()
    jail = walls.Jail(server.stub())
    assert jail.run([*HOG, "100"]).stdout == b"held\n"


def test_default_template_starts_without_any_cgroup(make_server):
    server = make_server(config={"local": {"cgroup": "/no/such"}})
    assert walls.Jail(server.stub()).run(["true"]).ended.exited.code == 0
