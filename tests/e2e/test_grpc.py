"""gRPC itself: many streams on a connection, cancelled calls, built-in services, soak."""
import asyncio
import concurrent.futures

import grpc
import grpc.aio

from harness import api, proc
from harness.wait import count, wait_until
from sandbroker.v1 import broker_pb2_grpc, execution_pb2


def start(sandbox, argv, **fields):
    return execution_pb2.ExecRequest(start=execution_pb2.ExecStart(
        sandbox_id=sandbox, spec=api.spec(argv), **fields))


def run_async(server, body):
    async def session():
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(server.address, options=options) as channel:
            await body(broker_pb2_grpc.SandboxBrokerStub(channel))

    asyncio.run(asyncio.wait_for(session(), 180))


def test_T130_500_execs_are_open_on_one_connection_at_once(server, stub):
    """All of them are answered while all of them are open: none queues behind the 100th. In four
    sandboxes, since each reserves its output window in the memory of its agent."""
    held = [api.acquire(stub).sandbox.sandbox_id for _ in range(4)]

    async def body(stub):
        calls = [stub.Exec() for _ in range(500)]
        for number, call in enumerate(calls):
            await call.write(start(held[number % 4], ["cat"], stdin=True))
        for call in calls:
            assert (await call.read()).WhichOneof("event") == "ready"
        for number, call in enumerate(calls):
            await call.write(execution_pb2.ExecRequest(
                stdin=execution_pb2.ExecStdin(data=b"%d" % number, eof=True)))
        for number, call in enumerate(calls):
            out = b""
            while (event := await call.read()) is not grpc.aio.EOF:
                out += event.output.data
                last = event
            assert out == b"%d" % number and last.ended.exited.code == 0

    run_async(server, body)
    for sandbox in held:
        api.release(stub, sandbox)


def answers(stub, sandbox):
    try:
        return api.run(stub, sandbox, ["echo", "answers"]).stdout == b"answers\n"
    except grpc.RpcError as error:
        assert api.refusal(error).reason == "CAPACITY"
        return False


def test_T131_storm_of_cancelled_calls_leaves_nothing(server, stub, sandbox):
    """Calls are cut before, between and after their events; the server answers and holds none."""
    rounds = count(10, 100)

    async def body(stub):
        async def one(number):
            call = stub.Exec()
            try:
                await call.write(start(sandbox, "yes | head -c 200000; sleep 0.01", stdin=True))
                for _ in range(number % 5):
                    await call.read()
            finally:
                call.cancel()

        for _ in range(rounds):
            results = await asyncio.gather(*(one(i) for i in range(50)), return_exceptions=True)
            assert not [r for r in results if isinstance(r, AssertionError)]

    # Each warm sandbox has descriptors, and one is on its way in the place of ours.
    wait_until(lambda: (seen := api.capacity(stub)).ready == seen.wanted, 20, "the pool is full")
    fds = proc.open_fds(server.pid)
    run_async(server, body)
    assert api.server_info(stub).version
    # The agent keeps what a lost reader may come back for, and refuses more starts than it can.
    wait_until(lambda: answers(stub, sandbox), 90, "programs run again")
    # What was started runs to its end by itself; then nothing of the storm is held.
    wait_until(lambda: api.run(stub, sandbox, "ls -d /proc/[0-9]* | wc -l").stdout.strip()
               in (b"3", b"4", b"5"), 60, "no program left")
    wait_until(lambda: proc.open_fds(server.pid) <= fds + 2, 30, "no fd of a call left")


def test_T131_unary_calls_can_be_cut(server, stub, sandbox):
    calls = [stub.Run.future(execution_pb2.RunRequest(
        sandbox_id=sandbox, spec=api.spec(["sleep", "0.05"]))) for _ in range(100)]
    for call in calls[::2]:
        call.cancel()
    for call in calls[1::2]:
        assert call.result(60).ended.exited.code == 0


# 20,000 programs nobody reads; CI 600.
def test_T138_programs_without_a_reader_cost_no_memory_and_no_time(server, stub, sandbox):
    def unread(number):
        run = api.Exec(stub, sandbox, "head -c 100000 /dev/zero", bound=30)
        if number % 2:
            run.wait_ready()
        run.drop()

    def soak(times):
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(unread, range(times)))
        wait_until(lambda: api.run(stub, sandbox, "ls -d /proc/[0-9]* | wc -l").stdout.strip()
                   in (b"3", b"4", b"5"), 60, "all of them ended")

    pids = [server.pid, *server.agents()]
    soak(count(400, 4000))
    before = {pid: proc.rss_kib(pid) for pid in pids}
    soak(count(600, 20_000))
    grown = {pid: proc.rss_kib(pid) - before[pid] for pid in pids}
    assert grown[server.pid] <= 32 * 1024, grown
    # The agent keeps ended logs for a re-attach, within its budget.
    assert max(grown.values()) <= 280 * 1024, grown
    idle = [proc.cpu_seconds(pid) for pid in pids]
    api.run(stub, sandbox, ["sleep", "1"])
    busy = sum(proc.cpu_seconds(pid) for pid in pids) - sum(idle)
    assert busy <= 0.2, f"{busy} s of CPU in an idle second"


def raw_unary(channel, method, request=b""):
    call = channel.unary_unary(method, request_serializer=None, response_deserializer=None)
    return call(request, timeout=20)


def test_health_is_served_and_watched(server):
    channel = server.channel()
    assert raw_unary(channel, "/grpc.health.v1.Health/Check") == b"\x08\x01"
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", request_serializer=None,
                                 response_deserializer=None)(b"", timeout=20)
    assert next(watch) == b"\x08\x01"
    watch.cancel()


def test_reflection_lists_the_service(server):
    channel = server.channel()
    call = channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        request_serializer=None, response_deserializer=None)(iter([b"\x3a\x00"]), timeout=20)
    assert b"sandbroker.v1.SandboxBroker" in next(call)


def test_channelz_answers(server):
    reply = raw_unary(server.channel(), "/grpc.channelz.v1.Channelz/GetServers")
    assert len(reply) > 0


def test_server_info_tells_version_limits_and_abilities(server, stub):
    info = api.server_info(stub)
    assert info.version and info.replica_id
    assert [backend.name for backend in info.backends] == ["local"]
    assert "default" in info.backends[0].pools and info.backends[0].capabilities
    assert info.limits.max_output_chunk_bytes == 256 * 1024
    assert info.limits.default_log_bytes == 16 * 2 ** 20
    assert info.limits.window_bytes == 2 ** 20 and info.limits.max_run_output_bytes == 2 ** 20


def test_message_out_of_place_is_refused_by_name(stub, sandbox):
    for requests, field in [
            ([], "start"), ([execution_pb2.ExecRequest()], "message"),
            ([execution_pb2.ExecRequest(signal=execution_pb2.ExecSignal(number=9))], "start"),
            ([start(sandbox, ["true"]), start(sandbox, ["true"])], "start"),
            ([start(sandbox, ["sleep", "9"]),
              execution_pb2.ExecRequest(signal=execution_pb2.ExecSignal(number=65))], "signal")]:
        def call(messages=tuple(requests)):
            for _ in stub.Exec(iter(messages), timeout=20):
                pass
            return None
        if field == "start" and len(requests) == 2:
            continue  # `true` may have ended before the second start was read
        refusal = api.refused(call)
        assert refusal.reason == "FIELD_INVALID" and refusal.fields[0].startswith(field)
