"""Ends: exactly one, typed, never invented; timeouts, signals, start failures."""
import random
import time

import grpc
import pytest

from harness import api
from harness.wait import count

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("name, number", [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("HUP", 1)])
def test_T48a_program_ended_by_a_signal_says_which(stub, sandbox, name, number):
    run = api.Exec(stub, sandbox, f"kill -{name} $$").finish()
    assert api.end_of(run.ended) == "signaled"
    assert run.ended.signaled.number == number
    if name in ("KILL", "TERM", "HUP"):
        assert not run.ended.signaled.core_dumped


def test_T48b_signal_sent_by_the_caller_arrives(stub, sandbox):
    run = api.Exec(stub, sandbox, "trap 'echo caught; exit 3' USR1; echo set; "
                   "while :; do sleep 0.05; done")
    run.wait_output(b"set\n")
    run.signal(10)
    run.finish()
    assert run.stdout == b"set\ncaught\n" and run.ended.exited.code == 3
    run = api.Exec(stub, sandbox, ["sleep", "1000"])
    run.wait_ready()
    run.signal(9)
    assert run.finish().ended.signaled.number == 9


def test_T50_every_exit_code_is_the_programs_own(stub, sandbox):
    for code in range(0, 256, count(5, 1)):
        assert api.run(stub, sandbox, ["sh", "-c", f"exit {code}"]).ended.exited.code == code
    for code in (1, 127, 255):
        assert api.Exec(stub, sandbox, f"exit {code}").finish().ended.exited.code == code


def random_script(random_):
    """A program, and what it must end as."""
    steps = []
    for _ in range(random_.randrange(6)):
        steps.append(random_.choice([
            "echo text", "echo text >&2", "head -c 100000 /dev/zero", "true", "exec 3>&1",
            "head -c 200000 /dev/zero >&2", "(echo child)", "sleep 0.01"]))
    end, wanted = random_.choice([
        ("exit 0", ("exited", 0)), ("exit 9", ("exited", 9)), ("kill -9 $$", ("signaled", 9)),
        ("kill -15 $$; sleep 9", ("signaled", 15)), ("exec /does/not/exist", ("exited", 127))])
    return "; ".join([*steps, end]), wanted


def test_T51_every_sequence_of_events_has_its_one_true_end(stub, sandbox):
    random_ = random.Random(51)
    for _ in range(count(60, 600)):
        script, (kind, number) = random_script(random_)
        run = api.Exec(stub, sandbox, script).finish()  # checks the sequence as it reads
        assert api.end_of(run.ended) == kind, script
        seen = run.ended.exited.code if kind == "exited" else run.ended.signaled.number
        assert seen == number, script
        assert run.ended.output_complete and not run.gaps


# 130 s, more than any default of 60 or 120 s; CI 4 s.
def test_T62a_silent_stream_has_no_hidden_deadline(stub, sandbox):
    seconds = count(4, 130)
    run = api.Exec(stub, sandbox, f"sleep {seconds}; echo ok", bound=None).finish()
    assert run.stdout == b"ok\n" and run.ended.exited.code == 0
    assert run.ended.duration.ToSeconds() >= seconds


def test_T62b_timeout_is_a_field_and_its_end_is_typed(stub, sandbox):
    run = api.Exec(stub, sandbox, "echo begin; exec sleep 1000", timeout=api.duration(0.3)).finish()
    assert run.stdout == b"begin\n"
    assert api.end_of(run.ended) == "timed_out" and run.ended.timed_out.last_signal == 15
    assert 0.3 <= run.ended.duration.ToNanoseconds() / 1e9 < 3


def test_T62c_program_that_ignores_TERM_is_killed_after_its_grace(stub, sandbox):
    run = api.Exec(stub, sandbox, "trap '' TERM; echo set; while :; do sleep 0.05; done",
                   timeout=api.duration(0.3), kill_grace=api.duration(0.3)).finish()
    assert api.end_of(run.ended) == "timed_out" and run.ended.timed_out.last_signal == 9


def test_T64_unset_zero_and_negative_timeouts_are_three_cases(stub, sandbox):
    unset = api.run(stub, sandbox, ["true"])
    assert unset.ended.exited.code == 0
    for seconds in (0, -1, -0.5):
        for call in (lambda s=seconds: api.run(stub, sandbox, ["true"], timeout=api.duration(s)),
                     lambda s=seconds: api.Exec(stub, sandbox, ["true"],
                                                timeout=api.duration(s)).finish()):
            refusal = api.refused(call)
            assert (refusal.code, refusal.reason) == (INVALID, "FIELD_INVALID")
            assert any("timeout" in field for field in refusal.fields)


