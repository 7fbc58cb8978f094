"""The server as a program: files, flags, one state directory each, admin port, unix socket."""
import json
import os
import re
import socket
import stat
import urllib.error
import urllib.request

import grpc
import pytest

from harness import api
from harness.server import run_program
from sandbroker.v1 import broker_pb2_grpc


def check(tmp_path, text, *arguments):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return run_program("sandbrokerd", "--config", str(path), "--state-dir",
                       str(tmp_path / "state"), *arguments)


@pytest.mark.parametrize("text, line", [
    ("server:\n  listen: 127.0.0.1:0\n  no_such_key: 1\n", 3), ("no_such_section:\n  a: 1\n", 1),
    ("pools:\n  default:\n    warm: 1\n    wram: 1\n", 4),
    ("templates:\n  default:\n    tpm: 1MiB\n", 3)])
def test_unknown_key_is_refused_with_file_and_line(tmp_path, text, line):
    done = check(tmp_path, text, "--check-config")
    assert done.returncode not in (0, 1)
    assert f"config.yaml:{line}".encode() in done.stderr, done.stderr
    assert check(tmp_path, text).returncode == done.returncode  # serving refuses it as well


@pytest.mark.parametrize("text, words", [
    ("server:\n  listen: 0.0.0.0:7443\n", "loopback"), ("server:\n  listen: [1]\n", "listen"),
    ("server:\n  heartbeat_interval: soon\n", "heartbeat_interval"), ("a: [\n", "config.yaml"),
    ("pools:\n  p:\n    template: nowhere\n", "nowhere"),
    ("pools:\n  p:\n    warm: 9\n    limit: 3\n", "warm"), ("log:\n  format: xml\n", "format")])
def test_bad_value_is_refused_by_name(tmp_path, text, words):
    done = check(tmp_path, text, "--check-config")
    assert done.returncode not in (0, 1) and words.encode() in done.stderr, done.stderr


def test_good_configuration_is_checked_and_printed(tmp_path):
    text = "pools:\n  large:\n    warm: 0\n    limit: 3\n"
    assert check(tmp_path, text, "--check-config").returncode == 0
    printed = check(tmp_path, text, "--print-config", "--heartbeat-interval", "7s")
    assert printed.returncode == 0
    assert b"large:" in printed.stdout and b"heartbeat_interval: 7s" in printed.stdout
    # What is printed is a configuration.
    assert check(tmp_path, printed.stdout.decode(), "--check-config").returncode == 0


def test_version_and_unknown_flag():
    assert re.search(rb"\d+\.\d+\.\d+", run_program("sandbrokerd", "--version").stdout)
    assert run_program("sandbrokerd", "--no-such-flag").returncode not in (0, 1)


def test_port_file_appears_whole_once_the_server_serves(make_server):
    server = make_server()
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", server.port_file.read_text())
    assert api.server_info(server.stub()).version
    server.stop()
    assert server.process.returncode == 0


def test_second_server_on_one_state_directory_is_refused(server):
    done = run_program("sandbrokerd", "--listen", "127.0.0.1:0", "--state-dir",
                       str(server.state_dir))
    assert done.returncode not in (0, 1) and str(server.state_dir).encode() in done.stderr
    assert api.server_info(server.stub()).version


def test_state_directory_is_private_and_key_survives(make_server):
    server = make_server()
    assert stat.S_IMODE(os.stat(server.state_dir / "key").st_mode) == 0o600
    held = api.acquire(server.stub()).sandbox.sandbox_id
    server.stop()
    server.start()
    # Another life of the server: the handle is genuine, its sandbox is gone.
    refusal = api.refused(lambda: api.run(server.stub(), held, ["true"]))
    assert refusal.reason in ("SANDBOX_GONE", "AGENT_UNREACHABLE"), refusal


