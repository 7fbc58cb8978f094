"""A link whose other end is hostile: a clear error, and both broker and agent go on."""
import os
import pathlib
import signal
import struct
import subprocess

import grpc
import pytest

from harness import api, link, proc
from harness.server import program
from harness.wait import wait_until
from sandbroker.agent.v1 import link_pb2

SECRET = b"s" * 32


class Agent:
    """A real agent outside any sandbox, on a unix path."""

    def __init__(self, folder):
        self.path = folder / "agent.sock"
        (folder / "secret").write_bytes(SECRET)
        self.process = subprocess.Popen(
            proc.with_parent([program("sandbroker-agent"), "--listen-unix", str(self.path),
                              "--secret-file", str(folder / "secret"), "--workspace",
                              str(folder)], "KILL"),
            env={"PATH": os.environ["PATH"]}, stderr=subprocess.PIPE)
        wait_until(self._accepts, 10, "the agent listens")

    def _accepts(self):
        assert self.process.poll() is None, self.process.stderr.read()
        try:
            link.RawPeer(self.path).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def peer(self):
        return link.Link(self.path)

    def check_that_it_stands(self, number=[0]):
        """A good link still works, and so does a program over it."""
        number[0] += 1
        good = self.peer().handshake(SECRET)
        out, ended = good.run(1, ["echo", "stands"], f"stands-{number[0]}")
        assert out == b"stands\n" and ended.exited.code == 0 and ended.HasField("exited")
        good.close()

    def stop(self):
        """It obeys signals to end only from outside its namespace; this is inside."""
        for pid in [self.process.pid, *proc.descendants(self.process.pid)]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(20)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    one = Agent(tmp_path_factory.mktemp("agent"))
    yield one
    one.stop()


def send_before_handshake(peer, case):
    if case == "garbage":
        peer.send_raw(os.urandom(100_000))
    elif case == "http_without_upgrade":
        peer.send_raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    elif case == "endless_http_header":
        peer.send_raw(b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 1_000_000)
    elif case == "wrong_subprotocol":
        peer.upgrade("other.protocol")
    elif case == "no_subprotocol":
        peer.upgrade(None)


@pytest.mark.parametrize("case", ["garbage", "http_without_upgrade", "endless_http_header",
                                  "wrong_subprotocol", "no_subprotocol"])
def test_agent_ends_a_connection_that_is_no_link(agent, case):
    peer = agent.peer()
    try:
        send_before_handshake(peer, case)
    except (BrokenPipeError, ConnectionResetError, link.Closed):
        pass  # it was cut while we still talked
    peer.wait_closed()
    agent.check_that_it_stands()


BAD_HELLOS = {
    "wrong_secret": lambda peer: peer.broker_hello(b"x" * 32),
    "no_proof": lambda peer: peer.broker_hello(SECRET, proof=b""),
    "echoed_nonce": lambda peer: peer.broker_hello(b"x" * 32, nonce=peer.agent_hello.nonce),
    "short_nonce": lambda peer: peer.broker_hello(SECRET, nonce=b"n"),
    "other_version": lambda peer: peer.broker_hello(SECRET, version=99),
    "not_a_proto": lambda peer: peer.send(link.frame(0, link.EVENT, b"\xff" * 50)),
    "open_first": lambda peer: peer.start(1, ["touch", "must-not-run"], "early"),
    "text_message": lambda peer: peer.send(b"text", link.TEXT),
    "too_short": lambda peer: peer.send(b"abc"),
    "oversized": lambda peer: peer.send(link.frame(0, link.EVENT, bytes(6 << 20))),
}


@pytest.mark.parametrize("case", BAD_HELLOS)
def test_agent_refuses_a_spoiled_handshake(agent, case):
    peer = agent.peer()
    peer.hello()
    try:
        BAD_HELLOS[case](peer)
    except (BrokenPipeError, ConnectionResetError):
        pass
    peer.wait_closed()
    assert not (agent.path.parent / "must-not-run").exists()
    agent.check_that_it_stands()


def test_agent_gives_half_a_handshake_only_so_long(agent):
    silent, half = agent.peer(), agent.peer()
    half.hello()
    agent.check_that_it_stands()  # not behind them
    silent.wait_closed()
    half.wait_closed()


def number(value):
    return struct.pack("<Q", value)


