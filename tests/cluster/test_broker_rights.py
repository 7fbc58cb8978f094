"""Rights as data: charts/sandbroker/rbac.yaml is enough for a broker, and what is taken from it is
named in the error that follows."""
import copy

import pytest
import yaml

from harness import api
from harness.cluster import Space, agent_template
from harness.devcluster import EXAMPLES
from harness.wait import wait_until
from sandbroker.v1 import sandbox_pb2

ROLE = yaml.safe_load((EXAMPLES.parent / "rbac.yaml").read_text())


@pytest.fixture(scope="module")
def account(cluster):
    """A namespace with an account that has the chart's role, and a broker that runs as it."""
    place = Space(cluster)
    place.kube.create({"apiVersion": "v1", "kind": "ServiceAccount",
                       "metadata": {"name": "sandbroker"}})
    place.kube.apply(ROLE, {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "sandbroker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sandbroker"},
        "subjects": [{"kind": "ServiceAccount", "name": "sandbroker"}]})
    yield place
    place.remove()


@pytest.fixture(scope="module")
def kubeconfig(cluster, account):
    """As the administrator's, with the account's token for a user."""
    made = copy.deepcopy(cluster.kubeconfig)
    made["users"][0]["user"] = {"token": account.kube.token_of("sandbroker")}
    return made


@pytest.fixture(scope="module")
def limited(account, kubeconfig):
    one = account.broker(("python", "cold"), kubeconfig=kubeconfig)
    account.publish_key()
    account.kube.apply(agent_template())
    account.pool(replicas=1)
    account.pool("cold", replicas=0)
    stub = one.stub()
    account.wait_warm(stub, 1)
    return stub


@pytest.fixture
def without(account):
    """Takes a verb from the role for the test."""
    def take(resource, verb):
        left = copy.deepcopy(ROLE)
        for rule in left["rules"]:
            if resource in rule["resources"]:
                rule["verbs"].remove(verb)
        account.kube.apply(left)
    yield take
    account.kube.apply(ROLE)


def refused_for(stub, call):
    """The rights' change takes a moment to be seen by the API server."""
    def look():
        try:
            call()
        except api.grpc.RpcError as error:
            return api.refusal(error)
        return None
    return wait_until(look, 20, "it is refused")


def test_chart_role_is_enough_for_a_whole_life(account, limited):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(3))
    for fields in ({"pool": "python"}, {"pool": "cold"}, {"pool": "python", "request_id": "r-1"}):
        held = api.acquire(limited, lease=lease, **fields).sandbox.sandbox_id
        assert api.run(limited, held, ["echo", "here"]).stdout == b"here\n"
        result, = limited.RenewLeases(
            sandbox_pb2.RenewLeasesRequest(sandbox_ids=[held])).results
        assert result.code == 0, result
        api.release(limited, held)
    wait_until(lambda: not account.claims(), 30, "the claims are gone")


def test_role_has_no_wildcard_and_no_way_into_pods():
    for rule in ROLE["rules"]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert not {"pods/exec", "pods/attach", "pods/portforward"} & set(rule["resources"])


def give_back(stub, call):
    return lambda: api.release(stub, call().sandbox.sandbox_id)


def test_right_to_claim_that_was_taken_away_is_named(limited, without):
    without("sandboxclaims", "create")
    refusal = refused_for(limited, give_back(limited, lambda: api.acquire(limited, pool="cold")))
    assert refusal.reason == "BROKER_FORBIDDEN"
    assert "create sandboxclaims" in refusal.message


def test_right_to_write_leases_that_was_taken_away_is_named(limited, without):
    without("sandboxclaims", "patch")
    refusal = refused_for(limited, give_back(limited, lambda: api.acquire(limited, pool="cold")))
    assert refusal.reason == "BROKER_FORBIDDEN"
    assert "patch sandboxclaims" in refusal.message


def test_right_to_release_that_was_taken_away_is_named_and_release_works_later(
        account, limited, without):
    held = api.acquire(limited, pool="cold").sandbox.sandbox_id
    without("sandboxclaims", "delete")

    def forbidden():
        refusal = refused_for(limited, lambda: api.release(limited, held))
        return refusal if refusal.reason != "SANDBOX_GONE" else None
    refusal = forbidden()
    assert refusal.reason == "BROKER_FORBIDDEN" and "delete sandboxclaims" in refusal.message
    account.kube.apply(ROLE)
    wait_until(lambda: not released(limited, held), 20, "it can be released")


def released(stub, held):
    """Why not, or nothing."""
    try:
        api.release(stub, held)
    except api.grpc.RpcError as error:
        return api.refusal(error).reason
    return ""


def test_right_to_receipts_that_was_taken_away_is_named(limited, without):
    without("leases", "create")
    number = iter(range(1000))
    refusal = refused_for(limited, give_back(limited, lambda: api.acquire(
        limited, pool="cold", request_id=f"leases-{next(number)}")))
    assert refusal.reason == "BROKER_FORBIDDEN"
    assert "create leases" in refusal.message


def test_broker_without_the_right_to_look_says_so_and_serves_once_it_has_it(
        account, kubeconfig, without):
    without("pods", "list")
    one = account.broker(kubeconfig=kubeconfig, ready=False)
    wait_until(lambda: "pods: " in one.log() and "forbidden" in one.log(), 20, "it is told")
    assert not one.port_file.exists()
    account.kube.apply(ROLE)
    wait_until(one.port_file.exists, 40, "it serves")
