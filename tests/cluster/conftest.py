"""`cluster` is the test cluster: the one that runs, or one for this run alone. `kube` speaks to its
API server as admin, in a namespace of the test's own that is deleted afterwards. `space` is a
namespace shared by a file, with a broker (`server`) and a pool `python` of the real agent; `cold` is
a pool without members, so always dry."""
import secrets

import pytest

from harness import api
from harness.cluster import Space, agent_template
from harness.devcluster import Devcluster, example


@pytest.fixture(scope="session")
def cluster():
    problem = Devcluster.problem()
    if problem:
        pytest.skip(f"no test cluster can run here: {problem}")
    found = Devcluster.is_running()
    yield Devcluster.up("--netpol")
    if not found:
        Devcluster.down()


@pytest.fixture
def kube(cluster):
    name = f"test-{secrets.token_hex(4)}"
    cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield cluster.admin.within(name)
    # Pods end in the background; the next test has a namespace of its own.
    cluster.admin.delete("Namespace", name)


POOLS = ("python", "cold")


@pytest.fixture(scope="module")
def space(cluster):
    one = Space(cluster)
    yield one
    one.remove()


@pytest.fixture(scope="module")
def server(space):
    """The keys are made by the first broker; templates need them."""
    one = space.broker(POOLS)
    space.publish_key()
    space.kube.apply(agent_template())
    space.pool(replicas=3)
    space.pool("cold", replicas=0)
    return one


@pytest.fixture
def stub(space, server):
    """A test begins with a full pool."""
    made = server.stub()
    space.wait_warm(made, 3)
    return made


@pytest.fixture
def sandbox(stub):
    handle = api.acquire(stub, pool="python").sandbox.sandbox_id
    yield handle
    api.release(stub, handle)


@pytest.fixture
def make_broker(space, server):
    """Another broker of the file's namespace."""
    made = []

    def make(**options):
        made.append(space.broker(POOLS, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


# For what is about pods alone: says on port 7444 which host it is and repeats what it hears.
STAND_IN = """
import socket, socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(socket.gethostname().encode() + b" ")
        for line in self.rfile:
            self.wfile.write(line)
socketserver.ThreadingTCPServer(("0.0.0.0", 7444), Echo).serve_forever()
"""


def template(command=("python3", "-c", STAND_IN), arguments=(), **metadata):
    """The example template with another program in its container."""
    made = example("template")
    made["metadata"].update(metadata)
    spec = made["spec"]["podTemplate"]["spec"]
    spec["terminationGracePeriodSeconds"] = 1
    container = spec["containers"][0]
    container["imagePullPolicy"] = "Never"
    container["command"] = list(command)
    container["args"] = list(arguments)
    return made


def public_key(text=""):
    """The object that the example template mounts."""
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "sandbroker-public-key"}, "data": {"broker.pub": text}}


@pytest.fixture
def pool(kube):
    """The example pool, with all its sandboxes ready."""
    made = example("pool")
    kube.apply(public_key(), template(), made)
    wanted = made["spec"]["replicas"]
    return kube.wait("SandboxWarmPool", made["metadata"]["name"],
                     lambda seen: (seen.get("status") or {}).get("readyReplicas") == wanted)
