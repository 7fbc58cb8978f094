"""kill -9 of the broker at every step, by name (lib/base/fail_point.h), and what the next broker of
the same state directory makes of it: nothing leaks past its lease, no sandbox is handed out twice,
no command runs twice, and a repeated request_id meets its first result."""
import contextlib

import grpc
import pytest

from harness import api
from harness.wait import count, wait_until
from sandbroker.v1 import sandbox_pb2

# Rounds for each point: the same death, other timing.
ROUNDS = count(2, 100)
WARM = 1
# What a lease and an agent get without a broker; small, so that no test waits for the defaults.
TTL = 2
CONFIG = {
    "server": {"min_backstop": "2s", "lease_margin": "0s", "heartbeat_interval": "500ms"},
    "local": {"start_bound": "5s"},
    "pools": {"default": {"warm": WARM, "limit": 8}},
}

ACQUIRE = ["acquire.receipt_created", "acquire.sandbox_taken", "acquire.before_record",
           "acquire.recorded", "acquire.env_bound", "acquire.before_bind", "acquire.bound",
           "acquire.before_answer", "receipt.temporary"]
PLAIN_ACQUIRE = ["acquire.sandbox_taken", "acquire.before_record", "acquire.recorded",
                 "acquire.before_answer"]
EXEC = ["exec.before_open", "exec.opened", "exec.ready"]
RELEASE = ["release.begin", "release.before_kill", "release.killed", "release.record_removed",
           "release.before_answer"]
RENEWAL = ["lease.before_write", "lease.written"]
LOOK = ["lease.look", "lease.over"]
LAUNCH = ["launch.folder", "launch.recorded", "launch.spawned", "launch.ready", "launch.noted",
          "record.temporary:1", "record.temporary:2", "record.written"]
ADOPTION = ["adopt.looked", "adopt.answered", "adopt.restored", "adopt.done"]


def lease(**fields):
    return sandbox_pb2.LeaseSpec(ttl=api.duration(TTL), **fields)


def acquire(stub, **fields):
    return api.acquire(stub, lease=lease(), **fields)


def incarnation(stub, sandbox):
    return api.get_sandbox(stub, sandbox).incarnation


def lost(call):
    """The call during which the broker died: it may say anything but that it succeeded."""
    with contextlib.suppress(grpc.RpcError):
        raise AssertionError(f"answered by a dead broker: {call()}")


def assert_nothing_left(server, stub):
    """Beside the warm ones there is neither a process, nor a folder, nor a claim."""
    wait_until(lambda: api.capacity(stub).claimed == 0, 30, "no claim is left")
    wait_until(lambda: (api.capacity(stub).ready, api.capacity(stub).pending) == (WARM, 0), 30,
               "the pool is as configured")
    wait_until(lambda: len(server.living()) == WARM and len(server.folders()) == WARM, 30,
               "no process and no folder beside it")


@pytest.fixture
def dying(make_server):
    """A server that will die at `point`, its pool warm: what is armed is hit by the call alone."""
    def start(point):
        server = make_server(config=CONFIG, own_agent=True, fail_point=point)
        stub = server.stub()
        server.wait_warm(stub, WARM)
        return server, stub
    return start


def rounds(points):
    return pytest.mark.parametrize("point, number", [
        pytest.param(point, number, id=f"{point}-{number}")
        for point in points for number in range(ROUNDS)])


@rounds(ACQUIRE)
def test_T107_acquire_is_repeated_after_the_death(dying, point, number):
    """The placeholder has an owner: a dead one blocks nobody."""
    server, stub = dying(point)
    request = {"request_id": f"r{number}", "env": {"OF": "first"}}
    lost(lambda: acquire(stub, **request))
    server.died()
    stub = server.restart()
    held = acquire(stub, **request).sandbox.sandbox_id
    again = acquire(stub, **request)
    assert again.source == sandbox_pb2.ACQUIRE_SOURCE_REPEATED
    assert incarnation(stub, again.sandbox.sandbox_id) == incarnation(stub, held)
    assert api.run(stub, held, "echo $OF").stdout == b"first\n"
    # Nobody else gets it, nor anything that was put into it.
    other = acquire(stub).sandbox.sandbox_id
    assert incarnation(stub, other) != incarnation(stub, held)
    assert api.run(stub, other, "echo $OF").stdout == b"\n"
    api.release(stub, held)
    api.release(stub, other)
    assert_nothing_left(server, stub)
    refusal = api.refused(lambda: acquire(stub, **request))
    assert refusal.reason == "SANDBOX_GONE"


