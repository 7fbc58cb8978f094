"""The escape suite's means: the same small Python script is run inside a sandbox, where it must
fail, and outside or with permission, where it must succeed. Otherwise a test would pass because of
its own mistake."""
import os
import shutil
import subprocess

from harness import api
from harness.server import Server

# Debian's own interpreter: it lies in /usr, so the same file is there inside.
PYTHON = "/usr/bin/python3"

# Each try prints "ok" or the name of the errno.
PRELUDE = r"""
import ctypes, errno, os, signal, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if libc.syscall(ctypes.c_long(number), *args) < 0:
        raise OSError(ctypes.get_errno(), "syscall")
def attempt(function, *args):
    try:
        function(*args)
        print("ok")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""

# A uid with no account and nothing else running under it.
ORDINARY_UID = 3_141_592


def is_root():
    return os.geteuid() == 0


def become(uid):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]


def with_own_namespaces(*which):
    """Prefix that gives a command all rights within new namespaces."""
    return ["unshare", "--user", "--map-root-user", *which]


def outside(script, *args, prefix=()):
    """Lines that the script prints on the host."""
    done = subprocess.run([*prefix, PYTHON, "-I", "-c", PRELUDE + script, *args],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


class Jail:
    """A sandbox and scripts run in it."""

    def __init__(self, stub, **acquire):
        self.stub = stub
        self.id = api.acquire(stub, **acquire).sandbox.sandbox_id

    def run(self, argv, **fields):
        return api.run(self.stub, self.id, argv, **fields)

    def shell(self, script):
        return self.run(script).stdout.decode(errors="replace")

    def script(self, script, *args):
        """How the run of a script ended, with its outputs."""
        return self.run([PYTHON, "-I", "-c", PRELUDE + script, *args])

    def tries(self, script, *args):
        """Lines that the script prints inside; it must have come to its end."""
        reply = self.script(script, *args)
        assert api.end_of(reply.ended) == "exited" and reply.ended.exited.code == 0, (
            reply.ended, reply.stderr)
        return reply.stdout.decode().split()

    def release(self):
        api.release(self.stub, self.id)


class WalledServer(Server):
    """A broker as root, or as an ordinary user who owns nothing but the server's folder."""

    def __init__(self, uid=0, **options):
        self.uid = uid
        super().__init__(**options)

    def command(self):
        argv = super().command()
        if self.uid == 0:
            return argv
        shutil.chown(self.folder, self.uid, self.uid)
        for path in self.folder.iterdir():
            os.chown(path, self.uid, self.uid)
        return [*become(self.uid), *argv]
