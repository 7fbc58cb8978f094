"""The link between broker and agent is cut under a running program, again and again: the caller sees
one stream, every byte once and one end, and nothing ran twice."""
import ctypes
import hashlib
import os
import socket
import threading

import grpc
import pytest

from harness import api
from harness.wait import count, wait_until

MIB = 2 ** 20
PIDFD_GETFD = 438


def link_sockets(broker, agents):
    """The broker's own ends of its links, taken over by pidfd_getfd(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(broker)
    found = []
    try:
        for name in os.listdir(f"/proc/{broker}/fd"):
            try:
                if not os.readlink(f"/proc/{broker}/fd/{name}").startswith("socket:"):
                    continue
            except FileNotFoundError:
                continue  # closed meanwhile
            fd = libc.syscall(PIDFD_GETFD, process, int(name), 0)
            if fd < 0:
                error = ctypes.get_errno()
                if error == 9:  # EBADF: closed meanwhile
                    continue
                raise OSError(error, os.strerror(error))
            found.append(socket.socket(fileno=fd))
    finally:
        os.close(process)
    links = []
    for one in found:
        if one.family == socket.AF_UNIX and peer_of(one) in agents:
            links.append(one)
        else:
            one.close()
    return links


def peer_of(connection):
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        return 0
    return int.from_bytes(credentials[:4], "little")


class Cutter:
    """Cuts every link of `server`; the broker sees what it sees when a connection breaks."""

    def __init__(self, server):
        self.server = server
        self.cuts = 0

    def cut(self):
        links = wait_until(lambda: link_sockets(self.server.pid, self.server.agents()), 20, "a link")
        for one in links:
            one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.cuts += 1


@pytest.fixture
def cutter(make_server):
    server = make_server(config={"pools": {"default": {"warm": 0, "limit": 2}}})
    try:
        link_sockets(server.pid, [])
    except PermissionError:
        pytest.skip("taking a descriptor of another process is not allowed here")
    return Cutter(server)


def counted(command):
    """A shell command that writes down that it ran."""
    return f"echo ran >> ran; {command}"


def until_linked(call):
    """A call that begins while the link is down is refused, and can be made again."""
    def attempt():
        try:
            return [call()]
        except grpc.RpcError as error:
            assert api.refusal(error).reason == "AGENT_UNREACHABLE", error
            return None
    return wait_until(attempt, 30, "the link is back")[0]


def runs_of(stub, sandbox):
    return until_linked(lambda: api.run(stub, sandbox, ["cat", "ran"])).stdout.count(b"ran")


# For each number it reads: as many lines from there on, each of which says where it is.
LINES = 512 * 1024 // 16
PRINT = ("while read from; do awk -v from=$from 'BEGIN { for (i = 0; i < %d; ++i) "
         "printf \"%%015d\\n\", from + i }'; done" % LINES)


def test_output_of_a_cut_link_is_whole_and_the_command_ran_once(cutter):
    stub = cutter.server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    parts = count(8, 10)
    run = api.Exec(stub, held, ["sh", "-c", counted(PRINT)], stdin=True, bound=120)
    run.wait_ready()
    for part in range(parts):
        run.write(b"%d\n" % (part * LINES))
        # The program waits for more, so it is in the middle whatever is under way.
        run.read_while(lambda: run.next_offset < (part * LINES + LINES // 4) * 16)
        cutter.cut()
    run.write(eof=True)
    run.finish()
    assert cutter.cuts == parts
    assert run.ended.exited.code == 0 and not run.gaps
    assert run.ended.output_complete and run.ended.final_offset == parts * LINES * 16
    wanted = b"".join(b"%015d\n" % line for line in range(parts * LINES))
    assert hashlib.sha256(run.stdout).hexdigest() == hashlib.sha256(wanted).hexdigest()
    assert runs_of(stub, held) == 1


def test_input_over_a_cut_link_arrives_whole_and_once(cutter):
    stub = cutter.server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    data = b"".join(b"%015d\n" % line for line in range(4 * MIB // 16))
    run = api.Exec(stub, held, ["sh", "-c", counted("sha256sum")], stdin=True, bound=120)
    run.wait_ready()
    part = len(data) // 8
    for number in range(8):
        sent = number * part
        # All but a window of what was sent has been taken, so it is under way when the link goes.
        run.read_while(lambda: run.input_limit < sent)
        run.write(data[sent:sent + part])
        cutter.cut()
    run.write(eof=True)
    run.finish()
    assert run.ended.exited.code == 0
    assert run.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert runs_of(stub, held) == 1


def test_cuts_at_any_moment_of_short_commands_give_one_end_each(cutter):
    stub = cutter.server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    api.run(stub, held, ["true"])
    stop = threading.Event()

    def keep_cutting():
        # As fast as links come back, while commands start and end.
        while not stop.is_set() and cutter.cuts < 12:
            cutter.cut()

    cutting = threading.Thread(target=keep_cutting)
    cutting.start()
    ended = []
    try:
        while cutting.is_alive():
            number = len(ended)
            # Refused, it has not run; the same id would meet it if it had.
            ended.append(until_linked(lambda: api.Exec(
                stub, held, ["sh", "-c", counted(f"echo {number}; exit {number % 7}")],
                execution_id=f"short-{number}", bound=60).finish()))
    finally:
        stop.set()
        cutting.join(60)
    assert len(ended) > 0
    for number, run in enumerate(ended):
        assert run.stdout == b"%d\n" % number and run.ended.exited.code == number % 7
    assert runs_of(stub, held) == len(ended)
