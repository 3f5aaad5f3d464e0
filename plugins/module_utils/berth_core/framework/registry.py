# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names to plugins: one static, sorted table. A name that is there twice is an error, not a log line.

Used by plugins/table.py (the built-in ones) and by programs that add their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..errors import InputError
from .contract import Plugin

Factory = Callable[[Mapping[str, Any], str], Plugin]
"""Makes a plugin from the arguments of its pluginConfig and the path at which they stand (for errors)."""


class Registry:
    """An immutable table of factories."""

    def __init__(self, factories: Iterable[tuple[str, Factory]]) -> None:
        listed = sorted(factories, key=lambda pair: pair[0])
        for (name, _make), (following, _other) in zip(listed, listed[1:]):
            if name == following:
                raise InputError(f"plugin {name} is registered twice: give one of them another name", plugin=name)
        self._factories = dict(listed)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(self._factories)

    def make(self, name: str, args: Mapping[str, Any] | None = None, path: str = "") -> Plugin:
        """Make a plugin. Raises InputError for an unknown name and for arguments that are wrong."""
        if name not in self._factories:
            raise InputError(f"unknown plugin {name!r}: expected one of {', '.join(self.names)}", plugin=name)
        return self._factories[name](args or {}, path or f"pluginConfig[{name}].args")

    def extended(self, more: Iterable[tuple[str, Factory]]) -> Registry:
        """Return a table with more plugins."""
        return Registry([*self._factories.items(), *more])
