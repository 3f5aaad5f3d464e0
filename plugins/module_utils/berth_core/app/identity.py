# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which physical disk is meant: the keys that tell one disk from all others, and the refusal to guess.

Called by disk_plan (inventory -> disk), by local_disk (what may never change) and by disk_filesystem (is it still that
disk?). A device is one record of block_device_info. Never looks at a device's kernel name: it changes at every reboot.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import IdentityError, InputError

Device = Mapping[str, Any]

BY_PATH = "/dev/disk/by-path/"
_WWN_PREFIX = re.compile(r"^(0x|naa\.|eui\.)")
_BLANKS = re.compile(r"[\s_]+")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.-]+")
#: A LocalDisk's name ends in a dash and this many hexadecimal digits.
_DIGITS = 10
_NAME_LENGTH = 253


class Identity(NamedTuple):
    """The keys that were given; empty and None mean: not given. ``size`` in bytes, ``by_path`` without its folder."""

    wwn: str = ""
    serial: str = ""
    model: str = ""
    size: int | None = None
    by_path: str = ""

    def is_strong(self) -> bool:
        """Whether the keys can name one disk: model and size alone are shared by every disk of one purchase.

        A key of blanks, or of a prefix alone (``0x``), is one that every disk without that key agrees with: it is none.
        """
        return bool(self.strong_keys())

    def strong_keys(self) -> list[tuple[str, str]]:
        """The keys that can name one disk, each in the one spelling in which two are compared."""
        keys = (("wwn", _wwn(self.wwn)), ("serial", self.serial.strip()), ("by_path", self.by_path))
        return [(key, text) for key, text in keys if text]

    def describe(self) -> str:
        """The given keys, for people."""
        given = [(key, value) for key, value in zip(self._fields, self) if value]
        return ", ".join(f"{key.replace('_', '-')} {value}" for key, value in given) or "no identity at all"

    def to_spec(self) -> dict[str, Any]:
        """``spec.identity`` of a LocalDisk."""
        named = {"wwn": self.wwn, "serial": self.serial, "model": self.model, "byPath": self.by_path, "size": self.size}
        return {key: value for key, value in named.items() if value and str(value).strip()}


def from_spec(spec: Mapping[str, Any]) -> Identity:
    """The Identity of ``spec.identity`` of a LocalDisk."""
    return Identity(
        str(spec.get("wwn") or ""),
        str(spec.get("serial") or ""),
        str(spec.get("model") or ""),
        spec.get("size") or None,
        str(spec.get("byPath") or ""),
    )


def declared(keys: Mapping[str, Any], size: int | None) -> Identity:
    """The Identity that a person wrote (wwn, serial, model, by_path); ``size`` in bytes has been read already."""
    by_path = str(keys.get("by_path") or "").strip().removeprefix(BY_PATH)
    if "/" in by_path:
        raise InputError(
            f"by_path {by_path!r} is not a link below {BY_PATH}: expected a name as pci-0000:00:1f.2-ata-1"
        )
    texts = [str(keys.get(key) or "").strip() for key in ("wwn", "serial", "model")]
    return Identity(texts[0], texts[1], texts[2], size, by_path)


def observed_identity(device: Device, by_path: str = "") -> Identity:
    """What a LocalDisk will be known by: everything that belongs to the disk itself.

    The slot (``by_path``) is not part of the disk; it is kept only where the owner named it or there is nothing else.
    """
    texts = [str(device.get(key) or "") for key in ("wwn", "serial", "model")]
    return Identity(texts[0], texts[1], texts[2], device.get("size"), by_path)


def matches(identity: Identity, device: Device) -> bool:
    """Whether every given key agrees with the device."""
    if identity.wwn and _wwn(identity.wwn) != _wwn(device.get("wwn")):
        return False
    if identity.serial and identity.serial.strip() != str(device.get("serial") or "").strip():
        return False
    if identity.model and _model(identity.model) != _model(device.get("model")):
        return False
    if identity.size and identity.size != device.get("size"):
        return False
    return not identity.by_path or identity.by_path in (device.get("by_path") or ())


def agrees(part: Identity, whole: Identity) -> bool:
    """Whether ``part`` (some keys) may be another spelling of ``whole``: no key of both differs."""
    return (
        (not part.wwn or not whole.wwn or _wwn(part.wwn) == _wwn(whole.wwn))
        and (not part.serial or not whole.serial or part.serial.strip() == whole.serial.strip())
        and (not part.model or not whole.model or _model(part.model) == _model(whole.model))
        and (not part.size or not whole.size or part.size == whole.size)
        and (not part.by_path or not whole.by_path or part.by_path == whole.by_path)
    )


def names_same(part: Identity, whole: Identity) -> bool:
    """Whether ``part`` names the disk of ``whole`` by at least one of its strong keys, and contradicts none."""
    shared = dict(part.strong_keys()).keys() & dict(whole.strong_keys()).keys()
    return bool(shared) and agrees(part, whole)


def match(identity: Identity, devices: Iterable[Device]) -> Device | None:
    """The one device with that identity, None when it is not there.

    Raises IdentityError when the identity is weak, or when several devices carry it; both name the candidates.
    """
    found = [device for device in devices if matches(identity, device)]
    if not identity.is_strong():
        raise IdentityError(
            f"{identity.describe()}: too weak to name one disk; give its wwn or serial (or by_path). "
            f"Candidates: {describe_all(found)}",
            candidates=[str(device.get("path")) for device in found],
        )
    if len(found) > 1:
        raise IdentityError(
            f"{identity.describe()}: {len(found)} disks carry it, so it names none; add a key that tells them apart "
            f"(wwn, or by_path for disks with one serial). Candidates: {describe_all(found)}",
            candidates=[str(device.get("path")) for device in found],
        )
    return found[0] if found else None


def describe_all(devices: Sequence[Device]) -> str:
    """One line for an error: every device with all keys that it has."""
    return "; ".join(describe(device) for device in devices) or "none"


def describe(device: Device) -> str:
    """``/dev/sdb (serial S1, model M, 480103981056 bytes, pci-0000:00:1f.2-ata-1)``."""
    keys = [f"{key} {device[key]}" for key in ("wwn", "serial", "model") if device.get(key)]
    keys.append(f"{device.get('size') or 0} bytes")
    keys.extend(list(device.get("by_path") or ())[:1])
    return f"{device.get('path')} ({', '.join(keys)})"


def disk_name(node: str, identity: Identity) -> str:
    """``<node>-<10 hexadecimal digits>``: the same disk in the same node always gets the same LocalDisk name.

    The digits are of the SHA-256 of the strongest key alone, so that a key that shows up later changes nothing.
    """
    keys = identity.strong_keys()
    if not keys:
        raise IdentityError(f"{identity.describe()}: too weak to name a LocalDisk; give wwn, serial or by_path")
    kind, text = keys[0]
    digits = hashlib.sha256(f"{kind.replace('_', '-')}:{text}".encode()).hexdigest()[:_DIGITS]
    stem = _NOT_IN_A_NAME.sub("-", node.lower())[: _NAME_LENGTH - _DIGITS - 1].strip("-.")
    return f"{stem or 'node'}-{digits}"


def _wwn(text: object) -> str:
    return _WWN_PREFIX.sub("", str(text or "").strip().lower())


def _model(text: object) -> str:
    return _BLANKS.sub(" ", str(text or "")).strip()
