"""Waiting for what can be observed, never for time to pass."""
import os
import time

LONG = os.environ.get("SANDBROKER_LONG") == "1"


def count(short, long):
    """The size of a test: the short one in CI, the long one with SANDBROKER_LONG=1."""
    return long if LONG else short


def wait_until(look, bound, what):
    """Polls `look` until it answers something true, and answers that; fails after `bound` s."""
    end = time.monotonic() + bound
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"not within {bound} s: {what}")
        time.sleep(0.005)
