"""The wire formats of Prometheus remote write and remote read (version 1): protobuf in Snappy's block format. Pure.

Written by hand because there is no pure-Python Snappy, and these messages are a dozen fields. Formats:
prometheus/prompb (remote.proto, types.proto) and google/snappy format_description.txt. What is sent is one literal
after the other, which every Snappy reader takes; what is read may be compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from berth_core.errors import ApiError

_LITERAL = 60
_CHUNK = 1 << 16
_MOST = 256 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
EQUAL = 0


class Series(NamedTuple):
    """One time series: labels, and (milliseconds since the epoch, value)."""

    labels: Mapping[str, str]
    points: Sequence[tuple[int, float]]


def write_request(series: Iterable[Series]) -> bytes:
    """A WriteRequest, compressed. Labels are sorted, as receivers demand."""
    return compress(b"".join(_field(1, _time_series(each)) for each in series))


def read_request(start: int, end: int, matchers: Mapping[str, str]) -> bytes:
    """A ReadRequest of one query, compressed: series with exactly these labels, between two times in milliseconds."""
    query = _number(1, start) + _number(2, end)
    for name, value in sorted(matchers.items()):
        query += _field(3, _number(1, EQUAL) + _field(2, name.encode()) + _field(3, value.encode()))
    return compress(_field(1, query))


def read_response(body: bytes) -> list[Series]:
    """The series of a ReadResponse. Raises ApiError for what is none."""
    try:
        found = []
        for number, result in _fields(decompress(body)):
            if number == 1 and isinstance(result, bytes):
                found += [_series(value) for key, value in _fields(result) if key == 1 and isinstance(value, bytes)]
    except (IndexError, ValueError, struct.error) as exc:
        raise ApiError(f"the answer is no remote read response: {exc}") from exc
    return found


# -- protobuf ----------------------------------------------------------------------------------------------------------


def _time_series(series: Series) -> bytes:
    labels = (_field(1, name.encode()) + _field(2, value.encode()) for name, value in sorted(series.labels.items()))
    points = (b"\x09" + struct.pack("<d", value) + _number(2, time) for time, value in series.points)
    return b"".join(_field(1, each) for each in labels) + b"".join(_field(2, each) for each in points)


def _series(message: bytes) -> Series:
    labels: dict[str, str] = {}
    points: list[tuple[int, float]] = []
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            pair = dict(_fields(value))
            labels[_text(pair.get(1))] = _text(pair.get(2))
        elif number == 2 and isinstance(value, bytes):
            point = dict(_fields(value))
            time, raw = point.get(2, 0), point.get(1, b"\0" * 8)
            if isinstance(time, int) and isinstance(raw, bytes):
                points.append((_signed(time), struct.unpack("<d", raw)[0]))
    return Series(labels, points)


def _text(value: int | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        elif not size:
            raise ValueError(f"wire type {kind}")
        if at + size > len(message):
            raise ValueError("cut off")
        yield key >> 3, message[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number that does not end")


# -- snappy ------------------------------------------------------------------------------------------------------------


def compress(data: bytes) -> bytes:
    """The block format, as literals: valid, and not one byte is saved."""
    made = [_varint(len(data))]
    for at in range(0, len(data), _CHUNK):
        chunk = data[at : at + _CHUNK]
        made.append(bytes([(_LITERAL + 1) << 2]) + struct.pack("<H", len(chunk) - 1) + chunk)
    return b"".join(made)


def decompress(data: bytes) -> bytes:
    """The content of a block. Raises ValueError or IndexError for what is none."""
    size, at = _read_varint(data, 0)
    if size > _MOST:
        raise ValueError(f"{size} bytes are more than expected")
    made = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if tag >> 2 >= _LITERAL:
                extra = (tag >> 2) - _LITERAL + 1
                length = int.from_bytes(data[at : at + extra], "little") + 1
                at += extra
            made += data[at : at + length]
            at += length
        else:
            offset, length, at = _copy(data, tag, at)
            if not 0 < offset <= len(made):
                raise ValueError("a copy from before the beginning")
            for _each in range(length):
                made.append(made[-offset])
        if len(made) > size:
            break
    if len(made) != size:
        raise ValueError(f"{len(made)} bytes, expected {size}")
    return bytes(made)


def _copy(data: bytes, tag: int, at: int) -> tuple[int, int, int]:
    """Offset, length and where the next element begins."""
    if tag & 3 == 1:
        return (tag >> 5) << 8 | data[at], (tag >> 2 & 7) + 4, at + 1
    width = 2 if tag & 3 == 2 else 4
    return int.from_bytes(data[at : at + width], "little"), (tag >> 2) + 1, at + width
