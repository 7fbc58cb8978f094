"""The agent dies or stops answering: a typed end in time, and never an exit code."""
import os
import signal
import time

import grpc
import pytest

from harness import api, proc
from harness.wait import count, wait_until
from sandbroker.v1 import execution_pb2, sandbox_pb2

HEARTBEAT = 0.3


@pytest.fixture
def server(make_server):
    return make_server(config={
        "server": {"heartbeat_interval": f"{int(HEARTBEAT * 1000)}ms"},
        "local": {"relink_bound": "1s"},
        "pools": {"default": {"warm": 1, "limit": 8}}})


def acquire_with_agent(server, stub):
    """A sandbox of a server that has no other agent, and its agent's pid."""
    before = set(server.agents())
    held = api.acquire(stub).sandbox.sandbox_id
    # The one that was warm is the one handed out.
    api.run(stub, held, ["true"])
    run = api.Exec(stub, held, ["sleep", "1000"])
    run.wait_ready()
    agent = next(pid for pid in before | set(server.agents())
                 if any(child["name"] == "sleep" for child in proc.descendants(pid).values()))
    return held, agent, run


def end_or_refusal(run):
    """How the call ended: name of the end, or the refusal's reason."""
    try:
        return api.end_of(run.finish().ended)
    except grpc.RpcError as error:
        return api.refusal(error).reason


def test_killed_agent_ends_its_programs_as_agent_lost_within_a_second(server, stub):
    held, agent, run = acquire_with_agent(server, stub)
    unary = stub.Run.future(_run_request(held, ["sleep", "1000"]), timeout=60)
    wait_until(lambda: len([c for c in proc.descendants(agent).values() if c["name"] == "sleep"])
               == 2, 10, "both programs run")
    begin = time.monotonic()
    os.kill(agent, signal.SIGKILL)
    assert api.end_of(run.finish().ended) == "agent_lost"
    assert time.monotonic() - begin < 1
    assert not run.ended.HasField("exited")
    assert api.end_of(unary.result(10).ended) == "agent_lost"
    refusal = api.refused(lambda: api.run(stub, held, ["true"]))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SANDBOX_GONE")
    # The pool heals, and nothing of the dead one is left.
    other = api.acquire(stub).sandbox.sandbox_id
    assert api.run(stub, other, ["echo", "new"]).stdout == b"new\n"
    wait_until(lambda: not proc.zombies(server.pid), 10, "no zombie")


def _run_request(sandbox, argv):
    return execution_pb2.RunRequest(sandbox_id=sandbox, spec=api.spec(argv))


def test_stopped_agent_is_lost_within_three_heartbeats(server, stub):
    _, agent, run = acquire_with_agent(server, stub)
    os.kill(agent, signal.SIGSTOP)
    begin = time.monotonic()
    try:
        seen = end_or_refusal(run)
        took = time.monotonic() - begin
    finally:
        try:
            os.kill(agent, signal.SIGCONT)
        except ProcessLookupError:
            pass
    assert seen == "agent_lost"
    assert took < 3 * HEARTBEAT + 1  # the bound, and what this machine needs to say so
    assert api.server_info(stub).version


def test_T50c_program_cut_off_never_looks_like_a_success(server, stub):
    """The agent dies at many moments around a program's own end."""
    for number in range(count(10, 100)):
        held, agent, sleeper = acquire_with_agent(server, stub)
        run = api.Exec(stub, held, f"echo begin; sleep 0.0{number % 10}; echo end; exit 0")
        run.wait_ready()
        os.kill(agent, signal.SIGKILL)
        seen = end_or_refusal(run)
        if seen == "exited":  # then it did run to its end
            assert run.stdout == b"begin\nend\n" and run.ended.exited.code == 0
        else:
            assert seen == "agent_lost"
        assert end_or_refusal(sleeper) == "agent_lost"


def test_warm_agent_that_dies_is_replaced(server, stub):
    wait_until(lambda: api.capacity(stub).ready == 1, 20, "one warm")
    agent, = server.agents()
    os.kill(agent, signal.SIGKILL)
    # Its successor is started once the death was noticed.
    wait_until(lambda: set(server.agents()) - {agent} and api.capacity(stub).ready == 1, 20,
               "another warm one")
    held = api.acquire(stub).sandbox.sandbox_id
    assert api.run(stub, held, ["echo", "ok"]).stdout == b"ok\n"


def test_agents_of_a_killed_broker_end_at_their_backstop(make_server):
    server = make_server(config={"server": {"min_backstop": "1s", "heartbeat_interval": "300ms"}})
    stub = server.stub()
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(1))
    held = api.acquire(stub, lease=lease).sandbox.sandbox_id
    run = api.Exec(stub, held, ["sleep", "1000"])
    run.wait_ready()
    everything = list(proc.descendants(server.pid))
    # Those that hold the program; warm ones wait longer for a broker to come back.
    pids = [agent for agent in server.agents() if any(
        child["name"] == "sleep" for child in proc.descendants(agent).values())]
    pids += [pid for agent in pids for pid in proc.descendants(agent)]
    assert len(pids) >= 2
    server.process.kill()
    server.wait()
    with pytest.raises(grpc.RpcError) as error:
        run.finish()
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    try:
        wait_until(lambda: not [pid for pid in pids if proc.alive(pid)], 30, "all of it ended")
    finally:
        for pid in everything:
            if proc.alive(pid):
                os.kill(pid, signal.SIGKILL)
