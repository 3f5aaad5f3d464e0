"""What is made of the messages of pods/exec, whatever comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.model.exec_channels import Ended, Heard, ended, harmless

EXITED = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "message": "command terminated with non-zero exit code: exit status 3",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}
NEVER_RAN = {"status": "Failure", "reason": "InternalError", "message": 'exec: "no-such": executable file not found'}


def status(body):
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": "Success"}, Ended(0)),
        (EXITED, Ended(3, EXITED["message"])),
        (NEVER_RAN, Ended(None, NEVER_RAN["message"])),
        ({"status": "Failure", "reason": "NonZeroExitCode"}, Ended(None, "NonZeroExitCode")),
        (
            {**EXITED, "details": {"causes": [{"reason": "ExitCode", "message": "soon"}]}},
            Ended(None, EXITED["message"]),
        ),
        ({}, Ended(None, "no reason was given")),
    ],
)
def test_how_a_command_ended(body, expected):
    assert ended(status(body)) == expected


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 60_000])
def test_what_is_no_status_says_nothing(data):
    assert ended(data) is None


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=900)), max_size=12))
def test_the_end_of_the_output_is_kept_as_it_came(parts):
    heard = Heard()
    for channel, data in parts:
        heard.take(bytes([channel]) + data)
    whole = b"".join(data for _channel, data in parts)
    expected = harmless(whole[-2000:].decode("utf-8", "replace")).strip()
    assert heard.output() == ("..." if len(whole) > 2000 else "") + expected
    assert heard.ended() is None


@given(st.integers(1, 200), st.booleans())
def test_a_status_in_pieces_is_one(size, failed):
    data, heard = status(EXITED if failed else {"status": "Success"}), Heard()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    for piece in pieces:
        assert heard.ended() is None
        heard.take(b"\x03" + piece)
    assert heard.ended() == ended(data)


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_message_is_a_traceback_and_no_output_acts_on_a_terminal(messages):
    heard = Heard()
    for message in messages:
        heard.take(message)
    assert all(one.isprintable() or one in "\n\t" for one in heard.output())
    found = heard.ended()
    assert found is None or isinstance(found, Ended)


@given(st.text())
def test_text_becomes_harmless_and_plain_text_stays(text):
    made = harmless(text)
    assert all(one.isprintable() or one in "\n\t" for one in made)
    assert harmless(made) == made


def test_the_escape_of_a_terminal_is_written_out():
    assert harmless("a\x1b[2Jb\r\n") == "a\\x1b[2Jb\\r\n"
