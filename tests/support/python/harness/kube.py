"""A small Kubernetes API client for the cluster tests: JSON objects over HTTPS, bounded waits on
watches. It connects from within the cluster's network namespace."""
import contextlib
import ctypes
import http.client
import json
import os
import socket
import ssl
import time
import urllib.parse

CLONE_NEWNET = 0x40000000
# Far more than a healthy API server takes for one answer.
REQUEST_BOUND = 30

CLUSTER_SCOPED = {"Namespace", "Node", "ClusterRole", "ClusterRoleBinding",
                  "CustomResourceDefinition"}
GROUPS = {
    "v1": ("Namespace", "Node", "Pod", "Service", "ServiceAccount", "ConfigMap", "Secret", "Event"),
    "apps/v1": ("Deployment",),
    "coordination.k8s.io/v1": ("Lease",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "agents.x-k8s.io/v1beta1": ("Sandbox",),
    "extensions.agents.x-k8s.io/v1beta1": ("SandboxTemplate", "SandboxWarmPool", "SandboxClaim"),
}
API_VERSION = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


class Refused(Exception):
    """The API server's answer was no 2xx."""

    def __init__(self, code, status):
        super().__init__(f"{code} {status.get('reason')}: {status.get('message')}")
        self.code = code
        self.reason = status.get("reason")


def plural(kind):
    name = kind.lower()
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + ("es" if name.endswith("x") else "s")


def path_of(kind, namespace=None, name=None, sub=None):
    version = API_VERSION[kind]
    parts = ["api" if version == "v1" else "apis", version]
    if kind not in CLUSTER_SCOPED and namespace:
        parts += ["namespaces", namespace]
    parts += [part for part in (plural(kind), name, sub) if part]
    return "/" + "/".join(parts)


def condition(thing, kind):
    """{"status", "reason", ...} of the object's condition; empty when there is none."""
    found = ((thing or {}).get("status") or {}).get("conditions") or []
    return next((one for one in found if one["type"] == kind), {})


def is_ready(thing):
    return condition(thing, "Ready").get("status") == "True"


@contextlib.contextmanager
def inside(net):
    """This thread's new sockets belong to the network namespace `net` (a path)."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(fd):
        if libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    with open("/proc/thread-self/ns/net") as home, open(net) as there:
        enter(there.fileno())
        try:
            yield
        finally:
            enter(home.fileno())


class Connection(http.client.HTTPSConnection):
    def __init__(self, net, host, port, context):
        super().__init__(host, port, context=context, timeout=REQUEST_BOUND)
        self._net = net

    def connect(self):
        with inside(self._net):
            plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)


class Kube:
    """One user of the API server; `token` None stands for the user of the kubeconfig. Not for use
    by several threads at once."""

    def __init__(self, net, kubeconfig, namespace=None, token=None):
        self._net, self._kubeconfig, self._token = net, kubeconfig, token
        self.namespace = namespace
        self._server = urllib.parse.urlsplit(kubeconfig["clusters"][0]["cluster"]["server"])
        self._context = ssl.create_default_context(
            cafile=kubeconfig["clusters"][0]["cluster"]["certificate-authority"])
        if token is None:
            user = kubeconfig["users"][0]["user"]
            self._context.load_cert_chain(user["client-certificate"], user["client-key"])
        self._kept = self._connect()

    def _connect(self):
        return Connection(self._net, self._server.hostname, self._server.port, self._context)

    def within(self, namespace):
        return Kube(self._net, self._kubeconfig, namespace, self._token)

    def with_token(self, token):
        return Kube(self._net, self._kubeconfig, self.namespace, token)

    def _send(self, connection, method, path, query=None, body=None, content="application/json"):
        headers = {"Accept": "application/json", "Content-Type": content}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if query:
            path += "?" + urllib.parse.urlencode(query)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status // 100 != 2:
            raw = answer.read()
            try:
                status = json.loads(raw)
            except ValueError:
                status = {"message": raw.decode(errors="replace")}
            raise Refused(answer.status, status)
        return answer

    def request(self, method, path, **more):
        """The body of the answer. A kept connection that was closed meanwhile shows before a byte
        of the answer; then the request is sent once more on a new one."""
        for last in (False, True):
            try:
                return self._send(self._kept, method, path, **more).read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self._kept.close()
                if last:
                    raise
        raise AssertionError("not reached")

    def json(self, method, path, **more):
        return json.loads(self.request(method, path, **more))

    def get(self, kind, name):
        return self.json("GET", path_of(kind, self.namespace, name))

    def list(self, kind, **query):
        return self.json("GET", path_of(kind, self.namespace), query=query)["items"]

    def delete(self, kind, name):
        return self.json("DELETE", path_of(kind, self.namespace, name))

    def create(self, thing):
        return self.json("POST", path_of(thing["kind"], self.namespace), body=thing)

    def apply(self, *things):
        """Makes each of the objects be as given (server-side apply); answers the last."""
        for thing in things:
            path = path_of(thing["kind"], self.namespace, thing["metadata"]["name"])
            seen = self.json("PATCH", path, query={"fieldManager": "tests", "force": "true"},
                             body=thing, content="application/apply-patch+yaml")
        return seen

    def log(self, pod):
        return self.request("GET", path_of("Pod", self.namespace, pod, "log")).decode()

    def token_of(self, account):
        made = self.json("POST", path_of("ServiceAccount", self.namespace, account, "token"),
                         body={"spec": {"expirationSeconds": 3600}})
        return made["status"]["token"]

    def watch(self, kind, version, bound, **query):
        """(type, object) of each event after `version`, for `bound` seconds at most."""
        end = time.monotonic() + bound
        connection = self._connect()
        try:
            answer = self._send(connection, "GET", path_of(kind, self.namespace),
                                query={"watch": "1", "resourceVersion": version,
                                       "timeoutSeconds": max(1, int(bound)), **query})
            while (left := end - time.monotonic()) > 0:
                connection.sock.settimeout(left)
                line = answer.readline()
                if not line:
                    return
                event = json.loads(line)
                yield event["type"], event["object"]
        except TimeoutError:
            return
        finally:
            connection.close()

    def wait(self, kind, name, until, bound=60):
        """The object once `until(object)` is true, at first or at a change; None stands for one
        that does not exist."""
        only = {"fieldSelector": f"metadata.name={name}"}
        end = time.monotonic() + bound
        seen = None
        while (left := end - time.monotonic()) > 0:
            listed = self.json("GET", path_of(kind, self.namespace), query=only)
            seen = next(iter(listed["items"]), None)
            if until(seen):
                return seen
            for event, seen in self.watch(kind, listed["metadata"]["resourceVersion"], left, **only):
                if event == "ERROR":
                    break
                seen = None if event == "DELETED" else seen
                if until(seen):
                    return seen
        raise AssertionError(f"{kind} {name}: not within {bound} s; last seen: {json.dumps(seen)}")
