"""The test cluster is a real one: what the other cluster tests take for granted."""
import pytest

from harness.devcluster import AGENT_IMAGE
from harness.kube import Refused, condition, is_ready

HARDENED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True}


def pod(name, script, **security):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"name": name}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "automountServiceAccountToken": False,
                     "securityContext": {"runAsNonRoot": True, "runAsUser": 1000,
                                         "seccompProfile": {"type": "RuntimeDefault"}},
                     "containers": [{"name": "c", "image": AGENT_IMAGE, "imagePullPolicy": "Never",
                                     "command": ["sh", "-c", script],
                                     "securityContext": {**HARDENED, **security}}]}}


def phase(*wanted):
    return lambda seen: (seen.get("status") or {}).get("phase") in wanted


def warm_members(kube):
    return {one["metadata"]["name"]: one for one in kube.list("Sandbox")}


def claim(name):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
            "metadata": {"name": name}, "spec": {"warmPoolRef": {"name": "python"},
                                                 "additionalPodMetadata": {}}}


def hear(cluster, address, say):
    """What the stand-in at `address` answers to one line."""
    with cluster.connect(address, 7444) as link:
        link.sendall(say)
        with link.makefile("rb") as answers:
            return answers.readline()


def test_node_is_ready_and_the_controllers_answer(cluster):
    nodes = cluster.admin.list("Node")
    assert len(nodes) == 1 and is_ready(nodes[0])
    assert nodes[0]["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")
    for group in ("sandboxes.agents.x-k8s.io", "sandboxclaims.extensions.agents.x-k8s.io"):
        seen = cluster.admin.get("CustomResourceDefinition", group)
        assert condition(seen, "Established")["status"] == "True"


def test_hardened_pod_runs_without_any_right(kube):
    kube.create(pod("hardened", "id -u; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status;"
                                " touch /file 2>/dev/null; echo $?; python3 -c 'print(6 * 7)'"))
    ended = kube.wait("Pod", "hardened", phase("Succeeded", "Failed"))
    lines = kube.log("hardened").splitlines()
    assert ended["status"]["phase"] == "Succeeded", lines
    assert lines[0] == "1000"
    facts = dict(line.split(":\t") for line in lines if ":\t" in line)
    none = "0" * 16
    assert facts == {"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
                     "NoNewPrivs": "1", "Seccomp": "2"}
    assert lines[-2:] == ["1", "42"]  # the root is read-only, Python is there


def test_pod_over_its_memory_limit_is_said_to_be_oom_killed(kube):
    greedy = pod("greedy", "exec python3 -c 'x = bytearray(1 << 28)'")
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"memory": "32Mi"}}
    kube.create(greedy)
    ended = kube.wait("Pod", "greedy", phase("Succeeded", "Failed"))
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("OOMKilled", 137)


def test_pool_of_two_becomes_ready_and_a_claim_gets_one_of_them(kube, pool):
    members = warm_members(kube)
    assert len(members) == 2 and all(is_ready(one) for one in members.values())

    kube.create(claim("c1"))
    bound = kube.wait("SandboxClaim", "c1", is_ready)

    name = bound["status"]["sandbox"]["name"]
    assert name in members  # warm: it was there before the claim
    owner = kube.get("Sandbox", name)["metadata"]["ownerReferences"][0]
    assert owner["uid"] == bound["metadata"]["uid"]
    assert kube.get("Pod", name)["status"]["podIP"] in bound["status"]["sandbox"]["podIPs"]


def test_pod_of_a_sandbox_is_reached_by_its_address(cluster, kube, pool):
    for name, sandbox in warm_members(kube).items():
        answer = hear(cluster, sandbox["status"]["podIPs"][0], b"hello\n")
        assert answer == f"{name} hello\n".encode()


def test_deleted_claim_takes_its_pod_along(kube, pool):
    kube.create(claim("c1"))
    name = kube.wait("SandboxClaim", "c1", is_ready)["status"]["sandbox"]["name"]
    kube.delete("SandboxClaim", "c1")
    for kind in ("SandboxClaim", "Sandbox", "Pod"):
        kube.wait(kind, "c1" if kind == "SandboxClaim" else name, lambda seen: seen is None)


def test_token_without_rights_is_refused_and_a_role_lets_it_do_just_that(kube):
    kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
    stranger = kube.with_token(kube.token_of("nobody"))
    with pytest.raises(Refused) as refused:
        stranger.list("SandboxClaim")
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")

    kube.apply(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "look"},
         "rules": [{"apiGroups": ["extensions.agents.x-k8s.io"], "resources": ["sandboxclaims"],
                    "verbs": ["list"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
         "metadata": {"name": "look"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
         "subjects": [{"kind": "ServiceAccount", "name": "nobody"}]})
    assert stranger.list("SandboxClaim") == []
    with pytest.raises(Refused) as refused:
        stranger.create(claim("c1"))
    assert refused.value.code == 403


def test_forged_token_is_refused(kube):
    with pytest.raises(Refused) as refused:
        kube.with_token("forged").list("Pod")
    assert refused.value.code == 401


def test_template_without_a_way_in_shuts_other_pods_out(kube, pool):
    address = next(iter(warm_members(kube).values()))["status"]["podIPs"][0]
    look = f"echo | nc -w 3 {address} 7444 | grep ."
    # The policy knows a pod a moment after it has started: the welcome one tries again.
    broker = pod("broker", f"for i in $(seq 20); do {look} && exit 0; sleep 0.2; done; exit 1")
    stranger = pod("stranger", look)
    broker["metadata"]["labels"]["app.kubernetes.io/name"] = "sandbroker"
    kube.create(stranger)
    kube.create(broker)
    assert kube.wait("Pod", "broker", phase("Succeeded", "Failed"))["status"]["phase"] == "Succeeded"
    assert kube.wait("Pod", "stranger", phase("Succeeded", "Failed"))["status"]["phase"] == "Failed"
