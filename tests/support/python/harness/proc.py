"""Processes as /proc shows them."""
import os


def with_parent(argv, signal_name="TERM"):
    """A command that is ended with the test run, however that ends. By setpriv, since code of ours
    between fork and exec would meet the threads of gRPC."""
    return ["setpriv", "--pdeathsig", signal_name, *argv]


def _stat(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        head, _, tail = file.read().rpartition(b")")
    fields = tail.split()
    return {"name": head.partition(b"(")[2].decode(), "state": fields[0].decode(),
            "parent": int(fields[1]), "ticks": int(fields[11]) + int(fields[12])}


def _all():
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found[int(entry)] = _stat(entry)
            except (FileNotFoundError, ProcessLookupError):
                pass
    return found


def descendants(pid):
    """{pid: stat} of everything below `pid`."""
    everything = _all()
    below, todo = {}, [pid]
    while todo:
        parent = todo.pop()
        for child, stat in everything.items():
            if stat["parent"] == parent and child not in below:
                below[child] = stat
                todo.append(child)
    return below


# What an agent's helper process an execution is called; it shares the agent's memory and file.
SUPERVISOR = "supervisor"


def agents(pid):
    """Agents below the broker `pid`: the processes that run the agent's file."""
    return [child for child, stat in descendants(pid).items()
            if stat["state"] != "Z" and stat["name"] != SUPERVISOR
            and _program(child).endswith("sandbroker-agent")]


def programs(agent):
    """Live processes below an agent that are not its own."""
    return {child for child, stat in descendants(agent).items()
            if stat["state"] not in "ZX" and stat["name"] != SUPERVISOR}


def supervisors(agent):
    return {child for child, stat in descendants(agent).items()
            if stat["state"] != "Z" and stat["name"] == SUPERVISOR}


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def running(program):
    """Agents that run this very file, whoever started them."""
    return [pid for pid, stat in _all().items()
            if stat["state"] not in "ZX" and stat["name"] != SUPERVISOR
            and _program(pid) == str(program)]


def _program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:  # gone, or not for us to see
        return ""


def zombies(pid):
    return [child for child, stat in descendants(pid).items() if stat["state"] == "Z"]


def open_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_kib(pid):
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmRSS:"):
                return int(line.split()[1])
    return 0


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def cpu_seconds(pid):
    return _stat(pid)["ticks"] / os.sysconf("SC_CLK_TCK")


def alive(pid):
    try:
        return _stat(pid)["state"] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
