"""A broker ends, by kill -9 or in good order, and another one goes on with its state directory:
sandboxes, handles, leases, receipts and running programs are found again, orphans are swept."""
import hashlib
import json
import os
import signal
import stat
import subprocess
import time

import grpc
import pytest

from harness import api, proc
from harness.server import program
from harness.wait import count, wait_until
from sandbroker.v1 import sandbox_pb2

CONFIG = {
    "server": {"min_backstop": "2s", "lease_margin": "0s", "heartbeat_interval": "500ms"},
    "local": {"start_bound": "3s"},
    "pools": {"default": {"warm": 1, "limit": 8}},
}


def with_config(**sections):
    return {**CONFIG, **sections}


@pytest.fixture
def server(make_server):
    return make_server(config=CONFIG, own_agent=True)


def acquire(stub, ttl=60, **fields):
    return api.acquire(stub, lease=sandbox_pb2.LeaseSpec(ttl=api.duration(ttl)),
                       **fields).sandbox.sandbox_id


def warm_uids(server):
    return [uid for uid, record in server.records().items() if record["phase"] == "warm"]


# Prints numbered lines, about 2.2 MiB in all, and takes its time; then how often it was started.
NOISY = """echo start >> /workspace/starts
i=0
while [ $i -lt 40 ]; do seq -f "$i-%05.0f" 1 6000; i=$((i+1)); sleep 0.02; done
wc -l < /workspace/starts"""


def noisy_output():
    lines = [f"{i}-{n:05d}\n" for i in range(40) for n in range(1, 6001)]
    return "".join(lines).encode() + b"1\n"


def test_running_program_goes_on_and_no_byte_is_lost(make_server, tmp_path):
    """Reads to some offset, kill -9, the same start again from there, on the same socket."""
    target = f"unix:{tmp_path}/api.sock"
    server = make_server(config=CONFIG, own_agent=True, arguments=["--unix", f"{tmp_path}/api.sock"])
    stub = server.stub(target)
    held = acquire(stub)
    whole = bytearray()
    offset = 0
    deaths = count(2, 20)
    for attempt in range(1, deaths + 2):
        run = api.Exec(stub, held, NOISY, execution_id="noisy", attempt=attempt,
                       output_offset=offset)
        if attempt <= deaths:
            run.read_while(lambda: len(run.out[1]) < 300_000)
            server.kill()
        else:
            run.finish()
        # What arrived is the caller's, however much of it was still on its way.
        whole += run.out[1]
        offset = run.next_offset
        assert not run.gaps
        if attempt <= deaths:
            assert run.ready.repeated == (attempt > 1)
            server.start()
            stub = server.stub(target)
    assert run.ended.exited.code == 0 and run.ended.output_complete
    assert hashlib.sha256(whole).digest() == hashlib.sha256(noisy_output()).digest()


def test_input_goes_on_at_the_offset_that_was_taken(server):
    stub = server.stub()
    held = acquire(stub)
    data = os.urandom(200_000)
    start = {"argv": "head -c 100000 | sha256sum; sha256sum", "stdin": True, "execution_id": "sum"}
    run = api.Exec(stub, held, attempt=1, **start)
    run.wait_ready()
    run.write(data[:120_000])
    run.wait_output(b"-\n")
    server.kill()
    stub = server.restart()
    run = api.Exec(stub, held, attempt=2, **start)
    taken = run.wait_ready().input_accepted
    assert 100_000 <= taken <= 120_000
    run.write(data[taken:], offset=taken)
    run.write(eof=True)
    sums = [line.split()[0].decode() for line in run.finish().stdout.splitlines()]
    assert sums == [hashlib.sha256(part).hexdigest() for part in (data[:100_000], data[100_000:])]


def test_end_is_delivered_though_it_came_while_nobody_was_there(server):
    stub = server.stub()
    held = acquire(stub)
    run = api.Exec(stub, held, "echo before; sleep 0.5; echo after; exit 7", execution_id="e",
                   attempt=1)
    run.wait_output(b"before\n")
    server.kill()
    agent, = [pid for pid in server.living() if "sh" in
              [child["name"] for child in proc.descendants(pid).values()]]
    wait_until(lambda: not proc.programs(agent), 10, "the program has ended")
    stub = server.restart()
    again = api.Exec(stub, held, "echo before; sleep 0.5; echo after; exit 7", execution_id="e",
                     attempt=2, output_offset=run.next_offset).finish()
    assert (again.stdout, again.ended.exited.code) == (b"after\n", 7)


