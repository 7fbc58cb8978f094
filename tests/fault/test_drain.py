"""SIGTERM: not ready, open streams told to go elsewhere, ended in time; the second is quick."""
import signal
import time

import grpc

from harness import api, proc
from harness.wait import wait_until
from sandbroker.v1 import execution_pb2


def is_draining(stub):
    try:
        api.acquire(stub)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE and api.refusal(error)
    return None


def test_open_streams_are_told_that_the_server_drains(make_server):
    server = make_server(config={"drain": {"grace": "5s"}})
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    run = api.Exec(stub, held, ["sleep", "1000"])
    run.wait_ready()
    below = list(proc.descendants(server.pid))
    server.signal(signal.SIGTERM)
    begin = time.monotonic()
    try:
        run.finish()
        raise AssertionError(f"the stream ended OK: {run.ended}")
    except grpc.RpcError as error:
        refusal = api.refusal(error)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVER_DRAINING")
    assert refusal.retry is not None
    assert server.wait() == 0
    assert time.monotonic() - begin < 15
    wait_until(lambda: not [pid for pid in below if proc.alive(pid)], 20, "no sandbox is left")


def test_waiting_acquires_are_told_too(make_server):
    server = make_server(config={"pools": {"default": {"warm": 0, "limit": 1}}})
    stub = server.stub()
    api.acquire(stub)
    waiting = stub.Acquire.future(api.task(), timeout=60)
    wait_until(lambda: api.capacity(stub).waiting_callers == 1, 10, "queued")
    server.signal(signal.SIGTERM)
    refusal = api.refused(waiting.result)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVER_DRAINING")
    assert server.wait() == 0


def test_readiness_goes_before_service(make_server):
    server = make_server(config={"drain": {"delay": "3s", "grace": "5s"}})
    channel = server.channel()
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", request_serializer=None,
                                 response_deserializer=None)(b"", timeout=60)
    assert next(watch) == b"\x08\x01"
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    server.signal(signal.SIGTERM)
    assert next(watch) == b"\x08\x02"  # NOT_SERVING, while calls are still answered
    assert api.run(stub, held, ["echo", "served"]).stdout == b"served\n"
    watch.cancel()
    assert server.wait() == 0


def test_running_call_may_finish_within_the_grace(make_server):
    server = make_server(config={"drain": {"grace": "10s"}})
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    running = stub.Run.future(_sleep_request(held, "1"), timeout=60)
    wait_until(lambda: any(child["name"] == "sleep" for child in
                           proc.descendants(server.pid).values()), 10, "the program runs")
    server.signal(signal.SIGTERM)
    try:
        assert running.result(30).stdout == b""
    except grpc.RpcError as error:  # or it is told, in the words of the contract
        assert api.refusal(error).reason == "SERVER_DRAINING"
    assert server.wait() == 0


def _sleep_request(sandbox, seconds):

    return execution_pb2.RunRequest(sandbox_id=sandbox, spec=api.spec(["sleep", seconds]))


def test_second_SIGTERM_is_quick(make_server):
    server = make_server(config={"drain": {"delay": "60s", "grace": "60s"}})
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    run = api.Exec(stub, held, ["sleep", "1000"])
    run.wait_ready()
    below = list(proc.descendants(server.pid))
    server.signal(signal.SIGTERM)
    wait_until(lambda: "signal" in server.log(), 10, "the drain began")
    begin = time.monotonic()
    server.signal(signal.SIGTERM)
    code = server.wait(20)
    assert time.monotonic() - begin < 5
    assert code >= 0, "ended by a signal instead of by itself"
    run.drop()
    wait_until(lambda: not [pid for pid in below if proc.alive(pid)], 20, "no sandbox is left")


# Becomes a program of another name when it is told to end.
HEEDS_TERM = """cp /bin/sleep /workspace/gotterm
trap 'exec /workspace/gotterm 0.5' TERM
echo up; while :; do sleep 0.05; done"""
IGNORES_TERM = "trap '' TERM; echo up; while :; do sleep 0.05; done"


def test_T60_workloads_are_told_to_end_and_get_a_moment(make_server):
    server = make_server(config={"drain": {"grace": "0s"}})
    stub = server.stub()
    runs = []
    for program in (HEEDS_TERM, IGNORES_TERM):
        held = api.acquire(stub).sandbox.sandbox_id
        runs.append(api.Exec(stub, held, program))
        runs[-1].wait_output(b"up\n")
    below = list(proc.descendants(server.pid))
    server.signal(signal.SIGTERM)
    begin = time.monotonic()
    wait_until(lambda: any(child["name"] == "gotterm"
                           for child in proc.descendants(server.pid).values()), 10,
               "it heard TERM and lives on for a moment")
    assert server.wait() == 0
    assert time.monotonic() - begin < 8
    wait_until(lambda: not [pid for pid in below if proc.alive(pid)], 20, "no sandbox is left")


def test_SIGINT_drains_as_well(make_server):
    server = make_server()
    server.signal(signal.SIGINT)
    assert server.wait() == 0
