# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a plugin's arguments: typed, checked, with the path of what is wrong in the error.

Called by every plugin's factory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..model.fields import integer, objects, string


def known_only(args: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    """Refuse an argument that the plugin does not have; apiVersion and kind are those of the file."""
    unknown = sorted(set(args) - {*known, "apiVersion", "kind"})
    if unknown:
        expected = f"expected {', '.join(known)}" if known else "this plugin takes none"
        raise InputError(f"{path}.{unknown[0]}: unknown argument; {expected}", field=f"{path}.{unknown[0]}")


def weighted_resources(source: Mapping[str, Any], path: str) -> tuple[tuple[str, int], ...]:
    """Read `resources`: a list of name and weight (1 to 100, 1 by default).

    Cpu and memory alike where there is none.
    """
    listed = objects(source, "resources", f"{path}.resources")
    if not listed:
        return (("cpu", 1), ("memory", 1))
    read = []
    for index, one in enumerate(listed):
        where = f"{path}.resources[{index}]"
        name, weight = string(one, "name", f"{where}.name"), integer(one, "weight", f"{where}.weight", 1) or 1
        if not name:
            raise InputError(f"{where}.name: expected the name of a resource", field=f"{where}.name")
        if not 1 <= weight <= 100:
            raise InputError(f"{where}.weight: expected 1 to 100, got {weight}", field=f"{where}.weight")
        read.append((name, weight))
    return tuple(read)