def test_offset_of_an_execution_nobody_knows_starts_nothing(server):
    stub = server.stub()
    held = acquire(stub)
    start = api.Exec(stub, held, "echo ran > /workspace/ran", execution_id="new", attempt=1,
                     output_offset=5)
    refusal = api.refused(start.finish)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.OUT_OF_RANGE, "OFFSET_BEYOND_END")
    assert api.run(stub, held, "ls /workspace").stdout == b""
    unnamed = api.refused(api.Exec(stub, held, ["true"], output_offset=5).finish)
    assert unnamed.fields == ["start.output_offset"]


def test_handles_labels_leases_receipts_and_env_are_found_again(server):
    stub = server.stub()
    held = acquire(stub, ttl=300, labels={"app": "ci"}, env={"TOKEN": "t0p"}, request_id="r")
    before = api.get_sandbox(stub, held)
    server.kill()
    stub = server.restart()
    after = api.get_sandbox(stub, held)
    assert after == type(after).FromString(before.SerializeToString()) or (
        after.incarnation, after.labels, after.acquire_time, after.lease.spec) == (
        before.incarnation, before.labels, before.acquire_time, before.lease.spec)
    assert after.lease.expire_time == before.lease.expire_time
    assert api.run(stub, held, "echo $TOKEN").stdout == b"t0p\n"
    listed = stub.ListSandboxes(sandbox_pb2.ListSandboxesRequest(label_selector="app=ci"))
    assert [one.incarnation for one in listed.sandboxes] == [before.incarnation]
    repeated = api.acquire(stub, lease=before.lease.spec, labels={"app": "ci"},
                           env={"TOKEN": "t0p"}, request_id="r")
    assert repeated.source == sandbox_pb2.ACQUIRE_SOURCE_REPEATED
    assert repeated.sandbox.incarnation == before.incarnation
    assert api.release(stub, held).already_gone is False


def test_warm_sandboxes_are_taken_over_not_made_again(server):
    stub = server.stub()
    server.wait_warm(stub)
    before = warm_uids(server)
    server.kill()
    stub = server.restart()
    assert api.capacity(stub).ready == 1  # at once: it is served only after they were found
    assert warm_uids(server) == before
    held = acquire(stub)
    assert api.run(stub, held, ["echo", "x"]).stdout == b"x\n"
    assert server.records()[before[0]]["phase"] == "claimed"


def test_warm_sandbox_that_would_be_made_otherwise_today_is_replaced(server):
    stub = server.stub()
    server.wait_warm(stub)
    before = warm_uids(server)
    held = acquire(stub)
    server.wait_warm(stub)
    server.kill()
    server.configure(with_config(templates={"default": {"env": {"NEW": "1"}}}))
    stub = server.restart()
    server.wait_warm(stub)
    other = acquire(stub)
    assert api.run(stub, other, "echo $NEW").stdout == b"1\n"
    # What is claimed stays its holder's.
    assert api.run(stub, held, "echo $NEW").stdout == b"\n"
    assert before[0] in server.folders()


def test_T110_lease_that_ran_out_meanwhile_gets_one_ttl_and_a_busy_one_lives(server):
    stub = server.stub()
    idle = acquire(stub, ttl=1)
    busy = acquire(stub, ttl=1)
    run = api.Exec(stub, busy, ["sleep", "1000"], execution_id="silent", attempt=1)
    run.wait_ready()
    expire = api.get_sandbox(stub, idle).lease.expire_time.ToNanoseconds() / 1e9
    server.kill()
    wait_until(lambda: time.time() > expire, 10, "the lease ran out")
    stub = server.restart()
    left = api.get_sandbox(stub, idle).lease.remaining.ToNanoseconds()
    assert 0 < left <= 1e9
    wait_until(lambda: api.refused(lambda: api.get_sandbox(stub, idle)).reason == "LEASE_EXPIRED"
               if api.capacity(stub).claimed == 1 else False, 20, "nobody came, so it went")
    # Nobody is attached to it, yet its program keeps it.
    assert api.get_sandbox(stub, busy).incarnation
    again = api.Exec(stub, busy, ["sleep", "1000"], execution_id="silent", attempt=2)
    assert again.wait_ready().repeated
    again.drop()


