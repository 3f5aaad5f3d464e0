# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What filters of documents have in common: they take a mapping, and say in Ansible's way what was wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils.berth_core.errors import InputError


def of_mapping(name: str, value: Any, make: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """What ``make`` makes of it. Raises AnsibleFilterError that names the filter and what was expected."""
    if not isinstance(value, Mapping):
        raise AnsibleFilterError(f"{name}: expected a mapping, got {type(value).__name__}")
    try:
        return make(value)
    except InputError as exc:
        raise AnsibleFilterError(f"{name}: {exc}") from exc