def test_receipt_survives_a_restart(make_server):
    server = make_server()
    api.acquire(server.stub(), request_id="before")
    server.stop()
    server.start()
    stub = server.stub()
    refusal = api.refused(lambda: api.acquire(stub, request_id="before"))
    assert refusal.reason == "SANDBOX_GONE"
    reused = api.refused(lambda: api.acquire(stub, request_id="before", labels={"a": "b"}))
    assert reused.reason == "REQUEST_ID_REUSED"


def fetch(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_admin_port_serves_metrics_and_health(make_server):
    admin = f"127.0.0.1:{free_port()}"
    server = make_server(arguments=["--admin", admin])
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    api.run(stub, held, ["true"])
    assert fetch(admin, "/healthz")[0] == 200 and fetch(admin, "/readyz")[0] == 200
    status, text = fetch(admin, "/metrics")
    assert status == 200
    assert re.search(r'sandbroker_executions_total\{end="exited"\} 1\b', text)
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines()
             if line and not line.startswith("#")}
    assert all(name.startswith("sandbroker_") for name in names)
    assert fetch(admin, "/nothing")[0] == 404
    with socket.create_connection(tuple(admin.split(":"))) as garbage:
        garbage.sendall(b"\x16\x03\x01 garbage\r\n\r\n" + b"x" * 100_000)
    assert fetch(admin, "/healthz")[0] == 200


def test_unix_socket_serves_the_api(make_server, tmp_path):
    path = tmp_path / "api.sock"
    server = make_server(arguments=["--unix", str(path)])
    assert api.server_info(server.stub(f"unix:{path}")).version
    assert stat.S_IMODE(os.stat(path).st_mode) & 0o007 == 0
    server.stop()
    assert not path.exists()


def test_json_log_is_one_object_a_line_without_secrets(make_server):
    server = make_server(arguments=["--log-format", "json", "--log-level", "debug"])
    stub = server.stub()
    held = api.acquire(stub, env={"TOKEN": "canary-env"}).sandbox.sandbox_id
    api.run(stub, held, ["echo", "canary-argv"], stdin=b"canary-stdin",
            env={"OTHER": "canary-spec-env"})
    api.release(stub, held)
    server.stop()
    lines = server.log().splitlines()
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict)
    assert "canary" not in server.log()


def test_missing_agent_is_told_at_start(tmp_path):
    done = run_program("sandbrokerd", "--listen", "127.0.0.1:0", "--state-dir",
                       str(tmp_path / "state"), "--agent", str(tmp_path / "nowhere"))
    assert done.returncode not in (0, 1) and b"nowhere" in done.stderr


def test_missing_bubblewrap_is_refused_with_its_remedy(tmp_path):
    done = run_program("sandbrokerd", "--listen", "127.0.0.1:0", "--state-dir",
                       str(tmp_path / "state"), "--bwrap", str(tmp_path / "no-bwrap"))
    assert done.returncode not in (0, 1)
    assert b"no-bwrap" in done.stderr and b"install" in done.stderr.lower()


def test_busy_port_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        done = run_program("sandbrokerd", "--listen", address, "--state-dir",
                           str(tmp_path / "state"))
    assert done.returncode not in (0, 1) and address.encode() in done.stderr


def test_garbage_on_the_api_port_ends_that_connection_alone(server):
    host, _, port = server.address.rpartition(":")
    for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(65536),
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 70000):
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            peer.settimeout(10)
            try:
                peer.sendall(data)
                while peer.recv(65536):
                    pass
            except (ConnectionError, TimeoutError):
                pass
    assert api.server_info(server.stub()).version
    raw = server.channel().unary_unary("/sandbroker.v1.SandboxBroker/Run",
                                       request_serializer=None, response_deserializer=None)
    with pytest.raises(grpc.RpcError):
        raw(b"\xff\xff\xff not a message", timeout=10)
    assert broker_pb2_grpc.SandboxBrokerStub(server.channel()) and api.server_info(server.stub())
