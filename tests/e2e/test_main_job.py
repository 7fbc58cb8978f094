"""The main job in any language: here Python with nothing but the stubs of grpcio-tools."""
import grpc

from sandbroker.v1 import broker_pb2_grpc, execution_pb2, sandbox_pb2

SCRIPT = b"""
import sys, time
total = 0
for i in range(1, 6):
    total += i * i
    print(f"{i}: {total}", flush=True)
    print(f"warn {i}", file=sys.stderr, flush=True)
    time.sleep(0.05)
sys.exit(3)
"""


def test_main_job(server):
    with grpc.insecure_channel(server.address) as channel:
        stub = broker_pb2_grpc.SandboxBrokerStub(channel)
        acquired = stub.Acquire(sandbox_pb2.AcquireRequest(task=sandbox_pb2.TaskSource()))
        sandbox_id = acquired.sandbox.sandbox_id

        def requests():
            spec = execution_pb2.ExecutionSpec(argv=[b"python3", b"-"])
            yield execution_pb2.ExecRequest(start=execution_pb2.ExecStart(
                sandbox_id=sandbox_id, spec=spec, stdin=True))
            yield execution_pb2.ExecRequest(
                stdin=execution_pb2.ExecStdin(data=SCRIPT, eof=True))

        out = {execution_pb2.OUTPUT_STREAM_STDOUT: b"", execution_pb2.OUTPUT_STREAM_STDERR: b""}
        kinds = []
        for response in stub.Exec(requests()):
            kinds.append(response.WhichOneof("event"))
            if kinds[-1] == "output":
                out[response.output.stream] += response.output.data
        assert kinds[0] == "ready" and kinds[-1] == "ended" and kinds.count("ended") == 1
        assert response.ended.exited.code == 3
        assert out[1] == b"1: 1\n2: 5\n3: 14\n4: 30\n5: 55\n"
        assert out[2] == b"".join(b"warn %d\n" % i for i in range(1, 6))
        released = stub.Release(sandbox_pb2.ReleaseRequest(sandbox_id=sandbox_id))
        assert not released.already_gone