def test_outage_gives_its_ttl_only_once(server):
    stub = server.stub()
    held = acquire(stub, ttl=2)
    expire = api.get_sandbox(stub, held).lease.expire_time.ToNanoseconds() / 1e9
    server.kill()
    wait_until(lambda: time.time() > expire, 10, "the lease ran out")
    stub = server.restart()
    wait_until(lambda: any(r.get("claim", {}).get("outage_ttl")
                           for r in server.records().values()), 10, "written with its mark")
    expire = api.get_sandbox(stub, held).lease.expire_time.ToNanoseconds() / 1e9
    server.kill()
    wait_until(lambda: time.time() > expire, 10, "that ran out as well")
    stub = server.restart()
    wait_until(lambda: api.capacity(stub).claimed == 0, 10, "no second one")


def test_garbled_record_is_told_and_its_sandbox_swept(server):
    stub = server.stub()
    held = acquire(stub)
    good = acquire(stub)
    server.wait_warm(stub)
    uid = next(uid for uid, record in server.records().items()
               if record.get("boot_id") == api.get_sandbox(stub, held).incarnation)
    server.kill()
    before = len(server.living())
    (server.state_dir / "sandboxes" / uid / "state.json").write_bytes(b'{"version":1,\xff')
    (server.state_dir / "sandboxes" / "stray").write_text("x")
    (server.state_dir / "sandboxes" / ("e" * 32)).mkdir()
    stub = server.restart()
    assert "no usable record" in server.log() and uid in server.log()
    assert api.refused(lambda: api.get_sandbox(stub, held)).reason == "SANDBOX_GONE"
    assert api.run(stub, good, ["echo", "x"]).stdout == b"x\n"
    assert len(server.living()) == before - 1
    assert uid not in server.folders() and "stray" not in server.folders()


def test_agent_that_does_not_prove_itself_is_ended(server):
    """A record with another secret: whoever answers there is not what the record promises."""
    stub = server.stub()
    held = acquire(stub)
    server.wait_warm(stub)
    incarnation = api.get_sandbox(stub, held).incarnation
    uid, record = next((uid, record) for uid, record in server.records().items()
                       if record.get("boot_id") == incarnation)
    server.kill()
    path = server.state_dir / "sandboxes" / uid / "state.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    record["secret"] = "A" * 43
    path.write_text(json.dumps(record))
    stub = server.restart()
    assert api.refused(lambda: api.get_sandbox(stub, held)).reason == "SANDBOX_GONE"
    wait_until(lambda: uid not in server.folders() and len(server.living()) == 1, 20, "ended")


def test_recycled_pid_is_never_touched(server, tmp_path):
    """A record that names a living process of somebody else, by pid alone."""
    stub = server.stub()
    server.wait_warm(stub)
    uid, = warm_uids(server)
    agent, = server.living()
    server.kill()
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: not server.living(), 10, "the agent is gone")
    record = server.records()[uid]
    record["agent_pid"] = os.getpid()  # this test's own: it would not survive the mistake
    (server.state_dir / "sandboxes" / uid / "state.json").write_text(json.dumps(record))
    stub = server.restart()
    server.wait_warm(stub)
    assert uid not in server.folders()


def test_agent_that_never_hears_from_a_broker_ends_itself(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(32))
    begin = time.monotonic()
    agent = subprocess.Popen(proc.with_parent(
        [program("sandbroker-agent"), "--listen-unix", str(tmp_path / "agent.sock"),
         "--secret-file", str(secret), "--backstop-ms", "500"]))
    assert agent.wait(20) == 0
    assert time.monotonic() - begin > 0.45


@pytest.mark.parametrize("point", ["launch.recorded", "launch.spawned", "launch.ready"])
def test_sandbox_whose_start_nobody_finishes_ends_itself(make_server, point):
    """The broker died at it, and no other one comes."""
    server = make_server(config=with_config(local={"start_bound": "100ms"}), own_agent=True,
                         fail_point=point, ready=False)
    server.died()
    wait_until(lambda: not server.living(), 30, "it has ended itself")


