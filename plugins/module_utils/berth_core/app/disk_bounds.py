# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the schema of LocalDisk bounds (deploy/crds), checked on the options that become one, before anything is asked.

Called through disk_change. The API server would refuse the same, but only when disks before it in the list are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, QuantityError
from ..model.labels import check_labels
from ..model.names import check_subdomain, shown
from ..model.quantity import MAX_INT64, parse_quantity
from .identity import Identity, names_same

#: Characters of each key of an identity.
IDENTITY = {"wwn": 256, "serial": 256, "model": 256, "by_path": 512}
#: How many mount options a disk has at most.
MOUNT_OPTIONS = 32
#: Characters of a wipe's texts.
WIPE = {"request_id": 64, "requested_by": 253}
_MOUNT_OPTION = re.compile(r"[A-Za-z0-9_.:=/+-]{1,128}")


def check_texts(values: Mapping[str, Any], bounds: Mapping[str, int], where: str) -> None:
    """Refuse a text that is longer than its bound: a disk may call itself anything else. Raises InputError."""
    for option, most in bounds.items():
        text = str(values.get(option) or "")
        if len(text) > most:
            raise InputError(f"{where}: {option} is {shown(text)}: expected at most {most} characters")


def disk_size(value: Any) -> int | None:
    """A disk's size in bytes, None where none is given. Raises QuantityError.

    A disk has a whole number of bytes: nothing is rounded, and what only the cap of quantities makes a number is none.
    """
    if value is None:
        return None
    try:
        size = parse_quantity(value)
    except QuantityError as exc:
        raise QuantityError(f"size: {exc.message}", **exc.details) from exc
    if size.denominator != 1 or not 1 <= size < MAX_INT64:
        raise QuantityError(
            f"size is {shown(value)}: expected the whole number of bytes that the disk has, 1 or more, "
            "for example 480103981056 or 512Gi",
            quantity=str(value)[:80],
        )
    return int(size)


def check_place(wanted: Mapping[str, Any], where: str) -> None:
    """Node, class, mount options and labels. Raises InputError."""
    for option in ("node_name", "storage_class"):
        if wanted.get(option) not in (None, ""):
            check_subdomain(wanted[option], f"{where}: {option}")
    options, labels = wanted.get("mount_options") or (), wanted.get("labels") or {}
    if not isinstance(options, (list, tuple)):
        raise InputError(f"{where}: mount_options is {shown(options)}: expected a list")
    if not isinstance(labels, Mapping):
        raise InputError(f"{where}: labels is {shown(labels)}: expected a mapping")
    if len(options) > MOUNT_OPTIONS:
        raise InputError(f"{where}: mount_options has {len(options)} entries: expected at most {MOUNT_OPTIONS}")
    for option in options:
        if not is_mount_option(str(option)):
            raise InputError(
                f"{where}: mount option {shown(option)} has signs that no mount option has, or more than 128: "
                "expected one word for each entry, as noatime"
            )
    _check_labels(labels, f"{where}: labels")


def is_mount_option(text: str) -> bool:
    """Whether it is one word of mount(8): no comma, no blank, nothing that could begin another field or line."""
    return bool(_MOUNT_OPTION.fullmatch(text))


def _check_labels(labels: Mapping[Any, Any], where: str) -> None:
    for key, value in labels.items():
        if value is None or isinstance(value, (dict, list)):
            raise InputError(f"{where}: {key} is {shown(value)}: expected text")
    check_labels({str(key): str(value) for key, value in labels.items()}, where)


def check_different(disks: Sequence[tuple[str, str, Identity]]) -> None:
    """Refuse one physical disk under two names. ``disks``: (name, node, identity). Raises InputError.

    Two nodes may see one disk. Two disks of one node that share a key are told apart by another one.
    """
    known: dict[tuple[str, str, str], list[tuple[str, Identity]]] = {}
    for name, node, identity in disks:
        for key in identity.strong_keys():
            earlier = known.setdefault((node, *key), [])
            for other, its_identity in earlier:
                if names_same(identity, its_identity):
                    raise InputError(
                        f"LocalDisk {name}: its identity ({identity.describe()}) names the disk of LocalDisk {other} "
                        f"({its_identity.describe()}), too: expected one LocalDisk for each disk, and a key that tells "
                        "disks apart (wwn, serial or by_path)"
                    )
            earlier.append((name, identity))
