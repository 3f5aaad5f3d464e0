"""Commands of the host: what they say, and that none of them is waited for longer than it is worth."""

from __future__ import annotations

from berth_host.machine import NOT_STARTED, TIMED_OUT, Machine


def test_what_a_command_says() -> None:
    answer = Machine().run(["sh", "-c", "echo out; echo why >&2; exit 3"])
    assert (answer.status, answer.out, answer.why()) == (3, "out\n", "why")
    assert Machine().run(["sh", "-c", "printf '\\377'"]).out == "\ufffd"
    assert Machine().run(["no-such-program-here"]).status == NOT_STARTED


def test_a_command_without_an_end_is_ended() -> None:
    answer = Machine().run(["sleep", "3600"], timeout=0.2)
    assert answer.status == TIMED_OUT
    assert "gave no answer" in answer.why()
