"""Small root file systems, put together from files of this Debian host. /bin, /lib, /lib64 and /sbin
lead to /usr, as they do there."""
import os
import pathlib
import re
import subprocess
import tarfile

from oci import entry

FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin",
           "var")
MERGED = ("bin", "lib", "lib64", "sbin")


class RootFs:
    """A tree for oci.write_archive."""

    def __init__(self):
        self.tree = {}
        for path in FOLDERS:
            self.folder(path)
        for path in MERGED:
            self.link(path, f"usr/{path}")
        self.folder("tmp", mode=0o1777)

    def folder(self, path, mode=0o755, uid=0):
        above = os.path.dirname(path)
        if above and above not in self.tree:
            self.folder(above)
        self.tree[path] = entry(path, tarfile.DIRTYPE, mode, uid)

    def link(self, path, target):
        self.tree[path] = entry(path, tarfile.SYMTYPE, 0o777)
        self.tree[path].linkname = target

    def file(self, path, source, mode=None, mtime=0):
        """`source` is a file of the host (its mode is kept as far as it says who may run it) or bytes."""
        path = self._merged(path)
        if mode is None:
            runs = not isinstance(source, bytes) and os.access(source, os.X_OK)
            mode = 0o755 if runs else 0o644
        if os.path.dirname(path) not in self.tree:
            self.folder(os.path.dirname(path))
        info = entry(path, tarfile.REGTYPE, mode)
        info.mtime = mtime
        self.tree[path] = (info, source)

    def program(self, path, source):
        """A program or shared object with the libraries it needs, each at its place on the host."""
        self.file(path, source)
        for library in libraries_of(source):
            self.file(library.lstrip("/"), os.path.realpath(library))

    def accounts(self, **users):
        """name=uid; nothing can log in."""
        users = {"root": 0, **users}
        self.file("etc/passwd", "".join(
            f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in users.items()).encode())
        self.file("etc/group", "".join(
            f"{name}:x:{uid}:\n" for name, uid in users.items()).encode())

    def busybox(self, source="/bin/busybox"):
        """Debian's static busybox under the names of its applets, where nothing else has them."""
        self.file("usr/bin/busybox", source)
        applets = subprocess.run([source, "--list"], check=True, capture_output=True, text=True)
        for name in applets.stdout.split():
            path = f"usr/bin/{name}"
            # wget looks names up through glibc, which a static program can't in a container: it crashes.
            if name != "wget" and path not in self.tree:
                self.link(path, "busybox")

    def python(self):
        """The host's own Python with its standard library, without tests and what needs more than
        that: a compiler, a display, a network to install from. Compiled modules name the time of
        their source, so it is kept."""
        program = pathlib.Path(os.path.realpath("/usr/bin/python3"))
        self.program(f"usr/bin/{program.name}", str(program))
        self.link("usr/bin/python3", program.name)
        self.link("usr/bin/python", program.name)
        left_out = re.compile(r"/(test|tests|idlelib|ensurepip|tkinter|lib2to3|config-[^/]*)/")
        for source in sorted(pathlib.Path("/usr/lib", program.name).rglob("*")):
            if left_out.search(str(source)) or not source.is_file():
                continue
            path = str(source).lstrip("/")
            if source.suffix == ".so":
                self.program(path, os.path.realpath(source))
            else:
                self.file(path, os.path.realpath(source), mtime=int(source.stat().st_mtime))

    @staticmethod
    def _merged(path):
        return f"usr/{path}" if path.split("/")[0] in MERGED else path


def libraries_of(program):
    """Paths of the shared objects that the loader would take, the loader's own included."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True)
    if "not found" in listed.stdout:
        raise SystemExit(f"{program} needs libraries that are not here:\n{listed.stdout}")
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed.stdout, re.MULTILINE)