@rounds(PLAIN_ACQUIRE)
def test_acquire_nobody_was_told_of_ends_with_its_lease(dying, point, number):
    server, stub = dying(point)
    lost(lambda: acquire(stub, env={"OF": "first"}))
    server.died()
    stub = server.restart()
    held = acquire(stub).sandbox.sandbox_id
    assert api.run(stub, held, "echo $OF").stdout == b"\n"
    api.release(stub, held)
    assert_nothing_left(server, stub)


@rounds(EXEC)
def test_command_runs_once_though_its_start_is_repeated(dying, point, number):
    server, stub = dying(point)
    held = acquire(stub).sandbox.sandbox_id
    command = "echo run >> /workspace/ran; sleep 0.3; echo done"
    start = {"execution_id": "once", "argv": command}
    lost(lambda: api.Exec(stub, held, attempt=1, **start).finish())
    server.died()
    stub = server.restart()
    run = api.Exec(stub, held, attempt=2, **start).finish()
    assert run.ended.exited.code == 0 and run.ended.output_complete
    assert run.stdout == b"done\n"
    assert api.run(stub, held, "cat /workspace/ran").stdout == b"run\n"
    api.release(stub, held)
    assert_nothing_left(server, stub)


@rounds(RELEASE)
def test_release_is_repeated_after_the_death(dying, point, number):
    server, stub = dying(point)
    held = acquire(stub).sandbox.sandbox_id
    with contextlib.suppress(grpc.RpcError):  # the folder may go after the answer
        api.release(stub, held)
    server.died()
    stub = server.restart()
    api.release(stub, held)
    assert api.release(stub, held).already_gone
    assert api.refused(lambda: api.run(stub, held, ["true"])).reason == "SANDBOX_GONE"
    assert_nothing_left(server, stub)


@rounds(RENEWAL)
def test_T108_renewal_that_was_lost_never_shortens(dying, point, number):
    server, stub = dying(point)
    held = acquire(stub).sandbox.sandbox_id
    promised = api.get_sandbox(stub, held).lease.expire_time.ToNanoseconds()
    wait_until(lambda: api.get_sandbox(stub, held).lease.remaining.ToNanoseconds() < TTL * 1e9, 10,
               "something to renew")
    request = sandbox_pb2.RenewLeasesRequest(sandbox_ids=[held])
    lost(lambda: stub.RenewLeases(request))
    server.died()
    stub = server.restart()
    assert api.get_sandbox(stub, held).lease.expire_time.ToNanoseconds() >= promised
    result, = stub.RenewLeases(request).results
    assert result.code == 0
    assert result.lease.remaining.ToNanoseconds() > TTL * 0.9e9
    api.release(stub, held)
    assert_nothing_left(server, stub)


@rounds(LOOK)
def test_lease_that_was_being_ended_gets_one_ttl_and_ends(dying, point, number):
    server, stub = dying(point)
    held = acquire(stub).sandbox.sandbox_id
    server.died()  # by itself, when the lease is over
    stub = server.restart()
    assert api.run(stub, held, ["echo", "here"]).stdout == b"here\n"
    assert_nothing_left(server, stub)
    assert api.refused(lambda: api.run(stub, held, ["true"])).reason == "LEASE_EXPIRED"


@rounds(LAUNCH)
def test_sandbox_being_started_leaves_nothing(make_server, point, number):
    server = make_server(config=CONFIG, own_agent=True, fail_point=point, ready=False)
    server.died()
    stub = server.restart()
    assert_nothing_left(server, stub)
    held = acquire(stub).sandbox.sandbox_id
    assert api.run(stub, held, ["echo", "here"]).stdout == b"here\n"


@rounds(ADOPTION)
def test_death_while_sandboxes_are_taken_over(dying, point, number):
    server, stub = dying(None)
    held = acquire(stub, request_id="kept").sandbox.sandbox_id
    server.wait_warm(stub, WARM)
    before = incarnation(stub, held)
    server.kill()
    server.start(fail_point=point, ready=False)
    server.died()
    stub = server.restart()
    assert incarnation(stub, held) == before
    assert incarnation(stub, acquire(stub, request_id="kept").sandbox.sandbox_id) == before
    api.release(stub, held)
    assert_nothing_left(server, stub)
