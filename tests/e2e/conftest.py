"""`walled` is a broker with tight limits, run as root and as an ordinary user; `jail` a sandbox of
it. Without root only the second is there, under the uid that runs the tests."""
import pytest

from harness import walls

LIMITS = {"workspace": "8MiB", "tmp": "4MiB", "pids": 64, "open_files": 512}


def as_whom():
    return ["root", "user"] if walls.is_root() else ["user"]


@pytest.fixture(scope="module", params=as_whom())
def walled(request):
    uid = walls.ORDINARY_UID if request.param == "user" and walls.is_root() else 0
    server = walls.WalledServer(uid, config={
        "templates": {"default": LIMITS}, "pools": {"default": {"warm": 2, "limit": 16}}})
    server.kind = request.param
    yield server
    server.stop()
    server.remove()


@pytest.fixture
def jail(walled):
    one = walls.Jail(walled.stub())
    yield one
    one.release()
