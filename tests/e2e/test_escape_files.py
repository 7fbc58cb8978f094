"""What of the host's files a hostile program can reach. Every try has a control: the same action
outside, or with permission, succeeds."""
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import tempfile

import pytest

from harness import api, proc, walls
from harness.server import program

READ = "attempt(lambda: open(sys.argv[1], 'rb').read(1))"


@pytest.fixture
def host_file():
    """World-readable, so that only its absence inside can protect it."""
    with tempfile.TemporaryDirectory(prefix="sandbroker-secret-") as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder, "secret")
        path.write_text("host secret")
        path.chmod(0o644)
        yield path


def test_host_secret_is_absent(jail, host_file):
    assert walls.outside(READ, str(host_file)) == ["ok"]
    assert jail.tries(READ, str(host_file)) == ["ENOENT"]


@pytest.mark.parametrize("way", ["/proc/1/root", "/proc/1/cwd", "/proc/self/root",
                                 "/workspace/../..", "/proc/self/fd/0/.."])
def test_no_way_through_proc_leads_to_host_files(jail, host_file, way):
    assert jail.tries(READ, f"{way}{host_file}")[0] in ("ENOENT", "EACCES", "ENOTDIR")


def test_etc_shadow_is_absent(jail):
    if walls.is_root():
        assert walls.outside(READ, "/etc/shadow") == ["ok"]
    assert walls.outside(READ, "/etc/passwd") == ["ok"]
    assert jail.tries(READ, "/etc/shadow") == ["ENOENT"]
    assert jail.tries(READ, "/etc/passwd") == ["ok"]  # its own


def test_etc_is_generated_not_the_hosts(jail):
    names = set(jail.shell("ls -A /etc").split())
    assert names <= {"passwd", "group", "hosts", "nsswitch.conf", "alternatives", "ld.so.cache"}
    assert "passwd" in names


def test_other_sandboxes_files_are_absent(walled, jail):
    other = walls.Jail(walled.stub())
    script = "open('/workspace/mine', 'w').write('x'); os.chmod('/workspace/mine', 0o777)\n"
    assert other.tries(script + "attempt(open, '/workspace/mine')") == ["ok"]
    assert jail.tries("attempt(open, '/workspace/mine')") == ["ENOENT"]
    other.release()


def test_brokers_state_and_sockets_are_absent(walled, jail):
    key = walled.state_dir / "key"
    assert walls.outside(READ, str(key)) == ["ok"]
    assert jail.tries(READ, str(key)) == ["ENOENT"]
    agent_socket = next(walled.state_dir.glob("sandboxes/*/agent.sock"))
    connect = "attempt(socket.socket(socket.AF_UNIX).connect, sys.argv[1])"
    assert walls.outside(connect, str(agent_socket)) == ["ok"]
    assert jail.tries(connect, str(agent_socket)) == ["ENOENT"]


def test_brokers_port_is_out_of_reach(walled, jail):
    host, _, port = walled.address.rpartition(":")
    connect = "attempt(socket.create_connection, (sys.argv[1], int(sys.argv[2])), 5)"
    assert walls.outside(connect, host, port) == ["ok"]
    assert jail.tries(connect, host, port) == ["ECONNREFUSED"]


def test_abstract_unix_sockets_of_the_host_are_out_of_reach(jail):
    connect = "attempt(socket.socket(socket.AF_UNIX).connect, '\\0' + sys.argv[1])"
    name = f"sandbroker-escape-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        assert walls.outside(connect, name) == ["ok"]
        assert jail.tries(connect, name) == ["ECONNREFUSED"]


MAKE_NODE = """
path = sys.argv[1] + "/node"
attempt(os.mknod, path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
attempt(os.mknod, path + ".fifo", stat.S_IFIFO | 0o666)
"""


def test_device_nodes_cannot_be_made(jail):
    if walls.is_root():
        with tempfile.TemporaryDirectory() as folder:
            assert walls.outside(MAKE_NODE, folder) == ["ok", "ok"]
    assert jail.tries(MAKE_NODE, "/workspace") == ["EPERM", "ok"]


