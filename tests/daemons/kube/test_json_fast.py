"""The compiled JSON parser gives what json of the standard library gives, and fails in the same way."""

from __future__ import annotations

import json

import pytest

from berth_kube.json_fast import decoder

LINES = [
    {"type": "ADDED", "object": {"metadata": {"name": "a", "labels": None, "generation": 1}, "spec": {}, "items": []}},
    {"text": 'quotes " and \\ and \n and ä and 😀 and \x00', "big": 123456789012345678901234567890, "real": 1.5e-300},
    {"deep": [[[[[{"a": [True, False, None, -1, 0.0]}]]]]]},
]


def test_it_is_the_compiled_one() -> None:
    assert decoder() is not json.loads


@pytest.mark.parametrize("value", LINES, ids=["event", "texts", "deep"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_same_values(value: object, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert decoder()(data) == json.loads(data) == value


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":}', b"\xff", b"{} {}"])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    for decode in (decoder(), json.loads):
        with pytest.raises(ValueError, match=r".+"):
            decode(data)
