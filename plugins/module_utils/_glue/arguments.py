# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible's own check of arguments ends in a traceback for: looked at before it, on the controller.

Called by plugin_utils/in_process.py. What the check refuses itself is left to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..berth_core.errors import InputError
from ..berth_core.model.names import shown


def check_shapes(options: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any], above: str = "") -> None:
    """Refuse a number for a mapping that has options of its own, and for an integer a list or what is no number at all.

    Raises InputError that names the option by its path.
    """
    for name, spec in options.items():
        for known in (name, *spec.get("aliases", ())):
            if known in arguments:
                _check(spec, arguments[known], f"{above}{known}")


def _check(spec: Mapping[str, Any], value: Any, path: str) -> None:
    kind = spec.get("type")
    if kind == "int" and isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{path} is {value}: expected a whole number")
    if kind == "int" and isinstance(value, (list, tuple)):  # a decimal in three parts, to Ansible's check
        raise InputError(f"{path} is {shown(value)}: expected a whole number")
    if kind == "list" and spec.get("elements") == "int":
        # Ansible takes one number for a list of one.
        for index, item in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            _check({"type": "int"}, item, f"{path}[{index}]")
    if not spec.get("options"):
        return
    if kind == "list":
        # Ansible takes one mapping for a list of one.
        items = value if isinstance(value, (list, tuple)) else [value] if isinstance(value, Mapping) else ()
        for index, item in enumerate(items):
            _check({**spec, "type": "dict"}, item, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        check_shapes(spec["options"], value, f"{path}.")
    elif value is not None and not isinstance(value, str):  # a text may be JSON or k=v
        raise InputError(f"{path} is {shown(value)}: expected a mapping")
