"""Calls by the plain generated stubs, and what every stream of Exec must look like."""
import dataclasses
import queue

import grpc
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2

from sandbroker.v1 import broker_pb2, execution_pb2, sandbox_pb2

# No test waits longer for one call.
CALL_BOUND = 120


def duration(seconds):
    value = duration_pb2.Duration()
    value.FromNanoseconds(int(seconds * 1e9))
    return value


def to_bytes(value):
    return value if isinstance(value, bytes) else value.encode()


def spec(argv, **fields):
    if isinstance(argv, str):
        argv = ["sh", "-c", argv]
    env = [sandbox_pb2.EnvironmentVariable(name=to_bytes(name), value=to_bytes(value))
           for name, value in fields.pop("env", {}).items()]
    return execution_pb2.ExecutionSpec(argv=[to_bytes(arg) for arg in argv], env=env, **fields)


def task(pool="", **fields):
    env = [sandbox_pb2.EnvironmentVariable(name=to_bytes(name), value=to_bytes(value))
           for name, value in fields.pop("env", {}).items()]
    return sandbox_pb2.AcquireRequest(task=sandbox_pb2.TaskSource(pool=pool), env=env, **fields)


def acquire(stub, **fields):
    return stub.Acquire(task(**fields), timeout=CALL_BOUND)


def get_sandbox(stub, sandbox_id):
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=sandbox_id)
    return stub.GetSandbox(request, timeout=CALL_BOUND).sandbox


def release(stub, sandbox_id):
    return stub.Release(sandbox_pb2.ReleaseRequest(sandbox_id=sandbox_id), timeout=CALL_BOUND)


def run(stub, sandbox_id, argv, stdin=b"", output_cap=None, execution_id="", **fields):
    """argv as a list, or a text for sh -c."""
    request = execution_pb2.RunRequest(sandbox_id=sandbox_id, spec=spec(argv, **fields),
                                       stdin=stdin, execution_id=execution_id)
    if output_cap is not None:
        request.output_cap = output_cap
    return stub.Run(request, timeout=CALL_BOUND)


def capacity(stub, pool="default"):
    request = sandbox_pb2.ReadTaskCapacityRequest(pool=pool)
    return stub.ReadTaskCapacity(request, timeout=CALL_BOUND).pools[0]


@dataclasses.dataclass
class Refusal:
    """An error of the contract, taken apart."""
    code: grpc.StatusCode
    reason: str
    domain: str
    message: str
    fields: list
    retry: float | None


def refusal(error):
    """Every error of the service is a google.rpc.Status with ErrorInfo."""
    trailers = dict(error.trailing_metadata() or ())
    details = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), None
    for packed in details.details:
        if packed.Unpack(info) or packed.Unpack(bad):
            continue
        delay = error_details_pb2.RetryInfo()
        if packed.Unpack(delay):
            retry = delay.retry_delay.ToNanoseconds() / 1e9
    return Refusal(error.code(), info.reason, info.domain, error.details(),
                   [violation.field for violation in bad.field_violations], retry)


def refused(call):
    """The refusal that `call` meets; a test that gets none fails."""
    try:
        call()
    except grpc.RpcError as error:
        return refusal(error)
    raise AssertionError("the call was not refused")


def end_of(ended):
    """Name of the reason: "exited", "agent_lost", ..."""
    return ended.WhichOneof("reason")


class Exec:
    """One Exec call. Requests go through a queue; `events` checks the order as it hands on."""

    def __init__(self, stub, sandbox_id, argv, stdin=False, execution_id="", attempt=0,
                 output_offset=0, bound=CALL_BOUND, **fields):
        self._requests = queue.SimpleQueue()
        self.call = stub.Exec(iter(self._requests.get, None), timeout=bound)
        self.out = {1: bytearray(), 2: bytearray()}
        self.ready = None
        self.ended = None
        self.gaps = []
        self.warnings = []
        self.input_closed = None
        self.input_limit = 0
        self.next_offset = output_offset
        self._iterator = self._checked()
        start = execution_pb2.ExecStart(sandbox_id=sandbox_id, spec=spec(argv, **fields),
                                        stdin=stdin, execution_id=execution_id, attempt=attempt,
                                        output_offset=output_offset)
        self.send(start=start)

    def send(self, **message):
        self._requests.put(execution_pb2.ExecRequest(**message))

    def write(self, data=b"", eof=False, offset=None):
        stdin = execution_pb2.ExecStdin(data=data, eof=eof)
        if offset is not None:
            stdin.offset = offset
        self.send(stdin=stdin)

    def write_all(self, data, chunk=256 * 1024):
        for at in range(0, len(data), chunk):
            self.write(data[at:at + chunk])
        self.write(eof=True)

    def signal(self, number):
        self.send(signal=execution_pb2.ExecSignal(number=number))

    def cancel_program(self, grace=None):
        cancel = execution_pb2.ExecCancel()
        if grace is not None:
            cancel.kill_grace.CopyFrom(duration(grace))
        self.send(cancel=cancel)

    def half_close(self):
        self._requests.put(None)

    def drop(self):
        """Loses the call, as a client that goes away does."""
        self.call.cancel()
        self._requests.put(None)

    def __iter__(self):
        return self._iterator

    def _checked(self):
        for response in self.call:
            kind = response.WhichOneof("event")
            event = getattr(response, kind)
            assert self.ended is None, f"{kind} after ended"
            assert (kind == "ready") == (self.ready is None), f"{kind} is out of its place"
            self._account(kind, event)
            yield kind, event
        assert self.ended is not None, "the call ended OK without `ended`"
        self._requests.put(None)

    def _account(self, kind, event):
        if kind == "ready":
            self.ready = event
            self.input_limit = event.input_limit
        elif kind == "output":
            assert event.offset == self.next_offset, "output has a hole or comes twice"
            self.next_offset += len(event.data)
            self.out[event.stream] += event.data
        elif kind == "gap":
            assert event.from_offset == self.next_offset and event.to_offset > event.from_offset
            self.next_offset = event.to_offset
            self.gaps.append(event)
        elif kind == "warning":
            self.warnings.append(event)
        elif kind == "input_closed":
            self.input_closed = event
        elif kind == "input_window":
            assert event.limit >= self.input_limit, "the window shrank"
            self.input_limit = event.limit
        elif kind == "ended":
            self.ended = event
            if event.output_complete:
                assert event.final_offset == self.next_offset, "a tail is missing"

    def wait_for(self, kind, where=lambda event: True):
        for seen, event in self:
            if seen == kind and where(event):
                return event
        raise AssertionError(f"the stream ended without {kind}")

    def wait_ready(self):
        return self.ready or self.wait_for("ready")

    def wait_output(self, text, fd=1):
        """Reads on until `text` was printed."""
        self.read_while(lambda: text not in self.out[fd])

    def read_while(self, condition):
        while condition():
            next(self._iterator)

    def finish(self):
        """Reads to the end; answers self."""
        for _ in self:
            pass
        return self

    @property
    def stdout(self):
        return bytes(self.out[1])

    @property
    def stderr(self):
        return bytes(self.out[2])


def server_info(stub):
    return stub.GetServerInfo(broker_pb2.GetServerInfoRequest(), timeout=CALL_BOUND)
