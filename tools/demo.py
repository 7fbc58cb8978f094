"""What tools/demo shows, step by step; exits 0 only if every step went as it says."""
import base64
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# Given to the sandbox's Python on its standard input.
PROGRAM = '''
import sys, time

def primes(limit):
    sieve = bytearray([1]) * limit
    sieve[0:2] = b"\\0\\0"
    for n in range(2, int(limit ** 0.5) + 1):
        if sieve[n]:
            sieve[n * n::n] = bytes(len(range(n * n, limit, n)))
    return sieve

found = primes(500_000)
for step in range(1, 7):
    limit = step * 80_000
    print(f"primes below {limit}: {sum(found[:limit])}", flush=True)
    if step % 2 == 0:
        print(f"step {step} of 6 done", file=sys.stderr, flush=True)
    time.sleep(0.5)
sys.exit(3)
'''
EXPECTED_LAST_LINE = "primes below 480000: 40005"

# Connects, prints what it is told, and ends with 0; or says why not and ends with 1.
PROBE = '''
import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=3) as peer:
        print("answer:", peer.recv(100).decode().strip())
except OSError as error:
    print("no way there:", error.strerror or error)
    sys.exit(1)
'''


class Unexpected(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Unexpected(what)


def say(text):
    print(f"\n== {text}", flush=True)


class Daemon:
    """A sandbrokerd of our own, with its files in a folder that goes with it."""

    def __init__(self, bin_dir, folder):
        port_file = folder / "port"
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [bin_dir / "sandbrokerd", "--listen", "127.0.0.1:0", "--port-file", port_file,
                 "--state-dir", folder / "state"], stdin=subprocess.DEVNULL, stderr=log)
        try:
            self.address = self.wait_for_address(port_file)
        except BaseException:
            self.stop()
            raise

    def wait_for_address(self, port_file):
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            expect(self.process.poll() is None, f"sandbrokerd ended: {self.log.read_text()}")
            if port_file.exists():
                return port_file.read_text().strip()
            time.sleep(0.02)
        raise Unexpected(f"sandbrokerd did not serve within 30 s: {self.log.read_text()}")

    def stop(self):
        """Its exit code, or -9 when it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Client:
    """The command line program."""

    def __init__(self, bin_dir, address):
        self.program = bin_dir / "sandbroker"
        self.environment = dict(os.environ, SANDBROKER_ADDRESS=address)

    def ask(self, *words):
        """Standard output of a command that must succeed, read as JSON."""
        done = subprocess.run([self.program, words[0], "--json", *words[1:]],
                              env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, timeout=120, check=False)
        expect(done.returncode == 0, f"sandbroker {words[0]} exited with {done.returncode}")
        return json.loads(done.stdout)

    def start(self, sandbox, command, *flags, **streams):
        return subprocess.Popen([self.program, "exec", *flags, sandbox, "--", *command],
                                env=self.environment, text=True, **streams)


def wait_for_warm(client):
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        pools = client.ask("capacity")["pools"]
        if any(pool["ready"] > 0 for pool in pools):
            return
        time.sleep(0.05)
    raise Unexpected("no warm sandbox within 60 s")


def acquire(client):
    began = time.monotonic()
    got = client.ask("acquire")
    took = time.monotonic() - began
    print(f"source {got['source']}; the server took {got['timing']['total']}, "
          f"the whole command {took * 1000:.0f} ms")
    expect(got["source"] == "ACQUIRE_SOURCE_WARM", f"not a warm sandbox but {got['source']}")
    return got["sandbox_id"]


class Lines:
    """One output of the program, shown line by line with the time since the start."""

    def __init__(self, label, began):
        self.label, self.began = label, began
        self.rest = b""
        self.seen = []

    def add(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.seen.append((time.monotonic() - self.began, line.decode()))
            print(f"  {self.seen[-1][0]:5.2f} s  {self.label}  {self.seen[-1][1]}", flush=True)


def run_program(client, sandbox):
    began = time.monotonic()
    # With --json the command prints the events of the call, one a line, as they come.
    process = client.start(sandbox, ["python3", "-"], "--json", stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)
    process.stdin.write(PROGRAM)
    process.stdin.close()
    lines = {"OUTPUT_STREAM_STDOUT": Lines("stdout", began),
             "OUTPUT_STREAM_STDERR": Lines("stderr", began)}
    ended = None
    for event in map(json.loads, process.stdout):
        if "output" in event:
            output = event["output"]
            lines[output["stream"]].add(base64.b64decode(output["data"]))
        ended = event.get("ended", ended)
    code = process.wait()
    took = time.monotonic() - began
    expect(ended is not None, f"the call ended without an end; exit code {code}")
    print(f"ended: {json.dumps(ended)}\nthe command took {took:.2f} s and exits with {code}, too")
    expect(ended.get("exited", {}).get("code") == 3, "the program ends with 3")
    expect(code == 3, "the command must end as the program did")
    check_output(*(each.seen for each in lines.values()))


def check_output(out, err):
    expect(out and out[-1][1] == EXPECTED_LAST_LINE, f"standard output: {out}")
    expect(err and err[-1][1] == "step 6 of 6 done", f"standard error: {err}")
    expect(out[-1][0] - out[0][0] > 2, "the output came at once instead of as it was printed")


class Listener:
    """On the host's loopback; counts who came."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.visitors = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.socket.accept()
            self.visitors += 1
            with peer:
                peer.sendall(b"hello from the host\n")


def show_isolation(client, sandbox):
    listener = Listener()
    command = ["/usr/bin/python3", "-c", PROBE, str(listener.port)]
    host = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"  from the host:    {host.stdout.strip()}")
    expect(host.returncode == 0 and listener.visitors == 1, "the host must reach its own listener")
    inside = client.start(sandbox, command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    told = inside.communicate(timeout=60)[0].strip()
    print(f"  from the sandbox: {told}")
    expect(inside.returncode == 1 and told.startswith("no way there"),
           f"the probe in the sandbox ended with {inside.returncode}: {told}")
    expect(listener.visitors == 1, "the sandbox reached the host's listener")


def main(bin_dir, folder):
    say("starting sandbrokerd with its local backend on a free loopback port")
    daemon = Daemon(bin_dir, folder)
    try:
        print(f"serves {daemon.address}, pid {daemon.process.pid}")
        client = Client(bin_dir, daemon.address)
        wait_for_warm(client)
        say("sandbroker acquire: a warm sandbox")
        sandbox = acquire(client)
        say("sandbroker exec SANDBOX -- python3 - : a program on standard input")
        run_program(client, sandbox)
        say("the same probe towards a listener on the host's loopback")
        show_isolation(client, sandbox)
        say("sandbroker release")
        released = client.ask("release", sandbox)
        print(json.dumps(released))
    finally:
        code = daemon.stop()
    print(f"sandbrokerd ended with exit code {code}")
    expect(code == 0, "sandbrokerd did not end by itself after SIGTERM")
    say("everything went as it should")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sandbroker-demo.") as temporary:
        try:
            main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(temporary))
        except Unexpected as problem:
            print(f"\n!! not as expected: {problem}", file=sys.stderr)
            sys.exit(1)
