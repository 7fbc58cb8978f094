"""kill -9 of the broker at every step of acquire and release on a real cluster
(lib/base/fail_point.h): nothing is left past the shortened backstop, whatever the step, and a
repeated request_id meets its first result at another broker."""
import contextlib
import datetime

import grpc
import pytest

from harness import api
from harness.cluster import REPEATED
from harness.kube import path_of
from harness.wait import LONG, count, wait_until
from sandbroker.v1 import sandbox_pb2

TTL = 2
# A claim nobody was told of has its caller's bound and two minutes, without any broker; so has a
# placeholder of a request_id. Only long runs wait for that.
UNTOLD = 121
LEFT_BOUND = count(30, 200)

# The receipt does not yet say which sandbox; then it does.
UNBOUND = ["acquire.receipt_created", "acquire.before_post", "acquire.posted",
           "acquire.claim_ready", "acquire.dialled", "acquire.sandbox_taken",
           "acquire.before_record", "acquire.lease_written", "acquire.recorded",
           "acquire.before_bind"]
BOUND = ["acquire.bound", "acquire.before_answer"]
PLAIN = ["acquire.before_post", "acquire.posted", "acquire.claim_ready", "acquire.sandbox_taken",
         "acquire.lease_written", "acquire.before_answer"]
RELEASE = ["release.begin", "release.before_kill", "release.before_delete", "release.deleted",
           "release.before_answer"]


def acquire(stub, **fields):
    return api.acquire(stub, pool="python", lease=sandbox_pb2.LeaseSpec(ttl=api.duration(TTL)),
                       wait_bound=api.duration(1), **fields)


def lost(call):
    """The call during which the broker died: it may say anything but that it succeeded."""
    with contextlib.suppress(grpc.RpcError):
        raise AssertionError(f"answered by a dead broker: {call()}")


def ours(space):
    return {one["metadata"]["name"]: one for one in space.claims()
            if not one["metadata"].get("deletionTimestamp")}


def end_of_claim(claim):
    lifecycle = claim["spec"]["lifecycle"]
    assert lifecycle["shutdownPolicy"] == "Delete"
    return datetime.datetime.fromisoformat(lifecycle["shutdownTime"])


def assert_bounded(space):
    """Each claim ends without any broker, and soon."""
    now = datetime.datetime.now(datetime.timezone.utc)
    for name, claim in ours(space).items():
        assert end_of_claim(claim) - now <= datetime.timedelta(seconds=UNTOLD + 1), name


def shorten(space):
    """As if the time had passed that claims without a lease have: the controller does the rest."""
    for name, claim in ours(space).items():
        if LONG or claim["metadata"]["annotations"].get("sandbroker.dev/lease-until"):
            continue
        space.kube.json("PATCH", path_of("SandboxClaim", space.name, name),
                        body={"spec": {"lifecycle": {"shutdownTime": "2020-01-01T00:00:00Z"}}},
                        content="application/merge-patch+json")


def assert_nothing_left(space, stub):
    wait_until(lambda: not ours(space), LEFT_BOUND, "no claim is left")
    wait_until(lambda: api.capacity(stub, "python").claimed == 0, 20, "and the figures say so")


@pytest.mark.parametrize("point", BOUND)
def test_T81d_acquire_is_repeated_at_the_other_broker_after_the_death(space, stub, make_broker,
                                                                      point):
    dying = make_broker(fail_point=point)
    request = {"request_id": f"r-{point}"}
    lost(lambda: acquire(dying.stub(), **request))
    dying.died()
    assert_bounded(space)
    held = acquire(stub, **request)
    assert held.source == REPEATED
    assert api.run(stub, held.sandbox.sandbox_id, ["echo", "here"]).stdout == b"here\n"
    again = acquire(stub, **request).sandbox
    assert again.incarnation == held.sandbox.incarnation
    api.release(stub, held.sandbox.sandbox_id)
    assert api.refused(lambda: acquire(stub, **request)).reason == "SANDBOX_GONE"
    assert_nothing_left(space, stub)


def test_T81e_acquire_of_a_dead_broker_is_never_made_twice(space, stub, make_broker):
    """Before the receipt is bound, its holder may live: the other waits, and says so."""
    for point in UNBOUND:
        dying = make_broker(fail_point=point)
        lost(lambda d=dying, p=point: acquire(d.stub(), request_id=f"r-{p}"))
        dying.died()
    assert_bounded(space)
    refusal = api.refused(lambda: acquire(stub, request_id=f"r-{UNBOUND[-1]}"))
    assert refusal.reason == "NOT_READY" and "still at it" in refusal.message
    shorten(space)
    assert_nothing_left(space, stub)


def test_acquires_nobody_was_told_of_are_nobodys_and_end(space, stub, make_broker):
    for point in PLAIN:
        dying = make_broker(fail_point=point)
        lost(lambda d=dying: acquire(d.stub()))
        dying.died()
    assert_bounded(space)
    held = acquire(stub, env={"OF": "me"}).sandbox.sandbox_id
    assert api.run(stub, held, "echo $OF").stdout == b"me\n"
    api.release(stub, held)
    shorten(space)
    assert_nothing_left(space, stub)


@pytest.mark.parametrize("point", RELEASE)
def test_release_is_repeated_at_the_other_broker_after_the_death(space, stub, make_broker, point):
    dying = make_broker(fail_point=point)
    its = dying.stub()
    held = acquire(its).sandbox.sandbox_id
    with contextlib.suppress(grpc.RpcError):
        api.release(its, held)
    dying.died()
    api.release(stub, held)
    assert api.refused(lambda: api.run(stub, held, ["true"])).reason == "SANDBOX_GONE"
    assert_nothing_left(space, stub)
