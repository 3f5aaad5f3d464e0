# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading API objects as plain dicts, with errors that name the field.

Called by every `from_object` of the model. Never changes an object, never guesses a type: a field that is absent or
null gives the empty value, a field of another type is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError

Object = Mapping[str, Any]

_NO_OBJECT: dict[str, Any] = {}
# A dict is looked for first: to ask an abstract class takes ten times as long, and there are very many values.
_OBJECTS = (dict, Mapping)


def _wrong(path: str, wanted: str, value: Any) -> InputError:
    return InputError(f"{path} must be {wanted}, got {type(value).__name__} {str(value)[:60]!r}", field=path)


def mapping(parent: Object, key: str, path: str = "") -> Object:
    """Return the object at `key`; empty where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return _NO_OBJECT
    if not isinstance(value, _OBJECTS):
        raise _wrong(path or key, "an object", value)
    return value


def objects(parent: Object, key: str, path: str = "") -> list[Object]:
    """Return the list of objects at `key`; empty where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or any(not isinstance(item, _OBJECTS) for item in value):
        raise _wrong(path or key, "a list of objects", value)
    return list(value)


def strings(parent: Object, key: str, path: str = "") -> tuple[str, ...]:
    """Return the list of strings at `key`; empty where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or any(not isinstance(item, str) for item in value):
        raise _wrong(path or key, "a list of strings", value)
    return tuple(value)


def string(parent: Object, key: str, path: str = "", default: str = "") -> str:
    """Return the string at `key`; `default` where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise _wrong(path or key, "a string", value)
    return str(value)


def integer(parent: Object, key: str, path: str = "", default: int = 0) -> int:
    """Return the integer at `key`; `default` where it is absent or null. Kubernetes has none of more than 64 bits."""
    value = parent.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value.bit_length() > 63:
        raise _wrong(path or key, "an integer", value)
    return int(value)


def boolean(parent: Object, key: str, path: str = "", default: bool = False) -> bool:
    """Return the boolean at `key`; `default` where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _wrong(path or key, "true or false", value)
    return bool(value)


def string_map(parent: Object, key: str, path: str = "") -> dict[str, str]:
    """Return the string-to-string object at `key` (labels, annotations); empty where it is absent or null."""
    value: Mapping[Any, Any] = mapping(parent, key, path)
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise _wrong(f"{path or key}.{name}", "a string", text)
    return dict(value)


def metadata(obj: Object, kind: str) -> tuple[str, str]:
    """Return (namespace, name) of an object; an object without a name is refused."""
    meta = mapping(obj, "metadata", f"{kind}: metadata")
    name = string(meta, "name", f"{kind}: metadata.name")
    if not name:
        raise InputError(f"{kind} without metadata.name: expected an object of the API", kind=kind)
    return string(meta, "namespace", f"{kind} {name}: metadata.namespace"), name
