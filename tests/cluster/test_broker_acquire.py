"""Taking and giving back on a real cluster: where a sandbox came from, what a dry or broken pool
says, and what is left of it afterwards."""
import concurrent.futures
import time

import grpc
import pytest

from harness import api
from harness.cluster import COLD, COLD_OK, WAIT, WARM, WARM_ONLY, agent_template
from harness.wait import wait_until

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
NO_RIGHTS = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd"), "0" * 16)


def facts_of(stub, sandbox):
    lines = api.run(stub, sandbox, ["cat", "/proc/self/status"]).stdout.decode().splitlines()
    return dict(line.split(":\t", 1) for line in lines)


def test_warm_sandbox_runs_programs_without_any_right(stub):
    got = api.acquire(stub, pool="python", fallback=WARM_ONLY)
    assert got.source == WARM and got.sandbox.pool == "python"
    held = got.sandbox.sandbox_id
    reply = api.run(stub, held, ["python3", "-c", "print(6 * 7)"])
    assert (reply.stdout, reply.ended.exited.code) == (b"42\n", 0)
    facts = facts_of(stub, held)
    assert {name: facts[name] for name in NO_RIGHTS} == NO_RIGHTS
    assert (facts["NoNewPrivs"], facts["Seccomp"], facts["Uid"]) == ("1", "2", "1000\t" * 3 + "1000")
    api.release(stub, held)


def test_release_deletes_claim_and_pod(space, stub):
    held = api.acquire(stub, pool="python").sandbox.sandbox_id
    pod = space.pod_of(stub, held)
    claim = space.claim_of(pod)
    assert not api.release(stub, held).already_gone
    # The answer means that the deletion is certain, the pod goes in the background.
    assert (space.kube.list("SandboxClaim", fieldSelector=f"metadata.name={claim}") or
            [{"metadata": {"deletionTimestamp": "gone"}}])[0]["metadata"]["deletionTimestamp"]
    for kind, name in (("SandboxClaim", claim), ("Sandbox", pod), ("Pod", pod)):
        space.wait_gone(kind, name)
    assert api.release(stub, held).already_gone
    assert api.refused(lambda: api.run(stub, held, ["true"])).reason == "SANDBOX_GONE"


def test_T98_claims_at_once_get_a_pod_each(space, stub):
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        held = [reply.sandbox.sandbox_id
                for reply in threads.map(lambda _: api.acquire(stub, pool="python"), range(6))]
    pods = {space.pod_of(stub, one) for one in held}
    assert len(pods) == 6 and len({space.claim_of(pod) for pod in pods}) == 6
    for one in held:
        api.release(stub, one)


def test_dry_pool_starts_one_for_who_accepts_that(stub):
    got = api.acquire(stub, pool="cold", fallback=COLD_OK)
    assert got.source == COLD and got.timing.started.ToNanoseconds() > 0
    held = got.sandbox.sandbox_id
    assert api.run(stub, held, ["echo", "here"]).stdout == b"here\n"
    api.release(stub, held)


def test_T112_dry_pool_is_a_refusal_that_says_when_to_try_again(space, stub):
    begin = time.monotonic()
    refusal = api.refused(lambda: api.acquire(stub, pool="cold", fallback=WARM_ONLY))
    assert (refusal.code, refusal.reason) == (EXHAUSTED, "POOL_EXHAUSTED")
    assert refusal.retry > 0 and time.monotonic() - begin < 2
    assert all(one["spec"]["warmPoolRef"]["name"] != "cold" for one in space.claims())


def test_who_waits_on_a_dry_pool_gets_the_member_that_was_refilled(stub):
    held = [api.acquire(stub, pool="python", fallback=WARM_ONLY).sandbox.sandbox_id
            for _ in range(3)]
    got = api.acquire(stub, pool="python", fallback=WAIT)
    assert got.source == WARM
    held.append(got.sandbox.sandbox_id)
    assert api.run(stub, held[-1], ["echo", "here"]).stdout == b"here\n"
    for one in held:
        api.release(stub, one)


def test_capacity_follows_the_pool(space, stub):
    before = api.capacity(stub, "python")
    assert (before.wanted, before.ready) == (3, 3)
    held = api.acquire(stub, pool="python").sandbox.sandbox_id
    wait_until(lambda: api.capacity(stub, "python").claimed >= 1, 20, "it is counted")
    api.release(stub, held)
    wait_until(lambda: api.capacity(stub, "python").claimed == 0, 20, "it is gone")
    space.wait_warm(stub, 3)


def test_pool_nobody_configured_is_not_found(stub):
    refusal = api.refused(lambda: api.acquire(stub, pool="nowhere"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "POOL_NOT_FOUND")


@pytest.fixture
def odd(space, server):
    """A broker with pools that can't work."""
    one = space.broker(("absent", "broken", "lost"))
    space.kube.apply(agent_template("broken", image="sandbroker.dev/never-built:dev"))
    space.pool("broken", replicas=0, template="broken")
    space.pool("lost", replicas=0, template="nowhere")
    yield one.stub()
    one.stop()


@pytest.mark.parametrize("fallback", [WARM_ONLY, WAIT, COLD_OK])
def test_pool_the_cluster_does_not_have_is_told(odd, fallback):
    begin = time.monotonic()
    refusal = api.refused(lambda: api.acquire(odd, pool="absent", fallback=fallback))
    assert refusal.reason == "CLAIM_REJECTED" and "absent" in refusal.message
    assert time.monotonic() - begin < 20


def test_template_the_cluster_does_not_have_is_told(odd):
    refusal = api.refused(lambda: api.acquire(odd, pool="lost", wait_bound=api.duration(20)))
    assert refusal.reason == "CLAIM_REJECTED" and "TemplateNotFound" in refusal.message


def test_image_that_is_not_there_is_told_in_the_kubelets_words(space, odd):
    begin = time.monotonic()
    refusal = api.refused(lambda: api.acquire(odd, pool="broken", wait_bound=api.duration(60)))
    assert refusal.reason == "IMAGE_PULL" and "ErrImageNeverPull" in refusal.message
    assert time.monotonic() - begin < 30
    # What was begun is taken away again.
    wait_until(lambda: all(one["spec"]["warmPoolRef"]["name"] != "broken"
                           for one in space.claims()), 30, "its claim is gone")