def test_devices_are_only_harmless_ones(jail):
    nodes = set(jail.tries("""
for folder, _, names in os.walk("/dev"):
    for path in (folder + "/" + name for name in names):
        mode = os.lstat(path).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode): print(path)
"""))
    allowed = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty",
                                           "ptmx", "console")}
    assert "/dev/null" in nodes and nodes <= allowed | {"/dev/pts/ptmx"}, nodes
    assert jail.tries("attempt(lambda: open('/dev/null', 'w').write('x'))") == ["ok"]


SET_UID = """
import shutil, subprocess
copy = sys.argv[1] + "/copy"
shutil.copy("/usr/bin/id", copy)
if os.geteuid() == 0: os.chown(copy, 0, 0)
os.chmod(copy, 0o4755)
prefix = sys.argv[2:]
print(subprocess.run([*prefix, copy, "-u"], capture_output=True, text=True).stdout)
"""


def test_set_uid_files_change_nothing(jail):
    if walls.is_root():
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            other = walls.become(walls.ORDINARY_UID)
            assert walls.outside(SET_UID, folder, *other) == ["0"]
    assert jail.tries(SET_UID, "/workspace") == ["1000"]
    # Those of the host's /usr as well: nothing here lets one take effect.
    mounts = jail.shell("cat /proc/self/mountinfo").splitlines()
    assert len(mounts) > 5
    for mount in mounts:
        assert "nosuid" in mount.split()[5].split(","), mount


def test_set_uid_files_made_inside_are_no_danger_outside(walled, jail):
    """They are on a file system of the sandbox's own, which ends with it."""
    jail.shell("cp /usr/bin/id /workspace/left; chmod 4755 /workspace/left")
    found = [path for path in walled.folder.rglob("*") if path.name == "left"]
    assert found == []


@pytest.mark.parametrize("path", ["kcore", "keys", "key-users", "timer_list", "sysrq-trigger",
                                  "interrupts", "cmdline", "sched_debug", "latency_stats"])
def test_proc_hides_files_about_the_host(jail, path):
    full = f"/proc/{path}"
    if not os.path.exists(full):
        pytest.skip("this kernel has none")
    mode = os.O_WRONLY if path == "sysrq-trigger" else os.O_RDONLY
    touch = f"attempt(os.open, {full!r}, {mode})"
    if walls.is_root():
        assert walls.outside(touch) == ["ok"]
    assert jail.tries(touch) == ["EACCES"]


@pytest.mark.parametrize("folder", ["acpi", "asound", "bus", "driver", "fs", "irq", "scsi"])
def test_proc_hides_folders_about_the_host(jail, folder):
    full = f"/proc/{folder}"
    if not os.path.isdir(full):
        pytest.skip("this kernel has none")
    assert jail.tries(f"print(len(os.listdir({full!r})))") == ["0"]
    if os.listdir(full):
        assert walls.outside(f"print(len(os.listdir({full!r})))") != ["0"]


def test_proc_shows_own_processes_only(walled, jail):
    seen = jail.tries("print(*[p for p in os.listdir('/proc') if p.isdigit()])")
    assert 0 < len(seen) < 10
    assert jail.tries("attempt(os.listdir, '/sys')") == ["ENOENT"]
    assert walls.outside("attempt(os.listdir, '/sys')") == ["ok"]