@pytest.mark.parametrize("argument", [
    b"", b" ", b"a b", b"line\nbreak", b"$HOME `id` $(id) ; | & > <", b"'\"\\", b"\xff\xfe\x80",
    b"-n", b"x" * 100_000, b"<<EOF\ntext\nEOF\n"])
def test_T118a_arguments_reach_the_program_as_they_are(stub, sandbox, argument):
    reply = api.run(stub, sandbox, [b"printf", b"<%s>", argument])
    assert reply.stdout == b"<" + argument + b">"


def test_T118b_many_arguments_arrive(stub, sandbox):
    reply = api.run(stub, sandbox, ["sh", "-c", 'echo $#; printf %s "$20000"', "sh",
                                    *(["0123456789"] * 20_000)])
    assert reply.stdout.startswith(b"20000\n")
    assert reply.ended.exited.code == 0


def test_T118c_one_argument_too_long_is_a_typed_error(stub, sandbox):
    reply = api.run(stub, sandbox, ["true", "x" * (128 * 1024)])
    assert api.end_of(reply.ended) == "start_failed"
    assert (reply.ended.start_failed.error_number, reply.ended.start_failed.step) == (7, "exec")


@pytest.mark.parametrize("argv, cwd, number, step", [
    (["/does/not/exist"], b"", 2, "exec"), (["no-such-program"], b"", 2, "exec"),
    (["/etc/passwd"], b"", 13, "exec"), (["/usr"], b"", 13, "exec"),
    (["true"], b"/does/not/exist", 2, "cwd"), (["true"], b"/etc/passwd", 20, "cwd")])
def test_program_that_cannot_start_says_why(stub, sandbox, argv, cwd, number, step):
    for ended in (api.run(stub, sandbox, argv, cwd=cwd).ended,
                  api.Exec(stub, sandbox, argv, cwd=cwd).finish().ended):
        assert api.end_of(ended) == "start_failed"
        assert (ended.start_failed.error_number, ended.start_failed.step) == (number, step)


@pytest.mark.parametrize("fields, field", [
    ({"argv": []}, "argv"), ({"argv": [b""]}, "argv"), ({"argv": [b"a\0b"]}, "argv"),
    ({"argv": ["true"], "cwd": b"relative"}, "cwd"),
    ({"argv": ["true"], "env": {"": "x"}}, "env"), ({"argv": ["true"], "env": {"A=B": "x"}}, "env"),
    ({"argv": ["true"], "log_bytes": 1}, "log_bytes")])
def test_bad_field_is_named(stub, sandbox, fields, field):
    fields = dict(fields)
    argv = fields.pop("argv")
    refusal = api.refused(lambda: api.run(stub, sandbox, argv, **fields))
    assert (refusal.code, refusal.reason, refusal.domain) == (INVALID, "FIELD_INVALID",
                                                              "sandbroker.dev")
    assert len(refusal.fields) == 1 and field in refusal.fields[0]


def test_child_that_keeps_the_pipe_delays_the_end_only_so_long(stub, sandbox):
    begin = time.monotonic()
    run = api.Exec(stub, sandbox, "echo hi; sleep 300 & exit 0",
                   child_bound=api.duration(0.3)).finish()
    assert run.stdout == b"hi\n" and run.ended.exited.code == 0 and run.ended.output_open
    assert time.monotonic() - begin < 10


def test_environment_and_working_directory_are_the_callers(stub, sandbox):
    reply = api.run(stub, sandbox, "pwd; printf %s \"$COLOUR\"", env={"COLOUR": b"\xffred"})
    assert reply.stdout == b"/workspace\n\xffred"
    assert api.run(stub, sandbox, ["pwd"], cwd=b"/usr/bin").stdout == b"/usr/bin\n"


def test_same_execution_id_runs_once(stub, sandbox):
    script = "echo run >> /workspace/runs; cat /workspace/runs"
    for attempt in range(3):
        run = api.Exec(stub, sandbox, script, execution_id="once", attempt=attempt).finish()
        assert run.stdout == b"run\n" and run.ended.exited.code == 0
        assert run.ready.repeated == (attempt > 0)
    refusal = api.refused(lambda: api.Exec(stub, sandbox, "echo other", execution_id="once",
                                           attempt=9).finish())
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "EXECUTION_ID_REUSED")
    stale = api.refused(lambda: api.Exec(stub, sandbox, script, execution_id="once",
                                         attempt=2).finish())
    assert (stale.code, stale.reason) == (grpc.StatusCode.ABORTED, "ATTEMPT_STALE")
