"""Taking and giving back: sources, fallbacks, receipts, selectors, figures."""
import concurrent.futures
import time

import grpc
import pytest

from google.protobuf import timestamp_pb2
from harness import api
from harness.wait import count, wait_until
from sandbroker.v1 import sandbox_pb2

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
WARM, COLD, REPEATED = (sandbox_pb2.ACQUIRE_SOURCE_WARM, sandbox_pb2.ACQUIRE_SOURCE_COLD,
                        sandbox_pb2.ACQUIRE_SOURCE_REPEATED)
WARM_ONLY, WAIT, COLD_OK = (sandbox_pb2.FALLBACK_WARM_ONLY, sandbox_pb2.FALLBACK_WAIT,
                            sandbox_pb2.FALLBACK_COLD_OK)


@pytest.fixture
def small(make_server):
    """A server whose pool holds two sandboxes, both warm."""
    server = make_server(config={"pools": {"default": {"warm": 2, "limit": 2},
                                           "cold": {"warm": 0, "limit": 2}}})
    stub = server.stub()
    wait_until(lambda: api.capacity(stub).ready == 2, 20, "two warm sandboxes")
    return stub


def ids_of(reply):
    return [sandbox.sandbox_id for sandbox in reply.sandboxes]


def list_all(stub, selector=""):
    return ids_of(stub.ListSandboxes(sandbox_pb2.ListSandboxesRequest(label_selector=selector)))


def test_acquire_says_where_from_and_how_long(small):
    warm = api.acquire(small, labels={"app": "web"})
    assert warm.source == WARM and warm.sandbox.pool == "default"
    assert warm.sandbox.sandbox_id.startswith("sb1_") and len(warm.sandbox.sandbox_id) <= 1024
    assert warm.sandbox.state == sandbox_pb2.SANDBOX_STATE_READY
    assert warm.sandbox.kind == sandbox_pb2.SANDBOX_KIND_TASK
    assert dict(warm.sandbox.labels) == {"app": "web"} and warm.sandbox.incarnation
    assert 590 < warm.sandbox.lease.remaining.ToSeconds() <= 1000
    assert warm.timing.total.ToNanoseconds() > 0
    cold = api.acquire(small, pool="cold")
    assert cold.source == COLD and cold.timing.started.ToNanoseconds() > 0


def test_capacity_figures_follow_what_happens(small):
    before = api.capacity(small)
    assert (before.wanted, before.ready, before.claimed, before.limit) == (2, 2, 0, 2)
    held = api.acquire(small).sandbox.sandbox_id
    taken = api.capacity(small)
    assert (taken.ready, taken.claimed, taken.waiting_callers) == (1, 1, 0)
    api.release(small, held)
    wait_until(lambda: (lambda c: (c.ready, c.claimed) == (2, 0))(api.capacity(small)), 20,
               "the pool is full again")
    every = small.ReadTaskCapacity(sandbox_pb2.ReadTaskCapacityRequest())
    assert sorted(pool.pool for pool in every.pools) == ["cold", "default"]
    refusal = api.refused(lambda: api.capacity(small, "nowhere"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "POOL_NOT_FOUND")


def test_T112_dry_pool_is_a_refusal_that_says_when_to_try_again(small):
    for _ in range(2):
        assert api.acquire(small, fallback=WARM_ONLY).source == WARM
    begin = time.monotonic()
    refusal = api.refused(lambda: api.acquire(small, fallback=WARM_ONLY))
    assert (refusal.code, refusal.reason) == (EXHAUSTED, "POOL_EXHAUSTED")
    assert refusal.retry > 0 and time.monotonic() - begin < 2


def test_wait_is_bounded(small):
    for _ in range(2):
        api.acquire(small)
    for fallback in (WAIT, COLD_OK):
        begin = time.monotonic()
        refusal = api.refused(lambda f=fallback: api.acquire(small, fallback=f,
                                                             wait_bound=api.duration(0.3)))
        assert (refusal.code, refusal.reason) == (EXHAUSTED, "POOL_EXHAUSTED")
        assert 0.3 <= time.monotonic() - begin < 5


def test_wait_is_fair(small):
    """Who came first is served first, one sandbox at a time."""
    held = [api.acquire(small).sandbox.sandbox_id for _ in range(2)]
    served = []
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        def wait(number):
            sandbox = api.acquire(small, fallback=WAIT).sandbox.sandbox_id
            served.append(number)
            api.release(small, sandbox)

        waits = []
        for number in range(5):
            waits.append(threads.submit(wait, number))
            wait_until(lambda n=number: api.capacity(small).waiting_callers == n + 1, 10, "queued")
        api.release(small, held.pop())
        concurrent.futures.wait(waits, timeout=30)
        for done in waits:
            done.result()
    assert served == [0, 1, 2, 3, 4]


def test_wait_is_cancellable_and_leaves_its_place(small):
    held = [api.acquire(small).sandbox.sandbox_id for _ in range(2)]
    waiting = small.Acquire.future(api.task(fallback=WAIT), timeout=60)
    wait_until(lambda: api.capacity(small).waiting_callers == 1, 10, "queued")
    waiting.cancel()
    wait_until(lambda: api.capacity(small).waiting_callers == 0, 10, "left the queue")
    api.release(small, held.pop())
    wait_until(lambda: api.capacity(small).ready == 1, 20, "the freed one went to nobody")


def test_T97a_same_request_id_gets_the_same_sandbox(small):
    first = api.acquire(small, request_id="r-1", labels={"a": "b"})
    again = api.acquire(small, request_id="r-1", labels={"a": "b"})
    assert first.source == WARM and again.source == REPEATED
    assert again.sandbox.incarnation == first.sandbox.incarnation
    assert len(list_all(small)) == 1 and api.capacity(small).claimed == 1


def test_T97b_same_request_id_with_another_body_is_refused(small):
    api.acquire(small, request_id="r-1")
    for fields in ({"labels": {"a": "b"}}, {"env": {"A": "1"}}, {"pool": "cold"},
                   {"lease": sandbox_pb2.LeaseSpec(ttl=api.duration(60))}):
        refusal = api.refused(lambda f=fields: api.acquire(small, request_id="r-1", **f))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT,
                                                  "REQUEST_ID_REUSED")
    assert len(list_all(small)) == 1


