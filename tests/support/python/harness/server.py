"""One sandbrokerd under test, with a state directory of its own, on a free loopback port."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import grpc
import yaml

from harness import api, proc
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
    """`own_agent`: with an agent file of its own, so that its sandboxes are found when it is dead."""

    def __init__(self, config=None, arguments=(), ready=True, own_agent=False, fail_point=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sandbroker-test-"))
        self.state_dir = self.folder / "state"
        self.port_file = self.folder / "port"
        self.log_path = self.folder / "log"
        self._config = config
        self._arguments = list(arguments)
        self._channels = []
        self.process = None
        self.listen = "127.0.0.1:0"
        self._agent = None
        if own_agent:
            self._agent = self.folder / "agent" / "sandbroker-agent"
            self._agent.parent.mkdir()
            self.folder.chmod(0o755)
            shutil.copy2(program("sandbroker-agent"), self._agent)
            self._arguments += ["--agent", str(self._agent)]
        self.start(ready, fail_point)

    def command(self):
        argv = [program("sandbrokerd"), "--listen", self.listen, "--port-file",
                str(self.port_file), "--state-dir", str(self.state_dir)]
        if self._config is not None:
            path = self.folder / "config.yaml"
            path.write_text(yaml.safe_dump(self._config))
            argv += ["--config", str(path)]
        return argv + self._arguments

    def configure(self, config):
        """For the next start."""
        self._config = config

    def start(self, ready=True, fail_point=None):
        """`fail_point`: NAME or NAME:NTH, where it ends as by kill -9 (lib/base/fail_point.h)."""
        self.port_file.unlink(missing_ok=True)
        environment = dict(os.environ, SANDBROKER_FAIL_POINT=fail_point or "")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(proc.with_parent(self.command()), stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, env=environment)
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

    def kill(self):
        """Ends it as nothing can be prepared for."""
        self.process.kill()
        self.died()

    def died(self, bound=60):
        """Waits until it was killed, by us or at its fail point."""
        assert self.wait(bound) == -signal.SIGKILL, self.log()[-4000:]
        for channel in self._channels:
            channel.close()
        self._channels.clear()

    def restart(self, **options):
        """Another broker on the same state directory; answers a stub of it."""
        self.start(**options)
        return self.stub()

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
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def agents(self):
        return proc.agents(self.pid)

    def living(self):
        """Agents of this server's sandboxes, whoever started them (own_agent only)."""
        return proc.running(self._agent) if self._agent else []

    def folders(self):
        """Names of the sandboxes that the state directory knows."""
        path = self.state_dir / "sandboxes"
        return sorted(os.listdir(path)) if path.exists() else []

    def wait_warm(self, stub, warm=1):
        """So many warm ones, and their records say so: a call made now meets no other writing."""
        wait_until(lambda: api.capacity(stub).ready == warm, 20, "the pool is warm")
        wait_until(lambda: [r["phase"] for r in self.records().values()].count("warm") == warm, 20,
                   "written down")

    def records(self):
        """Their state files, read."""
        found = {}
        for uid in self.folders():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
                found[uid] = json.loads(
                    (self.state_dir / "sandboxes" / uid / "state.json").read_text())
        return found
