"""Input: every byte by offset, an end of its own, and push-back that can be cancelled."""
import hashlib

import grpc
import pytest

from harness import api, proc
from harness.wait import count

MIB = 2 ** 20


def digest_of_input(stub, sandbox, data):
    run = api.Exec(stub, sandbox, ["sha256sum"], stdin=True)
    run.write_all(data, chunk=MIB)
    return run.finish().stdout.split()[0].decode()


@pytest.mark.parametrize("size", [0, 1, 65536, 40 * MIB - 1, 40 * MIB, 40 * MIB + 1])
def test_T24_T40_large_input_arrives_whole(stub, sandbox, size):
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert digest_of_input(stub, sandbox, data) == hashlib.sha256(data).hexdigest()


def test_T28_program_that_ends_does_not_wait_for_its_input(stub, sandbox):
    run = api.Exec(stub, sandbox, ["echo", "hi"], stdin=True).finish()
    assert run.stdout == b"hi\n" and run.ended.exited.code == 0


def test_T41a_child_that_never_reads_is_cancelled_below_the_window(stub, sandbox):
    run = api.Exec(stub, sandbox, ["sleep", "1000"], stdin=True)
    run.read_while(lambda: run.input_limit == 0)
    room = run.input_limit
    for at in range(0, room, MIB):
        run.write(b"x" * min(MIB, room - at))
    run.cancel_program(grace=0)
    run.finish()
    assert api.end_of(run.ended) == "cancelled" and run.ended.cancelled.by == "caller"


def test_T41b_flood_for_a_child_that_never_reads_is_pushed_back(server, stub, sandbox):
    pids = [server.pid, *server.agents()]
    before = {pid: proc.rss_kib(pid) for pid in pids}
    run = api.Exec(stub, sandbox, ["sleep", "1000"], stdin=True)
    run.wait_ready()
    for _ in range(256):
        run.write(bytes(MIB))
    # Another program is served meanwhile, and again, so that the flood had its time.
    for _ in range(50):
        assert api.run(stub, sandbox, ["true"]).ended.exited.code == 0
    grown = {pid: proc.rss_kib(pid) - before[pid] for pid in pids}
    assert max(grown.values()) <= 32 * 1024, grown
    run.drop()


def test_T44_end_of_input_is_a_flag_and_repeating_it_harmless(stub, sandbox):
    run = api.Exec(stub, sandbox, ["sh", "-c", "cat; echo over; sleep 0.2"], stdin=True)
    run.write(b"text")
    run.write(eof=True)
    run.write(eof=True)
    run.finish()
    assert run.stdout == b"textover\n" and run.ended.exited.code == 0


def test_T45_input_sent_with_the_start_is_not_dropped(stub, sandbox):
    for i in range(count(30, 300)):
        run = api.Exec(stub, sandbox, ["cat"], stdin=True)
        run.write(b"first %d" % i, eof=True)
        assert run.finish().stdout == b"first %d" % i


def test_input_below_the_accepted_offset_is_dropped_and_a_hole_refused(stub, sandbox):
    run = api.Exec(stub, sandbox, ["cat"], stdin=True)
    run.write(b"abcdef", offset=0)
    run.wait_output(b"abcdef")
    run.write(b"defghi", offset=3)  # straddles: only its tail is new
    run.wait_output(b"abcdefghi")
    run.write(b"x", offset=100)
    with pytest.raises(grpc.RpcError) as error:
        run.finish()
    refusal = api.refusal(error.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ABORTED, "INPUT_GAP")
    assert run.stdout == b"abcdefghi"


def test_input_for_a_program_started_without_is_refused(stub, sandbox):
    run = api.Exec(stub, sandbox, ["sleep", "1000"], stdin=False, timeout=api.duration(20))
    run.wait_ready()
    run.write(b"x")
    with pytest.raises(grpc.RpcError) as error:
        run.finish()
    assert api.refusal(error.value).reason == "FIELD_INVALID"


def test_program_that_closes_its_input_is_announced(stub, sandbox):
    run = api.Exec(stub, sandbox, "exec <&-; echo closed; sleep 1000", stdin=True)
    run.wait_output(b"closed\n")
    run.write(b"nobody reads this")
    run.read_while(lambda: run.input_closed is None)
    assert run.input_closed.accepted == 0
    run.cancel_program(grace=0)
    assert api.end_of(run.finish().ended) == "cancelled"


def test_run_gives_its_input(stub, sandbox):
    assert api.run(stub, sandbox, ["cat"], stdin=b"in\0put").stdout == b"in\0put"
    assert api.run(stub, sandbox, ["wc", "-c"]).stdout.strip() == b"0"
