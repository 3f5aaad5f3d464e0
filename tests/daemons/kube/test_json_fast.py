"""The compiled JSON parser gives what json of the standard library gives, and fails in the same way."""

from __future__ import annotations

import json
from typing import TypedDict

import pytest

from berth_kube.call import encode
from berth_kube.json_fast import decoder, encoder

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


class Shape(TypedDict, total=False):
    name: str
    labels: dict[str, str] | None


def test_a_shape_leaves_out_what_stands_beside_it() -> None:
    data = b'{"other": {"deep": [1, {"name": "no"}]}, "name": "a", "labels": null, "more": 1}'
    assert decoder(Shape)(data) == {"name": "a", "labels": None}


def test_what_is_not_of_the_shape_is_read_whole() -> None:
    assert decoder(Shape)(b'{"name": 1, "other": 2}') == {"name": 1, "other": 2}
    with pytest.raises(ValueError, match="truncated"):
        decoder(Shape)(b'{"name": 1')


def test_what_is_written_is_read_as_it_was() -> None:
    for value in LINES[:1] + LINES[2:]:
        assert json.loads(encoder()(value)) == json.loads(encode(value)) == value


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":}', b"\xff", b"{} {}"])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    for decode in (decoder(), json.loads):
        with pytest.raises(ValueError, match=r".+"):
            decode(data)
