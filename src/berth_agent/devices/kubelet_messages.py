"""The messages that kubelet and plugin exchange (plugin registration v1, DRA v1, DRA health
v1alpha1), in protobuf's wire format. Pure.

Field numbers are those of the kubelet's published interface. The handful of message shapes there (texts, flags, lists,
nested messages and maps from text) does not need the protobuf runtime, which would cost 3 to 4 MB of the agent's 40;
HTTP/2 and gRPC themselves are grpclib's. What is not known is skipped, as the format asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from grpclib.encoding.base import CodecBase

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """``kind``: str, bool, int (never negative) or a nested message. ``many``: a list. ``keyed``: a map from text."""

    name: str
    kind: Any
    many: bool = False
    keyed: bool = False


Message = Mapping[int, Field]
Value = dict[str, Any]

NOTHING: Message = {}
PLUGIN_INFO: Message = {
    1: Field("type", str),
    2: Field("name", str),
    3: Field("endpoint", str),
    4: Field("supported_versions", str, many=True),
}
REGISTRATION_STATUS: Message = {1: Field("plugin_registered", bool), 2: Field("error", str)}
CLAIM: Message = {1: Field("namespace", str), 2: Field("uid", str), 3: Field("name", str)}
CLAIMS: Message = {1: Field("claims", CLAIM, many=True)}
DEVICE: Message = {
    1: Field("request_names", str, many=True),
    2: Field("pool_name", str),
    3: Field("device_name", str),
    4: Field("cdi_device_ids", str, many=True),
    5: Field("share_id", str),
}
PREPARED: Message = {1: Field("devices", DEVICE, many=True), 2: Field("error", str)}
PREPARED_CLAIMS: Message = {1: Field("claims", PREPARED, keyed=True)}
UNPREPARED: Message = {1: Field("error", str)}
UNPREPARED_CLAIMS: Message = {1: Field("claims", UNPREPARED, keyed=True)}
DEVICE_NAME: Message = {1: Field("pool_name", str), 2: Field("device_name", str)}
DEVICE_HEALTH: Message = {
    1: Field("device", DEVICE_NAME),
    2: Field("health", int),
    3: Field("last_updated_time", int),
    4: Field("health_check_timeout_seconds", int),
    5: Field("message", str),
}
HEALTH: Message = {1: Field("devices", DEVICE_HEALTH, many=True)}


class Codec(CodecBase):
    """For grpclib: a message type is one of the tables above, a message a plain mapping."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return encode(message, message_type)

    def decode(self, data: bytes, message_type: Any) -> Any:
        return decode(data, message_type)


def encode(value: Mapping[str, Any], message: Message) -> bytes:
    """Bytes of a message. Empty texts, False and empty lists are not written, as proto3 has it."""
    out = bytearray()
    for number, field in message.items():
        given = value.get(field.name)
        if not given:
            continue
        if field.keyed:
            entry = {1: Field("key", str), 2: Field("value", field.kind)}
            for key, each in given.items():
                # the value of an entry is written even when it is empty: the receiver would have none otherwise
                text = encode({"key": key}, entry) + _block(2, encode(each, field.kind))
                out += _block(number, text)
        else:
            for each in given if field.many else [given]:
                out += _one(number, field, each)
    return bytes(out)


def _one(number: int, field: Field, value: Any) -> bytes:
    if field.kind in (bool, int):
        return _varint(number << 3 | VARINT) + _varint(int(value))
    return _block(number, value.encode() if field.kind is str else encode(value, field.kind))


def _block(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(data: bytes, message: Message) -> Value:
    """The value of a message, with an entry for every field of the table. Raises ValueError for what is none."""
    value: Value = {field.name: _empty(field) for field in message.values()}
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        content, position = _read(data, position, tag & 7)
        field = message.get(tag >> 3)
        if field is not None:
            _put(value, field, content)
    return value


def _empty(field: Field) -> Any:
    if field.keyed:
        return {}
    if field.many:
        return []
    return field.kind() if field.kind in (str, bool, int) else None


def _put(value: Value, field: Field, content: int | bytes) -> None:
    if field.keyed:
        entry = decode(_as_bytes(content), {1: Field("key", str), 2: Field("value", field.kind)})
        value[field.name][entry["key"]] = entry["value"] if entry["value"] is not None else decode(b"", field.kind)
        return
    if field.kind in (bool, int):
        if not isinstance(content, int):
            raise ValueError(f"a text stands where {field.name} has a number")
        each: Any = field.kind(content)
    elif field.kind is str:
        each = _as_bytes(content).decode()
    else:
        each = decode(_as_bytes(content), field.kind)
    if field.many:
        value[field.name].append(each)
    else:
        value[field.name] = each


def _as_bytes(content: int | bytes) -> bytes:
    if isinstance(content, int):
        raise ValueError("a number stands where the message has a text")
    return content


def _read(data: bytes, position: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type == VARINT:
        return _read_varint(data, position)
    if wire_type == BYTES:
        length, position = _read_varint(data, position)
    elif wire_type in (FIXED64, FIXED32):
        length = 8 if wire_type == FIXED64 else 4
    else:
        raise ValueError(f"wire type {wire_type} is not one of protobuf's")
    if position + length > len(data):
        raise ValueError("the message ends in the middle of a field")
    return data[position : position + length], position + length


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("the message ends in the middle of a number")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
