"""WatchSandboxes with plain stubs: what is there, then every change, and how it ends."""
import json
import signal
import subprocess

import grpc

from harness import api, server as servers
from sandbroker.v1 import sandbox_pb2

BOUND = 60


class Watch:
    """One watch and what it adds up to."""

    def __init__(self, stub, selector=""):
        request = sandbox_pb2.WatchSandboxesRequest(label_selector=selector)
        self.call = stub.WatchSandboxes(request, timeout=BOUND)
        self.held = {}
        self.gone = {}

    def next(self):
        event = next(self.call)
        kind = event.WhichOneof("event")
        if kind == "added":
            assert event.added.sandbox_id not in self.held
            self.held[event.added.sandbox_id] = event.added
        elif kind == "modified":
            assert event.modified.sandbox_id in self.held
            self.held[event.modified.sandbox_id] = event.modified
        elif kind == "removed":
            del self.held[event.removed.sandbox_id]
            self.gone[event.removed.sandbox_id] = event.removed
        return kind

    def until(self, condition):
        while not condition():
            self.next()
        return self

    def synced(self):
        while self.next() != "synced":
            pass
        return self


def list_all(stub):
    return [one.sandbox_id for one in
            stub.ListSandboxes(sandbox_pb2.ListSandboxesRequest()).sandboxes]


def test_snapshot_is_the_list_and_changes_follow(stub):
    first = api.acquire(stub).sandbox.sandbox_id
    watch = Watch(stub).synced()
    assert set(watch.held) == set(list_all(stub))
    second = api.acquire(stub).sandbox
    watch.until(lambda: second.sandbox_id in watch.held)
    assert watch.held[second.sandbox_id].state == sandbox_pb2.SANDBOX_STATE_READY
    assert watch.held[second.sandbox_id].incarnation == second.incarnation
    api.release(stub, first)
    watch.until(lambda: first in watch.gone)
    assert (watch.gone[first].reason, watch.gone[first].cause) == ("SANDBOX_GONE", "released")
    api.release(stub, second.sandbox_id)
    watch.until(lambda: second.sandbox_id in watch.gone)
    watch.call.cancel()


def test_lease_that_moves_and_ends_is_seen(stub):
    lease = sandbox_pb2.LeaseSpec(ttl=api.duration(1))
    held = api.acquire(stub, lease=lease, labels={"app": "lease"}).sandbox
    watch = Watch(stub, "app=lease").synced()
    stub.RenewLeases(sandbox_pb2.RenewLeasesRequest(sandbox_ids=[held.sandbox_id]))
    watch.until(lambda: held.sandbox_id in watch.gone)
    assert watch.gone[held.sandbox_id].reason == "LEASE_EXPIRED"


def test_selector_chooses(stub):
    watch = Watch(stub, "app=seen").synced()
    other = api.acquire(stub, labels={"app": "other"}).sandbox.sandbox_id
    seen = api.acquire(stub, labels={"app": "seen"}).sandbox.sandbox_id
    watch.until(lambda: seen in watch.held)
    assert other not in watch.held
    for one in (other, seen):
        api.release(stub, one)


def test_bad_selector_names_its_field(stub):
    refusal = api.refused(lambda: Watch(stub, "a in (").next())
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")


def test_drain_ends_it_and_says_so(make_server):
    server = make_server()
    watch = Watch(server.stub()).synced()
    server.signal(signal.SIGTERM)
    refusal = api.refused(lambda: watch.until(lambda: False))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVER_DRAINING")
    assert refusal.retry is not None
    assert server.wait() == 0


def test_server_says_how_many_may_watch(make_server):
    server = make_server()
    stub = server.stub()
    limit = api.server_info(stub).limits.max_watchers
    watches = [Watch(stub).synced() for _ in range(limit)]
    refusal = api.refused(lambda: Watch(stub).next())
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY")
    watches.pop().call.cancel()
    for watch in watches:
        watch.call.cancel()


def test_command_line_prints_a_line_a_change(make_server):
    server = make_server()
    stub = server.stub()
    held = api.acquire(stub).sandbox.sandbox_id
    command = [servers.program("sandbroker"), "ls", "--watch", "--json", "--address",
               server.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert json.loads(watching.stdout.readline())["added"]["sandbox_id"] == held
            assert "synced" in json.loads(watching.stdout.readline())
            api.release(stub, held)
            event = json.loads(watching.stdout.readline())
            while "removed" not in event:
                event = json.loads(watching.stdout.readline())
            assert event["removed"] == {"sandbox_id": held, "reason": "SANDBOX_GONE",
                                        "cause": "released"}
        finally:
            watching.terminate()
