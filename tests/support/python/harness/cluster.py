"""Brokers on the test cluster. Each runs in the cluster's network, where pods have addresses, and is
called through its unix socket, which is the same everywhere. What belongs together is one `Space`: a
namespace, its pools with the real agent, and the brokers that share them."""
import base64
import copy
import secrets

import yaml

from harness import api
from harness.devcluster import example
from harness.server import Server
from harness.wait import wait_until
from sandbroker.v1 import sandbox_pb2

# Until a pool's pods are ready, on a busy machine.
POOL_BOUND = 90
SECRET = "sandbroker-keys"
# What a lease gets without a broker; small, so that no test waits for the defaults.
QUICK = {"min_backstop": "2s", "lease_margin": "0s", "heartbeat_interval": "500ms"}
WARM, COLD, REPEATED = (sandbox_pb2.ACQUIRE_SOURCE_WARM, sandbox_pb2.ACQUIRE_SOURCE_COLD,
                        sandbox_pb2.ACQUIRE_SOURCE_REPEATED)
WARM_ONLY, WAIT, COLD_OK = (sandbox_pb2.FALLBACK_WARM_ONLY, sandbox_pb2.FALLBACK_WAIT,
                            sandbox_pb2.FALLBACK_COLD_OK)


class ClusterServer(Server):
    """One sandbrokerd --backend kubernetes."""

    def __init__(self, cluster, namespace, pools, server=None, kubeconfig=None, **options):
        self._cluster, self._namespace = cluster, namespace
        self._kubeconfig = kubeconfig
        super().__init__(config={"server": {"backend": "kubernetes", **QUICK, **(server or {})},
                                 "pools": {"default": {"enabled": False}, **pools}}, **options)

    def command(self):
        path = self._cluster.env["KUBECONFIG"]
        if self._kubeconfig is not None:
            path = self.folder / "kubeconfig"
            path.write_text(yaml.safe_dump(self._kubeconfig))
        return self._cluster.command([*super().command(), "--kubeconfig", str(path), "--namespace",
                                      self._namespace, "--unix", str(self.folder / "socket")])

    @property
    def address(self):
        return f"unix:{self.folder / 'socket'}"


def named(thing, name):
    made = copy.deepcopy(thing)
    made["metadata"]["name"] = name
    return made


def agent_template(name="python", **container):
    """The example template, its image the one that is here and nowhere else."""
    made = named(example("template"), name)
    spec = made["spec"]["podTemplate"]["spec"]
    spec["terminationGracePeriodSeconds"] = 1
    spec["containers"][0].update({"imagePullPolicy": "Never", **container})
    return made


def warm_pool(name, replicas, template="python"):
    made = named(example("pool"), name)
    made["spec"].update(replicas=replicas, sandboxTemplateRef={"name": template})
    return made


class Space:
    def __init__(self, cluster):
        self.cluster = cluster
        self.name = f"test-{secrets.token_hex(4)}"
        cluster.admin.create({"apiVersion": "v1", "kind": "Namespace",
                              "metadata": {"name": self.name}})
        self.kube = cluster.admin.within(self.name)
        self._servers = []

    def broker(self, pools=("python",), **options):
        made = ClusterServer(self.cluster, self.name, {pool: {} for pool in pools}, **options)
        self._servers.append(made)
        return made

    def publish_key(self):
        """The public half of the key pair that a broker of this namespace has made, for pods."""
        data = self.kube.get("Secret", SECRET)["data"]
        key = base64.b64decode(data["link.pub"]).decode()
        self.kube.apply({"apiVersion": "v1", "kind": "ConfigMap",
                         "metadata": {"name": "sandbroker-public-key"},
                         "data": {"broker.pub": key}})

    def pool(self, name="python", replicas=2, **options):
        """A pool; `wait_warm` waits for its members."""
        self.kube.apply(warm_pool(name, replicas, **options))

    def wait_warm(self, stub, warm, pool="python"):
        wait_until(lambda: api.capacity(stub, pool).ready == warm, POOL_BOUND,
                   f"{warm} warm sandboxes in {pool}")

    def claims(self):
        return self.kube.list("SandboxClaim")

    def pod_of(self, stub, sandbox_id):
        """Name of its pod, as it knows itself."""
        return api.run(stub, sandbox_id, ["uname", "-n"]).stdout.decode().strip()

    def claim_of(self, pod):
        """Name of the claim that the sandbox of this name belongs to."""
        owner, = self.kube.get("Sandbox", pod)["metadata"]["ownerReferences"]
        assert owner["kind"] == "SandboxClaim"
        return owner["name"]

    def wait_gone(self, kind, name, bound=60):
        self.kube.wait(kind, name, lambda seen: seen is None, bound)

    def remove(self):
        for one in self._servers:
            one.stop()
            one.remove()
        # Pods end in the background; the next space has a namespace of its own.
        self.cluster.admin.delete("Namespace", self.name)
