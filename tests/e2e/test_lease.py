"""Leases: they end on their own, activity moves them, renewal never shortens."""
import grpc

from harness import api
from harness.wait import wait_until
from sandbroker.v1 import sandbox_pb2

GONE = grpc.StatusCode.FAILED_PRECONDITION


def renew(stub, *sandboxes):
    return list(stub.RenewLeases(sandbox_pb2.RenewLeasesRequest(sandbox_ids=sandboxes)).results)


def short_lease(stub, ttl=1, **fields):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(ttl), **fields)
    return api.acquire(stub, lease=lease).sandbox.sandbox_id


def claimed(stub):
    return api.capacity(stub).claimed


def test_lease_that_ran_out_takes_the_sandbox_back(stub):
    held = short_lease(stub)
    wait_until(lambda: claimed(stub) == 0, 30, "the lease is over")
    refusal = api.refused(lambda: api.run(stub, held, ["true"]))
    assert (refusal.code, refusal.reason) == (GONE, "LEASE_EXPIRED")
    result, = renew(stub, held)
    assert (result.code, result.reason) == (GONE.value[0], "LEASE_EXPIRED")


def test_running_program_keeps_its_sandbox(stub):
    held = short_lease(stub)
    reply = api.run(stub, held, "sleep 3; echo still here")
    assert reply.stdout == b"still here\n"
    assert api.release(stub, held).already_gone is False


def test_program_that_must_not_keep_it_ends_as_lease_expired(stub):
    held = short_lease(stub, ttl=1, max_lifetime=api.duration(2))
    run = api.Exec(stub, held, ["sleep", "1000"]).finish()
    assert api.end_of(run.ended) == "lease_expired"
    assert run.warnings and run.warnings[0].reason == "LEASE_ENDING"
    assert api.refused(lambda: api.run(stub, held, ["true"])).reason == "LEASE_EXPIRED"


def test_renewal_moves_forward_and_never_back(stub):
    held = short_lease(stub, ttl=300)
    first = api.get_sandbox(stub, held).lease
    result, = renew(stub, held)
    assert result.code == 0 and result.sandbox_id == held
    assert result.lease.expire_time.ToNanoseconds() >= first.expire_time.ToNanoseconds()
    assert result.lease.spec.ttl.ToSeconds() == 300
    api.release(stub, held)


def test_renewal_answers_for_each_handle(stub):
    held = short_lease(stub, ttl=60)
    good, forged = renew(stub, held, "sb1_AAAA")
    assert good.code == 0
    assert (forged.code, forged.reason) == (grpc.StatusCode.NOT_FOUND.value[0], "SANDBOX_NOT_FOUND")
    assert api.refused(lambda: renew(stub)).fields == ["sandbox_ids"]
    api.release(stub, held)


def test_fresh_handle_is_as_good_as_the_first(stub):
    held = short_lease(stub, ttl=60)
    fresh = api.get_sandbox(stub, held)
    assert fresh.state == sandbox_pb2.SANDBOX_STATE_READY and fresh.incarnation
    assert api.run(stub, fresh.sandbox_id, ["echo", "x"]).stdout == b"x\n"
    api.release(stub, fresh.sandbox_id)
