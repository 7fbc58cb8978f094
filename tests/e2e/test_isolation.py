"""What a program inside a sandbox can see and reach."""
import pathlib
import socket
import subprocess

from harness import api
from harness.wait import wait_until


def inside(stub, sandbox, script):
    return api.run(stub, sandbox, script).stdout.decode(errors="replace")


def status_of(stub, sandbox):
    lines = inside(stub, sandbox, "cat /proc/self/status").splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


def test_program_has_no_privileges(stub, sandbox):
    status = status_of(stub, sandbox)
    assert "0" not in status["Uid"] and "0" not in status["Gid"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name][0], 16) == 0, name
    assert status["NoNewPrivs"] == ["1"]


def pids_of(cmdline):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == cmdline:
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has just ended
    return found


def test_program_runs_as_a_host_uid_of_its_own(server, stub):
    """As root every sandbox has another unprivileged uid outside."""
    held = [api.acquire(stub).sandbox.sandbox_id for _ in range(2)]
    uids = []
    for number, sandbox in enumerate(held):
        run = api.Exec(stub, sandbox, ["sleep", f"88{number}"])
        run.wait_ready()
        # Its new name may show a moment after it was started.
        found = wait_until(lambda: pids_of(b"sleep\x0088%d\0" % number), 10, "the program shows")
        with open(f"/proc/{found[0]}/status") as file:
            uids.append(next(line.split()[1] for line in file if line.startswith("Uid")))
        run.cancel_program(grace=0)
        run.finish()
        api.release(stub, sandbox)
    assert "0" not in uids
    if subprocess.run(["id", "-u"], capture_output=True, text=True).stdout.strip() == "0":
        assert uids[0] != uids[1]


def test_host_listener_is_out_of_reach(stub, sandbox):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        connect = ("import socket,sys; s=socket.create_connection(('127.0.0.1',%d),3); "
                   "print('connected')" % port)
        control = subprocess.run(["python3", "-c", connect], capture_output=True, text=True)
        assert control.stdout == "connected\n"  # the host itself reaches it
        reply = api.run(stub, sandbox, ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"])
        assert reply.ended.exited.code != 0 and b"refused" in reply.stderr


def test_only_loopback_exists(stub, sandbox):
    names = inside(stub, sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1").split()
    assert names in ([], ["lo"])


def test_usr_is_read_only(stub, sandbox):
    for path in ("/usr/new", "/etc/new", "/new", "/bin/new"):
        reply = api.run(stub, sandbox, ["touch", path])
        assert reply.ended.exited.code != 0, path
    assert inside(stub, sandbox, "touch /workspace/a /tmp/b /dev/shm/c && echo made") == "made\n"


def test_host_files_are_absent(server, stub, sandbox):
    names = set(inside(stub, sandbox, "ls -A /").split())
    assert not names & {"root", "home", "srv", "mnt", "media", "boot", "sys", "opt"}, names
    assert "shadow" not in inside(stub, sandbox, "ls -A /etc").split()
    assert len(inside(stub, sandbox, "ls -A /etc").split()) < 30
    users = inside(stub, sandbox, "cut -d: -f1 /etc/passwd").split()
    assert len(users) <= 4, users
    gone = api.run(stub, sandbox, ["ls", str(server.state_dir)])
    assert gone.ended.exited.code != 0


def test_sandboxes_do_not_see_each_other(stub):
    one, two = (api.acquire(stub).sandbox.sandbox_id for _ in range(2))
    run = api.Exec(stub, one, "echo secret > /workspace/f; echo secret > /tmp/f; exec sleep 777")
    run.wait_ready()
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -A /workspace /tmp"
    seen = inside(stub, two, look)
    assert "sleep 777" not in seen
    assert api.run(stub, two, ["cat", "/workspace/f", "/tmp/f"]).ended.exited.code != 0
    own = inside(stub, one, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 777" in own  # the look itself works
    for sandbox in (one, two):
        api.release(stub, sandbox)


def test_agent_is_out_of_the_programs_reach(stub, sandbox):
    reply = api.run(stub, sandbox, "cat /proc/1/environ; kill -9 1; kill -STOP 1; "
                                   "ls -l /proc/1/fd; cat /proc/1/maps; echo over")
    assert reply.stdout.endswith(b"over\n")
    assert len(reply.stdout) == len(b"over\n"), reply.stdout
    assert api.run(stub, sandbox, ["echo", "alive"]).stdout == b"alive\n"
    fds = inside(stub, sandbox, "ls /proc/self/fd").split()
    assert len(fds) <= 4, fds  # 0, 1, 2 and ls's own


def test_environment_holds_nothing_of_the_host(stub, sandbox):
    names = {line.partition("=")[0] for line in inside(stub, sandbox, "env").splitlines()}
    assert names <= {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "TMPDIR", "PWD", "SHLVL",
                     "_", "SHELL", "OLDPWD", "LC_ALL", "TZ", "HOSTNAME"}, names


def test_further_user_namespaces_are_refused(stub, sandbox):
    reply = api.run(stub, sandbox, ["unshare", "--user", "--map-root-user", "id", "-u"])
    assert reply.ended.exited.code != 0, reply.stdout
