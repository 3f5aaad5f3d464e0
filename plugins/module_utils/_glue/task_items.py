# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option items_src of the module task_batch: its file is read here, and by berth_core/tasks/items_file.py."""

from __future__ import annotations

from typing import Any

from ..berth_core.errors import InputError
from ..berth_core.tasks import items_file

try:
    import yaml
except ImportError:  # the kubernetes library brings it; refused, with a word on what is missing, for a YAML file alone
    yaml = None


def load_items(path: str) -> list[dict[str, Any]]:
    """The items of a file. Raises InputError that names the file, the line and what was expected."""
    file = f"items_src {path}"
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            text = stream.read(items_file.LARGEST_FILE + 1)
    except OSError as exc:
        raise InputError(f"{file} cannot be read: {exc.strerror}; expected a file of items") from exc
    except ValueError as exc:  # other bytes than UTF-8; a name with a NUL
        raise InputError(f"{file} cannot be read: {exc}; expected a text in UTF-8") from exc
    return items_file.read(text, file, yaml)


def read_items_src(arguments: dict[str, Any]) -> dict[str, Any]:
    """On the controller: read ``items_src`` there, for whoever runs the module where that file is not."""
    path = arguments.get("items_src")
    others = [option for option in ("items", "count") if arguments.get(option) is not None]
    if not isinstance(path, str) or others or arguments.get("state") in ("killed", "absent"):
        return arguments
    rest = {key: value for key, value in arguments.items() if key != "items_src"}
    return {**rest, "items": load_items(path)}
