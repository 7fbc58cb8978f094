"""What runs in a pod, and how it ends when the pod, the claim, the memory or the lease does: always
typed, with its cause, and never with an exit code nobody sent."""
import hashlib
import random
import threading

import pytest

from harness import api
from harness.wait import count, wait_until
from sandbroker.v1 import sandbox_pb2

MIB = 1 << 20
PIECE = 64 << 10


@pytest.fixture
def held(stub):
    """A sandbox that the test itself ends."""
    return api.acquire(stub, pool="python").sandbox.sandbox_id


def running(stub, held, argv="echo begin; exec sleep 1000", **fields):
    run = api.Exec(stub, held, argv, **fields)
    run.wait_output(b"begin\n")
    return run


def gone(stub, held):
    """Until the broker knows: what later calls on it are told."""
    def look():
        try:
            api.run(stub, held, ["true"])
        except api.grpc.RpcError as error:
            refusal = api.refusal(error)
            # The link may break before the cluster says why.
            return refusal if refusal.reason != "AGENT_UNREACHABLE" else None
        return None
    return wait_until(look, 30, "the sandbox is gone")


# 1 GiB with SANDBROKER_LONG, CI 64 MiB.
def test_T39_large_input_and_output_pass_the_pod_unchanged(stub, sandbox):
    size = count(64, 1024) * MIB
    block = random.Random(39).randbytes(MIB)
    sent, got = hashlib.sha256(), hashlib.sha256()
    run = api.Exec(stub, sandbox, ["cat"], stdin=True, bound=600)
    run.wait_ready()
    window = threading.Condition()

    def send():
        for at in range(0, size, PIECE):
            piece = block[at % MIB:at % MIB + PIECE]
            sent.update(piece)
            with window:
                if not window.wait_for(lambda end=at + PIECE: run.input_limit >= end, 60):
                    run.drop()  # the reader sees it
                    return
            run.write(piece)
        run.write(eof=True)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    for kind, event in run:
        if kind == "output":
            got.update(event.data)
            run.out[1].clear()
        with window:
            window.notify()
    sender.join(60)
    assert run.ended.exited.code == 0 and run.ended.output_complete
    assert run.ended.final_offset == size
    assert got.digest() == sent.digest()


def test_exit_codes_signals_and_timeouts_are_the_programs_own(stub, sandbox):
    assert api.run(stub, sandbox, "exit 7").ended.exited.code == 7
    assert api.run(stub, sandbox, "kill -TERM $$").ended.signaled.number == 15
    late = api.run(stub, sandbox, ["sleep", "1000"], timeout=api.duration(0.3)).ended
    assert api.end_of(late) == "timed_out"


def test_files_stay_from_one_program_to_the_next_and_the_root_is_read_only(stub, sandbox):
    api.run(stub, sandbox, "echo kept > /workspace/file; echo kept > /tmp/file")
    assert api.run(stub, sandbox, "cat /workspace/file /tmp/file").stdout == b"kept\nkept\n"
    assert api.run(stub, sandbox, "touch /usr/file").ended.exited.code != 0


def test_pod_deleted_under_an_exec_ends_it_with_the_cause(space, stub, held):
    pod = space.pod_of(stub, held)
    run = running(stub, held)
    space.kube.delete("Pod", pod)
    run.finish()
    # The agent is asked to end and can still say so; else the cluster says why.
    kind = api.end_of(run.ended)
    assert kind in ("cancelled", "agent_lost", "sandbox_gone"), run.ended
    assert "agent" in str(run.ended) if kind == "cancelled" else "pod deleted" in str(run.ended)
    refusal = gone(stub, held)
    assert refusal.reason == "SANDBOX_GONE"


@pytest.mark.xfail(strict=True, reason="the claim is left to its lease; the controller makes "
                                       "another pod for it, which is found again")
def test_claim_whose_pod_was_deleted_is_deleted(space, stub, held):
    pod = space.pod_of(stub, held)
    claim = space.claim_of(pod)
    space.kube.delete("Pod", pod)
    try:
        space.wait_gone("SandboxClaim", claim, 8)
    finally:
        # Whatever stands there now: the handle is of the life before.
        reason = api.refused(lambda: api.run(stub, held, ["true"])).reason
        space.kube.delete("SandboxClaim", claim)
        assert reason in ("SANDBOX_GONE", "INCARNATION_CHANGED"), reason


def test_pod_killed_without_grace_ends_an_exec_with_the_cause(space, stub, held):
    pod = space.pod_of(stub, held)
    run = running(stub, held)
    space.kube.request("DELETE", f"/api/v1/namespaces/{space.name}/pods/{pod}",
                       query={"gracePeriodSeconds": "0"})
    assert api.end_of(run.finish().ended) == "agent_lost", run.ended
    assert run.ended.agent_lost.detail == "pod deleted"
    assert gone(stub, held).reason == "SANDBOX_GONE"


def test_T111_claim_deleted_from_outside_ends_all_and_release_still_answers(space, stub, held):
    pod = space.pod_of(stub, held)
    claim = space.claim_of(pod)
    run = running(stub, held)
    space.kube.delete("SandboxClaim", claim)
    assert api.end_of(run.finish().ended) == "sandbox_gone", run.ended
    assert run.ended.sandbox_gone.cause
    refusal = gone(stub, held)
    assert refusal.reason == "SANDBOX_GONE"
    assert api.release(stub, held).already_gone
    for kind, name in (("SandboxClaim", claim), ("Pod", pod)):
        space.wait_gone(kind, name)


def test_release_under_an_exec_is_not_told_as_an_exit_code(stub, held):
    run = running(stub, held, execution_id="long")
    assert "long" in api.release(stub, held).ended_executions
    assert api.end_of(run.finish().ended) in ("sandbox_gone", "cancelled"), run.ended


def test_program_over_the_pods_memory_is_never_said_to_have_exited(stub, held):
    """The kernel kills in the pod's one cgroup: the program, or the agent and with it all."""
    run = api.Exec(stub, held, ["python3", "-c", "x = bytearray(1 << 30); x[::4096] = x[::4096]"])
    run.finish()
    kind = api.end_of(run.ended)
    if kind == "signaled":  # the program alone
        assert run.ended.signaled.number == 9
        assert api.run(stub, held, ["echo", "here"]).stdout == b"here\n"
    else:
        assert kind in ("out_of_memory", "agent_lost") and "memory" in str(run.ended), run.ended
    api.release(stub, held)


def test_lease_that_runs_out_deletes_the_claim_and_says_so(space, stub):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(2))
    held = api.acquire(stub, pool="python", lease=lease).sandbox.sandbox_id
    pod = space.pod_of(stub, held)
    claim = space.claim_of(pod)
    for kind, name in (("SandboxClaim", claim), ("Pod", pod)):
        space.wait_gone(kind, name, 30)
    assert gone(stub, held).reason == "LEASE_EXPIRED"


def test_exec_under_way_keeps_the_lease(stub):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(1))
    held = api.acquire(stub, pool="python", lease=lease).sandbox.sandbox_id
    run = api.Exec(stub, held, "sleep 3; echo done").finish()
    assert run.stdout == b"done\n" and run.ended.exited.code == 0
    api.release(stub, held)
