"""Parts of the cluster go and come back under sandboxes that are held: what runs goes on."""
import time

import pytest

from harness import api
from harness.cluster import WARM
from harness.devcluster import Devcluster, tool
from harness.wait import count, wait_until


@pytest.fixture
def stopped(cluster):
    """Ends a program of the cluster as by kill -9; afterwards all runs again."""
    def stop(program):
        done = tool("stop", "--kill", program)
        assert done.returncode == 0, done.stderr
    yield stop
    Devcluster.up()


def ticking(stub, held):
    """A program that says something all the time, and one line when it ends."""
    run = api.Exec(stub, held, "i=0; until [ -e /workspace/end ]; do echo $i; i=$((i + 1));"
                               " sleep 0.05; done; echo end")
    run.wait_output(b"3\n")
    return run


def finish(stub, held, run):
    api.run(stub, held, "touch /workspace/end")
    run.finish()
    assert run.ended.exited.code == 0 and run.ended.output_complete and not run.gaps
    lines = run.stdout.decode().splitlines()
    assert lines == [*map(str, range(len(lines) - 1)), "end"]


def acquire_again(stub):
    """Once the cluster serves again."""
    def look():
        try:
            return api.acquire(stub, pool="python")
        except api.grpc.RpcError:
            return None
    return wait_until(look, 60, "a sandbox can be had again")


def test_controller_stopped_under_a_held_sandbox_stops_nothing_that_runs(stub, sandbox, stopped):
    run = ticking(stub, sandbox)
    stopped("agent-sandbox")
    assert api.run(stub, sandbox, ["echo", "here"]).stdout == b"here\n"
    begin = time.monotonic()
    refusal = api.refused(lambda: api.acquire(stub, pool="python", wait_bound=api.duration(1)))
    assert refusal.reason in ("NOT_READY", "POOL_EXHAUSTED")
    assert time.monotonic() - begin < 10
    Devcluster.up()
    finish(stub, sandbox, run)
    got = acquire_again(stub)
    assert got.source == WARM
    api.release(stub, got.sandbox.sandbox_id)


# T75: watches are cut, and go on.
def test_T75_api_server_restarted_under_open_streams_breaks_none(stub, sandbox, stopped):
    runs = [api.Exec(stub, sandbox, ["cat"], stdin=True) for _ in range(count(20, 20))]
    for run in runs:
        run.write(b"before\n")
        run.wait_output(b"before\n")
    stopped("apiserver")
    for run in runs:
        run.write(b"without\n")
        run.wait_output(b"without\n")
    refusal = api.refused(lambda: api.acquire(stub, pool="python", wait_bound=api.duration(1)))
    assert refusal.reason in ("API_UNREACHABLE", "NOT_READY", "API_TIMEOUT"), refusal
    Devcluster.up()
    for run in runs:
        run.write(b"after\n", eof=True)
        assert run.finish().stdout == b"before\nwithout\nafter\n"
        assert run.ended.exited.code == 0
    # The informers follow again: what happens now is seen.
    got = acquire_again(stub)
    api.release(stub, got.sandbox.sandbox_id)


def test_kubelet_restarted_under_a_held_sandbox_is_not_noticed(stub, sandbox, stopped):
    run = ticking(stub, sandbox)
    stopped("kubelet")
    assert api.run(stub, sandbox, ["echo", "here"]).stdout == b"here\n"
    Devcluster.up()
    finish(stub, sandbox, run)