BAD_FRAMES = {
    "unknown_kind": lambda peer: peer.send(link.frame(1, 99)),
    "reserved_bytes": lambda peer: peer.send(link.frame(1, link.ACK, number(0), reserved=1)),
    "too_short": lambda peer: peer.send(b"1234567"),
    "empty": lambda peer: peer.send(b""),
    "text_message": lambda peer: peer.send(b"text", link.TEXT),
    "oversized_data": lambda peer: peer.send(link.data_frame(1, 0, bytes((256 << 10) + 1))),
    "oversized_message": lambda peer: peer.send(link.frame(1, link.OPEN, bytes(6 << 20))),
    "credit_overrun": lambda peer: [peer.send(link.data_frame(1, at << 17, bytes(1 << 17)))
                                    for at in range(128)],
    "cut_address": lambda peer: peer.send(link.frame(1, link.DATA, b"12345678")),
    "offset_wraps": lambda peer: peer.send(link.data_frame(1, 2 ** 64 - 1, b"xx")),
    "end_of_the_wrong_side": lambda peer: peer.send(link.frame(1, link.END)),
    "never_opened": lambda peer: peer.send(link.frame(77, link.ACK, number(0))),
    "opened_twice": lambda peer: peer.start(1, ["true"], "twice"),
    "credit_of_nine_bytes": lambda peer: peer.send(link.frame(1, link.CREDIT, bytes(9))),
    "data_on_stream_0": lambda peer: peer.send(link.data_frame(0, 0, b"x")),
    "control_not_a_proto": lambda peer: peer.send(link.frame(0, link.EVENT, b"\xff" * 50)),
    "command_not_a_proto": lambda peer: peer.send(link.frame(1, link.EVENT, b"\xff" * 50)),
    "second_hello": lambda peer: peer.broker_hello(SECRET),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_agent_ends_a_link_that_breaks_the_rules(agent, case):
    peer = agent.peer().handshake(SECRET)
    peer.start(1, ["sleep", "1000"], f"held-{case}", stdin=True, timeout_ns=60 * 10 ** 9)
    assert peer.stream_frame(1)[0] == link.EVENT
    try:
        BAD_FRAMES[case](peer)
    except (BrokenPipeError, ConnectionResetError):
        pass
    reset = peer.wait_closed()
    assert reset is None or reset.message
    agent.check_that_it_stands()


BAD_STARTS = {
    "no_argv": {"argv": []}, "bad_id": {"execution_id": "a b"}, "empty_id": {"execution_id": ""},
    "nul_in_argv": {"argv": ["a\0b"]}, "negative_timeout": {"timeout_ns": -1},
    "other_incarnation": {"boot_id": "f" * 32},
}


@pytest.mark.parametrize("case", BAD_STARTS)
def test_agent_refuses_a_bad_start_and_keeps_the_link(agent, case):
    peer = agent.peer().handshake(SECRET)
    fields = {"execution_id": f"bad-{case}", "argv": ["true"],
              "boot_id": peer.agent_hello.boot_id, **BAD_STARTS[case]}
    fields["argv"] = [arg.encode() for arg in fields["argv"]]
    opened = link_pb2.Open(start=link_pb2.Start(
        spec_hash=bytes(32), reader=link_pb2.Reader(holder="t", attempt=1), **fields))
    peer.send(link.frame(1, link.OPEN, opened.SerializeToString()))
    kind, payload = peer.stream_frame(1)
    assert kind == link.RESET
    assert link_pb2.Reset.FromString(payload).reason
    assert peer.run(2, ["echo", "next"], f"next-{case}")[0] == b"next\n"
    peer.close()


def hostile_server(make_server, tmp_path, mode):
    """A server whose sandboxes hold a hostile agent instead of ours."""
    text = (pathlib.Path(__file__).parent / "hostile_agent.py").read_text()
    path = tmp_path / "hostile-agent"
    path.write_text(text.replace("@MODE@", mode))
    path.chmod(0o755)
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)
    return make_server(
        arguments=["--agent", str(path), "--start-bound", "1s"],
        config={"server": {"heartbeat_interval": "500ms"}, "local": {"relink_bound": "1s"},
                "pools": {"default": {"warm": 0, "limit": 4}}})


@pytest.mark.parametrize("mode", ["garbage", "no_upgrade", "silent", "oversized", "half_handshake",
                                  "other_version", "early_frame", "endless_header", "wrong_proof"])
def test_broker_refuses_a_sandbox_whose_agent_is_no_agent(make_server, tmp_path, mode):
    server = hostile_server(make_server, tmp_path, mode)
    stub = server.stub()
    refusal = api.refused(lambda: api.acquire(stub, wait_bound=api.duration(1.5)))
    assert refusal.code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED,
                            grpc.StatusCode.UNAVAILABLE), refusal
    assert refusal.reason in ("NOT_READY", "POOL_EXHAUSTED", "AGENT_UNREACHABLE"), refusal
    assert api.capacity(stub).last_error
    assert proc.rss_kib(server.pid) < 200 * 1024
    assert api.server_info(stub).version


@pytest.mark.parametrize("mode", ["credit_overrun", "unknown_kind", "bad_proto", "never_opened",
                                  "cut_data", "hole", "wrong_side", "bad_fd"])
def test_broker_ends_a_link_that_breaks_the_rules(make_server, tmp_path, mode):
    server = hostile_server(make_server, tmp_path, mode)
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    try:
        ended = api.Exec(stub, held, ["true"], bound=30).finish().ended
        assert api.end_of(ended) in ("agent_lost", "outcome_unknown", "sandbox_gone"), ended
        assert not ended.HasField("exited")
    except grpc.RpcError as error:
        refusal = api.refusal(error)
        assert refusal.reason in ("AGENT_UNREACHABLE", "INTERNAL", "SANDBOX_GONE"), refusal
    assert api.server_info(stub).version


def test_broker_takes_one_end_and_no_second(make_server, tmp_path):
    server = hostile_server(make_server, tmp_path, "two_ends")
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    assert api.Exec(stub, held, ["true"], bound=30).finish().ended.exited.code == 0
    assert api.server_info(stub).version


def test_T25_silent_agent_is_found_by_heartbeats(make_server, tmp_path):
    server = hostile_server(make_server, tmp_path, "mute")
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    ended = api.Exec(stub, held, ["true"], bound=30).finish().ended
    assert api.end_of(ended) in ("agent_lost", "outcome_unknown")
