"""The test cluster of tools/devcluster, as the tests use it."""
import os
import pathlib
import shlex
import socket
import subprocess

import yaml

from harness import kube

ROOT = pathlib.Path(__file__).resolve().parents[4]
TOOLS = ROOT / "tools" / "devcluster"
EXAMPLES = ROOT / "charts" / "sandbroker" / "examples"
AGENT_IMAGE = "sandbroker.dev/agent:dev"

# Programs and images are built before; what remains takes seconds, or minutes on a busy machine.
UP_BOUND = 600
DOWN_BOUND = 300


def tool(name, *arguments, bound=120):
    return subprocess.run([TOOLS / name, *arguments], capture_output=True, text=True, timeout=bound)


def example(name):
    """The object in charts/sandbroker/examples/NAME.yaml."""
    return yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())


class Devcluster:
    """A running cluster; `up` makes one where there is none."""

    def __init__(self):
        shown = tool("env")
        assert shown.returncode == 0, shown.stderr
        words = shlex.split(shown.stdout)
        self.env = dict(word.split("=", 1) for word in words if "=" in word)
        self.net = self.env["DEVCLUSTER_NET"]
        self.state = pathlib.Path(self.env["DEVCLUSTER_STATE"])
        self.kubeconfig = yaml.safe_load(pathlib.Path(self.env["KUBECONFIG"]).read_text())
        self.admin = kube.Kube(self.net, self.kubeconfig)

    @staticmethod
    def is_running():
        return tool("status").returncode != 4

    @staticmethod
    def problem():
        """Why this machine can't run one, or nothing."""
        return tool("check").stdout.strip()

    @staticmethod
    def up(*options):
        """Starts it, or what is missing of it; options as tools/devcluster/up takes them."""
        done = tool("up", *options, bound=UP_BOUND)
        assert done.returncode == 0, done.stdout + done.stderr
        return Devcluster()

    @staticmethod
    def down():
        done = tool("down", bound=DOWN_BOUND)
        assert done.returncode == 0, done.stdout + done.stderr

    def has(self, option):
        return (self.state / f"option.{option}").exists()

    def command(self, argv):
        """The command for running `argv` in the cluster's network."""
        return ["nsenter", f"--net={self.net}", "--", *argv]

    def kubectl(self, *arguments, bound=60):
        return subprocess.run(
            self.command([str(self.state / "bin" / "kubectl"), *arguments]), timeout=bound,
            capture_output=True, text=True, env={**os.environ, "KUBECONFIG": self.env["KUBECONFIG"]})

    def connect(self, host, port, bound=10):
        """A TCP connection from the node to `host`, such as a pod's address."""
        with kube.inside(self.net):
            return socket.create_connection((host, port), bound)