def test_warm_agents_of_a_dead_broker_end_at_their_backstop(server):
    stub = server.stub()
    server.wait_warm(stub)
    assert server.living()
    server.kill()
    wait_until(lambda: not server.living(), 30, "they have ended themselves")
    stub = server.restart()
    server.wait_warm(stub)
    assert len(server.folders()) == 1  # those of the dead are swept


def test_stop_ends_sandboxes_unless_they_are_to_be_kept(server):
    stub = server.stub()
    held = acquire(stub)
    server.wait_warm(stub)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert not server.living() and not server.folders()
    stub = server.restart()
    assert api.refused(lambda: api.get_sandbox(stub, held)).reason == "SANDBOX_GONE"


def test_kept_sandboxes_survive_a_stop_with_all_that_runs_in_them(make_server):
    server = make_server(config=with_config(drain={"keep_sandboxes": True, "grace": "0s"}),
                         own_agent=True)
    stub = server.stub()
    held = acquire(stub)
    server.wait_warm(stub)
    run = api.Exec(stub, held, "echo one; sleep 1; echo two", execution_id="e", attempt=1)
    run.wait_output(b"one\n")
    server.signal(signal.SIGTERM)
    refusal = api.refused(run.finish)
    assert refusal.reason == "SERVER_DRAINING"
    assert server.wait() == 0
    assert len(server.living()) == 2 and len(server.folders()) == 2
    stub = server.restart()
    again = api.Exec(stub, held, "echo one; sleep 1; echo two", execution_id="e", attempt=2,
                     output_offset=run.next_offset).finish()
    assert again.ready.repeated and again.stdout == b"two\n"
    assert api.capacity(stub).ready == 1


def test_broker_that_cannot_listen_leaves_everything_as_it_was(make_server):
    taken = make_server()
    server = make_server(config=CONFIG, own_agent=True)
    stub = server.stub()
    held = acquire(stub)
    server.wait_warm(stub)
    before = server.folders()
    server.kill()
    server.listen = taken.address
    server.start(ready=False)
    assert server.wait() == 4
    assert server.folders() == before
    server.listen = "127.0.0.1:0"
    stub = server.restart()
    assert api.run(stub, held, ["echo", "x"]).stdout == b"x\n"


def test_receipts_are_swept_one_retention_after_their_sandbox(make_server):
    server = make_server(config=with_config(
        server={**CONFIG["server"], "receipt_retention": "2s"}), own_agent=True)
    stub = server.stub()
    receipts = server.state_dir / "receipts"
    kept = acquire(stub, request_id="kept")
    gone = acquire(stub, request_id="gone")
    api.release(stub, gone)
    # As a broker leaves it that dies between two system calls.
    (receipts / ".left.over").write_text("x")
    assert api.refused(lambda: acquire(stub, request_id="gone")).reason == "SANDBOX_GONE"
    wait_until(lambda: len(os.listdir(receipts)) == 1, 30, "one is left")
    # Now it is a new request, as documented.
    assert api.get_sandbox(stub, acquire(stub, request_id="gone")).incarnation
    again = acquire(stub, request_id="kept")
    assert api.get_sandbox(stub, again).incarnation == api.get_sandbox(stub, kept).incarnation


def test_T105_burst_makes_no_more_sandboxes_than_asked_for(make_server):
    warm, burst = 3, count(8, 40)
    server = make_server(own_agent=True, config=with_config(
        pools={"default": {"warm": warm, "limit": burst + warm, "max_starting": 4}}))
    stub = server.stub()
    server.wait_warm(stub, warm)
    calls = [stub.Acquire.future(api.task(), timeout=api.CALL_BOUND) for _ in range(burst)]
    seen = {call.result().sandbox.incarnation for call in calls}
    assert len(seen) == burst
    server.wait_warm(stub, warm)
    assert len(server.folders()) == len(server.living()) == burst + warm
    # All of them are found again at once, and given back by label-free releases of their own.
    server.kill()
    stub = server.restart()
    assert (api.capacity(stub).claimed, api.capacity(stub).ready) == (burst, warm)
