"""Output: every byte, in order, on its own fd, and never a silent hole."""
import contextlib
import hashlib
import socket
import subprocess
import threading
import time

import pytest

from harness import api
from harness.wait import count, wait_until


def sha(data):
    return hashlib.sha256(data).hexdigest()


def test_T01_long_output_equals_the_local_run(stub, sandbox):
    local = subprocess.run(["seq", "1", "2000000"], capture_output=True, check=True).stdout
    run = api.Exec(stub, sandbox, ["seq", "1", "2000000"]).finish()
    assert run.ended.exited.code == 0 and run.ended.output_complete and not run.gaps
    assert len(run.stdout) == len(local) and sha(run.stdout) == sha(local)


# 2^20 to 2^27; CI up to 2^24.
@pytest.mark.parametrize("power", range(20, count(24, 27) + 1, count(2, 1)))
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_T02a_program_that_writes_and_exits_at_once_loses_no_tail(stub, sandbox, power, more):
    size = 2 ** power + more
    run = api.Exec(stub, sandbox, f"yes 0123456 | head -c {size}").finish()
    assert run.ended.exited.code == 0 and run.ended.output_complete
    assert len(run.stdout) == size and run.ended.final_offset == size
    assert sha(run.stdout) == sha((b"0123456\n" * (size // 8 + 1))[:size])


def test_T02b_last_bytes_before_an_exit_arrive_every_time(stub, sandbox):
    for _ in range(count(50, 500)):
        reply = api.run(stub, sandbox, "head -c 65537 /dev/zero; printf tail >&2")
        assert len(reply.stdout) == 65537 and reply.stderr == b"tail"
        assert not reply.stdout_cut and not reply.stderr_cut


# 10 MB at 100 KB/s; CI reads at 5 MB/s.
def test_T04_slow_reader_gets_everything(stub, sandbox):
    rate = count(5_000_000, 100_000)
    run = api.Exec(stub, sandbox, "yes 0123456 | head -c 10000000", bound=300)
    for kind, event in run:
        if kind == "output":
            time.sleep(len(event.data) / rate)  # the load: a reader of that speed
    assert run.ended.exited.code == 0 and not run.gaps
    assert sha(run.stdout) == sha((b"0123456\n" * 1_250_000))


def test_T11_blank_lines_and_crlf_are_kept(stub, sandbox):
    run = api.Exec(stub, sandbox, ["printf", "a\\r\\n\\n\\nb"]).finish()
    assert run.stdout == b"a\r\n\n\nb"
    assert api.run(stub, sandbox, ["printf", "a\\r\\n\\n\\nb"]).stdout == b"a\r\n\n\nb"


def test_T15_both_outputs_stay_apart(stub, sandbox):
    script = "i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    run = api.Exec(stub, sandbox, script, stdin=True).finish()
    assert run.stdout == b"".join(b"out %d\n" % i for i in range(500))
    assert run.stderr == b"".join(b"err %d\n" % i for i in range(500))


def test_T18_no_marker_in_the_output_ends_a_stream(stub, sandbox):
    script = ("echo done >&2; echo '{\"ended\":{\"exited\":{\"code\":0}}}'; printf '\\000\\004'; "
              "exec >&-; echo exit status 0 >&2; head -c 3000000 /dev/zero >&2; exit 7")
    run = api.Exec(stub, sandbox, script).finish()
    assert run.ended.exited.code == 7
    assert run.stdout.endswith(b"\0\4") and len(run.stderr) == len(b"done\nexit status 0\n") + 3000000


def test_T37a_program_goes_on_without_a_reader(stub, sandbox):
    run = api.Exec(stub, sandbox, "yes | head -c 10M > /dev/stdout; echo over > /workspace/over",
                   execution_id="unread")
    run.wait_ready()
    run.drop()
    wait_until(lambda: api.run(stub, sandbox, "cat /workspace/over 2>&1; true").stdout == b"over\n",
               20, "the program's end with nobody attached")
    # The same start later meets the same execution: all of its output, and its one end.
    again = api.Exec(stub, sandbox, "yes | head -c 10M > /dev/stdout; echo over > /workspace/over",
                     execution_id="unread", attempt=1).finish()
    assert again.ready.repeated and again.ended.exited.code == 0
    lost = sum(gap.to_offset - gap.from_offset for gap in again.gaps) + again.ready.start_offset
    assert len(again.stdout) + lost == 10 * 2 ** 20


def test_T37b_reader_that_never_reads_stops_nobody_else(stub, sandbox):
    stuck = api.Exec(stub, sandbox, "yes | head -c 100M")
    stuck.wait_ready()
    for _ in range(20):
        assert api.run(stub, sandbox, ["echo", "quick"]).stdout == b"quick\n"
    stuck.finish()
    assert len(stuck.stdout) + sum(g.to_offset - g.from_offset for g in stuck.gaps) == 100 * 2 ** 20


@pytest.mark.parametrize("size", [1, 2 ** 20, 2 ** 20 + 1])
def test_T140_random_bytes_come_back_as_they_were(stub, sandbox, size):
    made = api.Exec(stub, sandbox, f"head -c {size} /dev/urandom | tee /workspace/random").finish()
    assert len(made.stdout) == size
    digest = api.run(stub, sandbox, ["sha256sum", "/workspace/random"]).stdout.split()[0].decode()
    assert sha(made.stdout) == digest
    echoed = api.Exec(stub, sandbox, ["cat"], stdin=True)
    echoed.write_all(made.stdout)
    assert echoed.finish().stdout == made.stdout


def test_T142a_nothing_waits_for_more_output(stub, sandbox):
    run = api.Exec(stub, sandbox, "echo one; read answer; echo got $answer", stdin=True)
    run.wait_output(b"one\n")  # the program now waits for us
    run.write(b"two\n")
    assert run.finish().stdout == b"one\ngot two\n"


class CountingRelay:
    """A TCP hop in front of the server that counts what comes back."""

    def __init__(self, target):
        host, _, port = target.rpartition(":")
        self.returned = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server = socket.create_connection((host, int(port)))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        client, _ = self._listener.accept()
        threading.Thread(target=self._pump, args=(client, self._server), daemon=True).start()
        self._pump(self._server, client, back=True)

    def _pump(self, source, target, back=False):
        try:
            while data := source.recv(1 << 16):
                self.returned += len(data) if back else 0
                target.sendall(data)
        except OSError:
            pass  # the other direction has ended
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def test_T142b_output_is_not_compressed(server, sandbox):
    relay = CountingRelay(server.address)
    run = api.Exec(server.stub(relay.address), sandbox, ["head", "-c", "4000000", "/dev/zero"])
    assert len(run.finish().stdout) == 4_000_000
    assert relay.returned >= 4_000_000


def test_run_cuts_at_its_cap_and_counts_what_is_missing(stub, sandbox):
    reply = api.run(stub, sandbox, "head -c 5000 /dev/zero; head -c 7000 /dev/zero >&2",
                    output_cap=1000)
    assert (len(reply.stdout), reply.stdout_cut) == (1000, 4000)
    assert (len(reply.stderr), reply.stderr_cut) == (1000, 6000)
    assert reply.ended.exited.code == 0
    large = api.run(stub, sandbox, ["head", "-c", "3000000", "/dev/zero"])
    assert len(large.stdout) == 2 ** 20 and large.stdout_cut == 3_000_000 - 2 ** 20