def test_nothing_of_the_host_is_writable(jail):
    for line in jail.shell("cat /proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        target, options = before.split()[4], before.split()[5].split(",")
        if "rw" in options:
            kind = after.split()[0]
            own = target.startswith("/dev") and kind != "tmpfs" or kind in ("tmpfs", "proc")
            assert own, line
    paths = ["/usr", "/etc", "/", "/bin", "/dev", "/proc/acpi"]
    for path in paths:
        assert jail.tries(f"attempt(open, '{path}/new', 'w')")[0] in (
            "EROFS", "EACCES", "ENOENT", "EPERM"), path
    assert jail.tries("attempt(open, '/workspace/new', 'w')") == ["ok"]


def libraries(path):
    """What a program needs beside itself; nothing if it is static."""
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return [word for word in listed.stdout.split() if word.startswith("/")]


def rootfs_of(folder, programs):
    """A folder with a few programs and the libraries that they need. The agent is static and needs
    nothing of an image; under a sanitizer it is not."""
    for name in ("dev", "proc", "run", "tmp", "workspace", "etc", "bin"):
        (folder / name).mkdir()
    (folder / "etc/motd").write_text("of the image")
    needed = [path for one in programs for path in [one, *libraries(one)]]
    for path in [*needed, *libraries(program("sandbroker-agent"))]:
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(pathlib.Path(path).read_bytes())
        target.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))


def test_given_root_filesystem_is_all_there_is(make_server):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandbroker-rootfs-"))
    try:
        folder.chmod(0o755)
        rootfs_of(folder, ["/bin/sh", "/bin/cat", "/bin/ls"])
        server = make_server(config={"templates": {"image": {"rootfs": str(folder)}},
                                     "pools": {"image": {"template": "image", "warm": 1}}})
        stub = server.stub()
        jail = walls.Jail(stub, pool="image")
        assert jail.shell("cat /etc/motd") == "of the image"
        assert jail.shell("ls /etc").split() == ["motd"]
        assert jail.run(["ls", "/usr/bin/python3"]).ended.exited.code != 0
        assert jail.run("echo x > /new").ended.exited.code != 0
        assert jail.shell("echo x > /workspace/new; cat /workspace/new") == "x\n"
        host = walls.Jail(stub)  # the other template has the host's /usr
        assert host.run(["ls", "/usr/bin/python3"]).ended.exited.code == 0
        assert host.run(["cat", "/etc/motd"]).ended.exited.code != 0
    finally:
        shutil.rmtree(folder)


def test_given_root_filesystem_without_its_folders_is_refused_with_the_remedy(make_server):
    with tempfile.TemporaryDirectory(prefix="sandbroker-rootfs-") as folder:
        os.chmod(folder, 0o755)
        server = make_server(config={"templates": {"image": {"rootfs": folder}}}, ready=False)
        assert server.wait() == 3
        assert "needs the folders" in server.log() and "'image'" in server.log()


def test_workspace_starts_empty_after_another_caller(walled):
    first = walls.Jail(walled.stub())
    first.shell("echo secret > /workspace/left; echo secret > /tmp/left; echo s > /dev/shm/left")
    assert "left" in first.shell("ls /workspace /tmp /dev/shm")
    first.release()
    second = walls.Jail(walled.stub())
    assert "left" not in second.shell("ls -A /workspace /tmp /dev/shm")
    assert api.end_of(second.run(["true"]).ended) == "exited"
    second.release()


@pytest.mark.skipif(not walls.is_root(), reason="needs root to become another user")
def test_local_user_reaches_neither_state_nor_agents(walled, jail):
    """Somebody else on this host, with an account and no rights."""
    other = walls.become(walls.ORDINARY_UID + 1)
    key = walled.state_dir / "key"
    assert walls.outside(READ, str(key)) == ["ok"]
    assert walls.outside(READ, str(key), prefix=other) == ["EACCES"]
    agent_socket = next(walled.state_dir.glob("sandboxes/*/agent.sock"))
    connect = "attempt(socket.socket(socket.AF_UNIX).connect, sys.argv[1])"
    assert walls.outside(connect, str(agent_socket), prefix=other) == ["EACCES"]
    for agent in proc.agents(walled.pid):
        for path in ("environ", "root/workspace"):
            touch = f"attempt(os.stat if '/' in {path!r} else open, '/proc/{agent}/{path}')"
            assert walls.outside(touch) == ["ok"]
            assert walls.outside(touch, prefix=other) == ["EACCES"]
        assert walls.outside(f"attempt(os.kill, {agent}, 0)", prefix=other) == ["EPERM"]
