"""One sandbrokerd under test, with a state directory of its own, on a free loopback port."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import grpc
import yaml

from harness import proc
from harness.wait import wait_until
from sandbroker.v1 import broker_pb2_grpc

BIN = pathlib.Path(os.environ["SANDBROKER_BIN_DIR"])

# A server hears of its child's death before any of these.
START_BOUND = 30
STOP_BOUND = 40


def program(name):
    return str(BIN / name)


def run_program(*argv, **options):
    """Runs a program of ours to its end, outputs as bytes."""
    options.setdefault("timeout", 60)
    return subprocess.run([program(argv[0]), *argv[1:]], capture_output=True, **options)


class Server:
    def __init__(self, config=None, arguments=(), ready=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sandbroker-test-"))
        self.state_dir = self.folder / "state"
        self.port_file = self.folder / "port"
        self.log_path = self.folder / "log"
        self._config = config
        self._arguments = list(arguments)
        self._channels = []
        self.process = None
        self.start(ready)

    def command(self):
        argv = [program("sandbrokerd"), "--listen", "127.0.0.1:0", "--port-file",
                str(self.port_file), "--state-dir", str(self.state_dir)]
        if self._config is not None:
            path = self.folder / "config.yaml"
            path.write_text(yaml.safe_dump(self._config))
            argv += ["--config", str(path)]
        return argv + self._arguments

    def start(self, ready=True):
        self.port_file.unlink(missing_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(proc.with_parent(self.command()), stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL)
        if ready:
            wait_until(self._serves, START_BOUND, "the port file")

    def _serves(self):
        if self.process.poll() is not None:
            raise AssertionError(f"sandbrokerd ended with {self.process.returncode}:\n{self.log()}")
        return self.port_file.exists()

    @property
    def address(self):
        return self.port_file.read_text().strip()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def channel(self, target=None):
        """A connection of its own, closed with the server."""
        channel = grpc.insecure_channel(
            target or self.address,
            options=[("grpc.use_local_subchannel_pool", 1),
                     ("grpc.max_receive_message_length", -1),
                     ("grpc.enable_http_proxy", 0)])
        self._channels.append(channel)
        return channel

    def stub(self, target=None):
        return broker_pb2_grpc.SandboxBrokerStub(self.channel(target))

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, bound=STOP_BOUND):
        return self.process.wait(bound)

    def stop(self):
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self.wait(10)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGTERM)  # the second is the quick one
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"sandbrokerd did not end on SIGTERM twice:\n{self.log()}")

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def agents(self):
        return proc.agents(self.pid)
