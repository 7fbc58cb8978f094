"""Servers for the e2e and fault tests. `server` is shared by a file; `make_server` starts one for
a test alone."""
import pytest

from harness import api
from harness.server import Server


@pytest.fixture(scope="module")
def server():
    one = Server(config={"pools": {"default": {"warm": 2, "limit": 16}}})
    yield one
    one.stop()
    one.remove()


@pytest.fixture
def make_server():
    made = []

    def make(**options):
        made.append(Server(**options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
        one.remove()


@pytest.fixture
def stub(server):
    return server.stub()


@pytest.fixture
def sandbox(stub):
    """A sandbox of the shared server, given back afterwards."""
    handle = api.acquire(stub).sandbox.sandbox_id
    yield handle
    api.release(stub, handle)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failed test shows the end of its servers' logs."""
    report = (yield).get_result()
    shared = item.funcargs.get("server")
    if report.failed and shared is not None:
        report.sections.append(("log of sandbrokerd", shared.log()[-8000:]))


def pytest_sessionfinish(session, exitstatus):
    """A file in which nothing ran is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and not reporter.stats.get("passed"):
        session.exitstatus = 5
