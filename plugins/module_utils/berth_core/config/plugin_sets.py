# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which plugins stand at which extension point: the file's `plugins`, merged with the defaults and expanded.

Called by configuration.py. The rules are kube-scheduler's: multiPoint stands for all points that a plugin has; what a
single point says wins, and stands first there; disabled "*" takes all of multiPoint away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..model.fields import integer, mapping, objects, string
from ..plugins.table import DEFAULT
from .names import ALIASES, EXTENDS, PLACEMENT_POINTS, POINTS, REMOVED
from .reading import only, wrong

MAX_WEIGHT = (2**63 - 1) // 100
Enabled = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PluginSet:
    """What a file says of one extension point: plugins with weights (0: none was given), and names taken out."""

    enabled: Enabled = ()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Arrangement:
    """Names by extension point, in order; weights of those that score; `alias_args`: arguments that old names imply."""

    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    alias_args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    queue_sort: PluginSet = PluginSet()
    """What the file says of this point: all profiles must say the same, as they share the queue."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return every plugin that stands anywhere, sorted."""
        return tuple(sorted({name for listed in self.points.values() for name in listed}))


def arrange(source: Mapping[str, Any], path: str, extends: Mapping[str, tuple[str, ...]] | None = None) -> Arrangement:
    """Read `plugins` of a profile. `extends`: the extension points of every plugin there is. Raises InputError."""
    only(source, (*POINTS, *PLACEMENT_POINTS, "multiPoint"), path)
    known = EXTENDS if extends is None else extends
    aliased: dict[str, dict[str, Any]] = {}
    sets = {
        point: _plugin_set(mapping(source, point, f"{path}.{point}"), f"{path}.{point}", known, aliased)
        for point in (*POINTS, "multiPoint")
    }
    multi = _merged(DEFAULT, sets["multiPoint"])
    points = {point: _expanded(point, sets[point], multi, path, known) for point in POINTS}
    for point, expected in (("queueSort", "exactly one plugin"), ("bind", "at least one plugin")):
        if not points[point] or (point == "queueSort" and len(points[point]) > 1):
            raise wrong(f"{path}.{point}", expected, ", ".join(points[point]) or "none")
    return Arrangement(points, _weights(points["score"], sets["score"].enabled, multi), aliased, sets["queueSort"])


def _plugin_set(
    source: Mapping[str, Any], path: str, extends: Mapping[str, tuple[str, ...]], aliased: dict[str, dict[str, Any]]
) -> PluginSet:
    only(source, ("enabled", "disabled"), path)
    enabled = []
    for index, one in enumerate(objects(source, "enabled", f"{path}.enabled")):
        where = f"{path}.enabled[{index}]"
        only(one, ("name", "weight"), where)
        name = _known(string(one, "name", f"{where}.name"), f"{where}.name", extends, aliased)
        weight = integer(one, "weight", f"{where}.weight")
        if not 0 <= weight <= MAX_WEIGHT:
            raise wrong(f"{where}.weight", f"0 to {MAX_WEIGHT}", weight)
        enabled.append((name, weight))
    disabled = set()
    for index, one in enumerate(objects(source, "disabled", f"{path}.disabled")):
        only(one, ("name", "weight"), f"{path}.disabled[{index}]")
        name = string(one, "name", f"{path}.disabled[{index}].name")
        disabled.add(ALIASES[name][0] if name in ALIASES else name)
    return PluginSet(tuple(enabled), frozenset(disabled))


def _known(name: str, path: str, extends: Mapping[str, tuple[str, ...]], aliased: dict[str, dict[str, Any]]) -> str:
    if name in ALIASES:
        plugin, args = ALIASES[name]
        for key, value in args.items():
            known = aliased.setdefault(plugin, {})
            both = isinstance(value, dict) and isinstance(known.get(key), dict)
            known[key] = {**known[key], **value} if both else value
        return plugin
    if name in REMOVED:
        raise InputError(f"{path}: {name} is gone since v1.32; NodeVolumeLimits does its work", field=path)
    if name not in extends:
        raise InputError(f"{path}: unknown plugin {name!r}; expected one of {', '.join(sorted(extends))}", field=path)
    return name


def _merged(default: Enabled, custom: PluginSet) -> Enabled:
    """Return the defaults without those disabled, reconfigured in place; then what is new."""
    given, replaced, merged = dict(custom.enabled), set(), []
    for name, weight in default if "*" not in custom.disabled else ():
        if name in custom.disabled:
            continue
        if name in given:
            replaced.add(name)
        merged.append((name, given.get(name, weight)))
    return (*merged, *((name, weight) for name, weight in custom.enabled if name not in replaced))


def _expanded(
    point: str, own: PluginSet, multi: Enabled, path: str, extends: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return: what both name, in the point's order; what multiPoint names; what the point alone names."""
    named = [name for name, _weight in own.enabled]
    _no_duplicates(named, f"{path}.{point}")
    for name in named:
        if point not in extends[name]:
            raise InputError(f"{path}.{point}: {name} does not extend {point}", field=f"{path}.{point}")
    if "*" in own.disabled:
        return tuple(named)
    spread = [name for name, _weight in multi if point in extends[name] and name not in own.disabled]
    rest = [name for name in spread if name not in named]
    _no_duplicates(rest, f"{path}.multiPoint")
    both = [name for name in named if name in spread]
    return (*both, *rest, *(name for name in named if name not in both))


def _no_duplicates(names: Iterable[str], path: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{path}: {name} is enabled twice", field=path)
        seen.add(name)


def _weights(scorers: Iterable[str], own: Enabled, multi: Enabled) -> dict[str, int]:
    """Return the weights; the score point's own go before multiPoint's, and no weight is 1."""
    first: dict[str, int] = {}
    for name, weight in (*own, *multi):
        first.setdefault(name, weight or 1)
    return {name: first[name] for name in scorers}
