"""Two brokers on one cluster: who was asked does not matter, and one may die at any time."""
import time

import pytest

from harness import api
from harness.cluster import REPEATED, WARM
from harness.wait import wait_until
from sandbroker.v1 import sandbox_pb2

# A broker that has died leaves its sandboxes to the others within this.
TAKEN_OVER = 5
READY = sandbox_pb2.SANDBOX_STATE_READY


@pytest.fixture
def second(make_broker):
    return make_broker().stub()


def list_all(stub):
    return {one.sandbox_id: one.incarnation for one in
            stub.ListSandboxes(sandbox_pb2.ListSandboxesRequest()).sandboxes}


def incarnation(stub, held):
    return api.get_sandbox(stub, held).incarnation


def renew(stub, held):
    result, = stub.RenewLeases(sandbox_pb2.RenewLeasesRequest(sandbox_ids=[held]),
                               timeout=api.CALL_BOUND).results
    return result


def test_T81a_handle_is_served_at_once_by_the_broker_that_did_not_make_it(stub, second):
    for mine, other in ((stub, second), (second, stub)):
        held = api.acquire(mine, pool="python").sandbox.sandbox_id
        reply = api.run(other, held, "echo here; exit 3")
        assert (reply.stdout, reply.ended.exited.code) == (b"here\n", 3)
        assert incarnation(other, held) == incarnation(mine, held)
        assert not api.release(other, held).already_gone
        api.release(mine, held)  # already_gone or not: it may not have heard yet
        assert api.refused(lambda m=mine, h=held: api.run(m, h, ["true"])).reason == "SANDBOX_GONE"


def test_T81b_list_of_either_shows_both(stub, second):
    held = [api.acquire(one, pool="python").sandbox for one in (stub, second)]
    wanted = {one.incarnation for one in held}
    for one in (stub, second):
        wait_until(lambda s=one: set(list_all(s).values()) == wanted, 10, "both are listed")
    for one in held:
        api.release(second, one.sandbox_id)
    for one in (stub, second):
        wait_until(lambda s=one: not list_all(s), 10, "none is listed")


def test_T81c_request_id_repeated_at_the_other_meets_the_first_sandbox(space, stub, second):
    request = {"pool": "python", "request_id": "r-1", "labels": {"a": "b"}}
    first = api.acquire(stub, **request)
    again = api.acquire(second, **request)
    assert (first.source, again.source) == (WARM, REPEATED)
    assert again.sandbox.incarnation == first.sandbox.incarnation
    other_body = api.refused(lambda: api.acquire(second, **{**request, "labels": {}}))
    assert other_body.reason == "REQUEST_ID_REUSED"
    api.release(second, again.sandbox.sandbox_id)
    for one in (stub, second):
        refusal = api.refused(lambda s=one: api.acquire(s, **request))
        assert refusal.reason == "SANDBOX_GONE"


def test_program_started_through_one_runs_beside_those_of_the_other(stub, second):
    held = api.acquire(stub, pool="python").sandbox.sandbox_id
    run = api.Exec(stub, held, "echo begin; until [ -e /workspace/go ]; do sleep 0.05; done")
    run.wait_output(b"begin\n")
    api.run(second, held, "touch /workspace/go")
    assert run.finish().ended.exited.code == 0
    api.release(second, held)


def test_broker_killed_is_replaced_by_the_other_for_its_sandboxes(stub, make_broker):
    first = make_broker()
    its = first.stub()
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(20))
    held = api.acquire(its, pool="python", lease=lease).sandbox.sandbox_id
    before = incarnation(its, held)
    api.run(its, held, "echo kept > /workspace/file")
    promised = api.get_sandbox(its, held).lease.expire_time.ToNanoseconds()
    first.kill()

    begin = time.monotonic()
    assert api.run(stub, held, "cat /workspace/file").stdout == b"kept\n"
    assert incarnation(stub, held) == before
    renewed = renew(stub, held)
    assert renewed.code == 0, renewed
    assert renewed.lease.expire_time.ToNanoseconds() >= promised
    assert time.monotonic() - begin < TAKEN_OVER
    api.release(stub, held)


def test_lease_of_a_dead_broker_ends_by_the_other(space, stub, make_broker):
    first = make_broker()
    its = first.stub()
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(3))
    held = api.acquire(its, pool="python", lease=lease).sandbox.sandbox_id
    claim = space.claim_of(space.pod_of(its, held))
    first.kill()
    space.wait_gone("SandboxClaim", claim, 30)
    assert api.refused(lambda: api.run(stub, held, ["true"])).reason == "LEASE_EXPIRED"


def test_broker_that_is_asked_to_end_leaves_its_sandboxes(stub, make_broker):
    first = make_broker()
    held = api.acquire(first.stub(), pool="python").sandbox.sandbox_id
    begin = time.monotonic()
    first.stop()
    assert time.monotonic() - begin < 8
    assert api.run(stub, held, ["echo", "here"]).stdout == b"here\n"
    api.release(stub, held)


def events_of(stub, bound=30):
    return stub.WatchSandboxes(sandbox_pb2.WatchSandboxesRequest(), timeout=bound)


def until(events, kind, where):
    for event in events:
        if event.WhichOneof("event") == kind and where(getattr(event, kind)):
            return getattr(event, kind)
    raise AssertionError(f"the watch ended without {kind}")


def test_watch_shows_what_the_other_broker_acquires_and_releases(stub, second):
    events = events_of(second)
    until(events, "synced", lambda _: True)
    held = api.acquire(stub, pool="python", labels={"app": "seen"}).sandbox
    added = until(events, "added", lambda one: one.incarnation == held.incarnation)
    assert dict(added.labels) == {"app": "seen"} and added.pool == "python"
    api.release(stub, held.sandbox_id)
    removed = until(events, "removed", lambda one: one.sandbox_id == added.sandbox_id)
    assert removed.reason == "SANDBOX_GONE" and removed.cause
    events.cancel()