def test_T97c_concurrent_repeats_make_one_sandbox(small):
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(lambda _: api.acquire(small, request_id="r-2"), range(16)))
    assert len({reply.sandbox.incarnation for reply in replies}) == 1
    assert [reply.source for reply in replies].count(REPEATED) == 15
    assert len(list_all(small)) == 1


def test_T97d_repeat_after_release_is_gone_not_a_second_sandbox(small):
    held = api.acquire(small, request_id="r-3").sandbox.sandbox_id
    api.release(small, held)
    refusal = api.refused(lambda: api.acquire(small, request_id="r-3"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SANDBOX_GONE")
    assert list_all(small) == []


def test_T102_lifetime_too_short_is_not_handed_out(small):
    hour = sandbox_pb2.LeaseSpec(max_lifetime=api.duration(3600))
    reply = api.acquire(small, lease=hour, min_remaining=api.duration(3000))
    assert reply.sandbox.lease.remaining.ToSeconds() > 0
    assert reply.sandbox.lease.spec.max_lifetime.ToSeconds() == 3600
    refusal = api.refused(lambda: api.acquire(small, lease=hour, min_remaining=api.duration(3601)))
    assert refusal.reason == "FIELD_INVALID" and refusal.fields == ["min_remaining"]
    # A repeat of an older acquire that has less left than it asks for is no way around it.
    short = sandbox_pb2.LeaseSpec(ttl=api.duration(1), max_lifetime=api.duration(3))
    fields = {"lease": short, "min_remaining": api.duration(2.5), "request_id": "near-its-end"}
    api.acquire(small, **fields)
    late = wait_until(lambda: _refusal_or_none(lambda: api.acquire(small, **fields)), 20,
                      "too little lifetime is left")
    assert late.code == grpc.StatusCode.FAILED_PRECONDITION


def _refusal_or_none(call):
    try:
        call()
    except grpc.RpcError as error:
        return api.refusal(error)
    return None


# 200 at once; CI 40.
def test_T114_concurrent_creates_take_linear_time(make_server):
    many = count(40, 200)
    server = make_server(config={"pools": {"default": {"warm": 0, "limit": 256}}})
    stub = server.stub()

    def create(number):
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(number) as threads:
            held = list(threads.map(lambda _: api.acquire(stub, labels={"t": "114"}), range(number)))
        took = time.monotonic() - begin
        assert len({one.sandbox.incarnation for one in held}) == number
        results = stub.ReleaseTaskSandboxes(
            sandbox_pb2.ReleaseTaskSandboxesRequest(label_selector="t=114"), timeout=60).results
        assert len(results) == number and all(result.code == 0 for result in results)
        return took

    create(4)
    few = create(many // 4)
    assert create(many) <= 4 * 2 * few + 1
    wait_until(lambda: api.capacity(stub).claimed == 0, 30, "all given back")


def test_release_is_idempotent_and_says_what_it_ended(small):
    held = api.acquire(small).sandbox.sandbox_id
    run = api.Exec(small, held, ["sleep", "1000"], execution_id="left-running")
    run.wait_ready()
    reply = api.release(small, held)
    assert list(reply.ended_executions) == ["left-running"] and not reply.already_gone
    run.finish()
    assert api.end_of(run.ended) in ("cancelled", "sandbox_gone", "agent_lost")
    assert api.release(small, held).already_gone
    for call in (lambda: api.run(small, held, ["true"]),
                 lambda: small.GetSandbox(sandbox_pb2.GetSandboxRequest(sandbox_id=held))):
        refusal = api.refused(call)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION,
                                                  "SANDBOX_GONE")


def test_forged_handle_is_not_found_whatever_is_wrong_with_it(small):
    held = api.acquire(small).sandbox.sandbox_id
    flipped = held[:-1] + ("A" if held[-1] != "A" else "B")
    for forged in ("", "x", "sb1_", "sb1_AAAA", flipped, held + "A", held[4:], "a" * 100_000):
        for call in (lambda f=forged: api.run(small, f, ["true"]),
                     lambda f=forged: api.release(small, f),
                     lambda f=forged: small.GetSandbox(
                         sandbox_pb2.GetSandboxRequest(sandbox_id=f))):
            refusal = api.refused(call)
            assert refusal.code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)
            assert refusal.reason in ("SANDBOX_NOT_FOUND", "FIELD_INVALID"), forged
    assert api.refused(lambda: api.run(small, flipped, ["true"])).reason == "SANDBOX_NOT_FOUND"


def test_release_by_selector_takes_what_matches(small):
    web = api.acquire(small, labels={"app": "web"}).sandbox.sandbox_id
    api.acquire(small, labels={"app": "db"})

    def release(selector, **fields):
        request = sandbox_pb2.ReleaseTaskSandboxesRequest(label_selector=selector, **fields)
        return list(small.ReleaseTaskSandboxes(request, timeout=60).results)

    dry = release("app=web", dry_run=True)
    assert len(dry) == 1 and dry[0].code == 0 and len(list_all(small)) == 2
    past = timestamp_pb2.Timestamp(seconds=1)
    assert release("app", acquired_before=past) == [] and len(list_all(small)) == 2
    future = timestamp_pb2.Timestamp(seconds=int(time.time()) + 3600)
    assert [result.code for result in release("app=web", acquired_before=future)] == [0]
    assert api.refused(lambda: api.run(small, web, ["true"])).reason == "SANDBOX_GONE"
    assert list_all(small, "app=db") == list_all(small) and len(list_all(small)) == 1
    for bad in ("", "app in ("):
        refusal = api.refused(lambda b=bad: release(b))
        assert refusal.reason == "FIELD_INVALID" and refusal.fields == ["label_selector"]


def test_list_pages_in_order_of_acquire(server, stub):
    made = [api.acquire(stub, labels={"list": "me"}).sandbox for _ in range(5)]
    seen, token = [], ""
    while True:
        page = stub.ListSandboxes(sandbox_pb2.ListSandboxesRequest(
            label_selector="list=me", page_size=2, page_token=token))
        assert len(page.sandboxes) <= 2
        seen += [sandbox.incarnation for sandbox in page.sandboxes]
        token = page.next_page_token
        if not token:
            break
    assert seen == [sandbox.incarnation for sandbox in made]
    refusal = api.refused(lambda: stub.ListSandboxes(
        sandbox_pb2.ListSandboxesRequest(page_token="forged")))
    assert refusal.reason == "FIELD_INVALID" and refusal.fields == ["page_token"]
    stub.ReleaseTaskSandboxes(sandbox_pb2.ReleaseTaskSandboxesRequest(label_selector="list=me"))


@pytest.mark.parametrize("fields, field", [
    ({"labels": {"sandbroker.dev/x": "y"}}, "labels"), ({"labels": {"-": ""}}, "labels"),
    ({"request_id": "a b"}, "request_id"), ({"request_id": "x" * 65}, "request_id"),
    ({"lease": sandbox_pb2.LeaseSpec(ttl=api.duration(0.5))}, "lease.ttl"),
    ({"lease": sandbox_pb2.LeaseSpec(ttl=api.duration(90_000))}, "lease.ttl"),
    ({"wait_bound": api.duration(-1)}, "wait_bound"), ({"fallback": 77}, "fallback"),
    ({"env": {"": "x"}}, "env")])
def test_bad_field_of_acquire_is_named(stub, fields, field):
    refusal = api.refused(lambda: api.acquire(stub, **fields))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")
    assert len(refusal.fields) == 1 and refusal.fields[0].startswith(field)


def test_env_of_the_acquire_reaches_every_program_and_no_disk(server, stub):
    canary = "canary-c0ffee"
    held = api.acquire(stub, env={"SECRET": canary}).sandbox.sandbox_id
    assert api.run(stub, held, 'printf %s "$SECRET"').stdout.decode() == canary
    assert api.run(stub, held, 'printf %s "$SECRET"', env={"SECRET": "own"}).stdout == b"own"
    api.release(stub, held)
    assert canary not in server.log()
    for path in server.state_dir.rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path


def test_calls_that_go_away_hold_nothing_longer_than_their_lease(small):
    """An answer and a cancel may cross; then nobody knows of the sandbox, and its lease ends it."""
    short = sandbox_pb2.LeaseSpec(ttl=api.duration(1))

    def churn(_):
        for _ in range(count(50, 500)):
            small.Acquire.future(api.task(wait_bound=api.duration(1), lease=short)).cancel()

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        churning = threads.map(churn, range(4))
        for _ in range(10):
            api.release(small, api.acquire(small).sandbox.sandbox_id)
        list(churning)
    wait_until(lambda: (lambda c: (c.claimed, c.ready, c.waiting_callers) == (0, 2, 0))(
        api.capacity(small)), 30, "nothing is held")
