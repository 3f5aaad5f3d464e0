# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile: which plugins stand at which extension point, in which order, with which weight.

Built once by a front end (plugins/table.py has the default one), read by framework/cycle.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError
from .contract import (
    Explain,
    Filter,
    Fixes,
    Follows,
    Normalize,
    Plugin,
    PostFilter,
    PreFilter,
    PreScore,
    Reads,
    Reserve,
    Score,
)


@dataclass(frozen=True)
class Scorer:
    """A score plugin and its weight."""

    plugin: Score
    name: str
    weight: int
    normalize: Normalize | None

    @classmethod
    def of(cls, plugin: Score, name: str, weight: int) -> Scorer:
        """Look once whether the plugin normalizes: asking a protocol costs more than scoring."""
        return cls(plugin, name, weight, normalized(plugin))


@dataclass(frozen=True)
class Follower:
    """A plugin that follows replicas. `filters`: it stands at Filter; `weight`: of its scores, 0 where it has none."""

    plugin: Follows
    name: str
    filters: bool
    weight: int


@dataclass(frozen=True)
class Profile:
    """Plugins by extension point, in order. Plugins are found at a point by what they can do."""

    name: str
    plugins: tuple[Plugin, ...]
    pre_filters: tuple[tuple[str, PreFilter], ...]
    filters: tuple[tuple[str, Filter], ...]
    post_filters: tuple[PostFilter, ...]
    pre_scores: tuple[tuple[str, PreScore], ...]
    scorers: tuple[Scorer, ...]
    reserves: tuple[Reserve, ...]
    explains: tuple[Explain, ...]
    fixes: tuple[tuple[str, Fixes], ...]
    readers: tuple[tuple[str, Reads], ...] | None
    """The plugins that place pods; None where one of them does not say what it looks at."""
    follows: tuple[Follower, ...]

    @classmethod
    def build(cls, name: str, weighted: Iterable[tuple[Plugin, int]]) -> Profile:
        """Build a profile from plugins and their weights. A plugin of weight 0 does not score."""
        listed = tuple(weighted)
        plugins = tuple(plugin for plugin, _weight in listed)
        names = [plugin.name for plugin in plugins]
        twice = sorted({one for one in names if names.count(one) > 1})
        if twice:
            raise InputError(f"profile {name}: plugin {twice[0]} is enabled twice", profile=name, plugin=twice[0])
        return cls(
            name=name,
            plugins=plugins,
            pre_filters=tuple((one.name, one) for one in plugins if isinstance(one, PreFilter)),
            filters=tuple((one.name, one) for one in plugins if isinstance(one, Filter)),
            post_filters=tuple(one for one in plugins if isinstance(one, PostFilter)),
            pre_scores=tuple((one.name, one) for one in plugins if isinstance(one, PreScore)),
            scorers=tuple(
                Scorer.of(one, one.name, weight) for one, weight in listed if weight > 0 and isinstance(one, Score)
            ),
            reserves=tuple(one for one in plugins if isinstance(one, Reserve)),
            explains=tuple(one for one in plugins if isinstance(one, Explain)),
            fixes=tuple((one.name, one) for one in plugins if isinstance(one, Fixes)),
            readers=_readers(plugins),
            follows=_follows(plugins, plugins, {one.name: weight for one, weight in listed}),
        )

    @classmethod
    def arranged(
        cls, name: str, plugins: Mapping[str, Plugin], points: Mapping[str, Sequence[str]], weights: Mapping[str, int]
    ) -> Profile:
        """Build a profile from plugins by name and what stands where, as a configuration file says it.

        `points`: names by extension point, in order; a name without a plugin, or whose plugin has nothing to do at the
        point, is passed over. `weights`: of those that score.
        """
        at = {point: [plugins[one] for one in listed if one in plugins] for point, listed in points.items()}
        whole = tuple(plugins.values())
        return cls(
            name=name,
            plugins=whole,
            pre_filters=tuple((one.name, one) for one in at["preFilter"] if isinstance(one, PreFilter)),
            filters=tuple((one.name, one) for one in at["filter"] if isinstance(one, Filter)),
            post_filters=tuple(one for one in at["postFilter"] if isinstance(one, PostFilter)),
            pre_scores=tuple((one.name, one) for one in at["preScore"] if isinstance(one, PreScore)),
            scorers=tuple(Scorer.of(one, one.name, weights[one.name]) for one in at["score"] if isinstance(one, Score)),
            reserves=tuple(one for one in at["reserve"] if isinstance(one, Reserve)),
            explains=tuple(one for one in whole if isinstance(one, Explain)),
            fixes=tuple((one.name, one) for one in whole if isinstance(one, Fixes)),
            readers=_readers(whole),
            follows=_follows(whole, at["filter"], {one.name: weights[one.name] for one in at["score"]}),
        )


def _readers(plugins: Sequence[Plugin]) -> tuple[tuple[str, Reads], ...] | None:
    placing = [one for one in plugins if isinstance(one, (PreFilter, Filter, PreScore, Score, Reserve))]
    found = tuple((one.name, one) for one in placing if isinstance(one, Reads))
    return found if len(found) == len(placing) else None


def _follows(plugins: Sequence[Plugin], filters: Sequence[Plugin], weights: Mapping[str, int]) -> tuple[Follower, ...]:
    return tuple(
        Follower(
            one,
            one.name,
            one in filters and isinstance(one, Filter),
            max(weights.get(one.name, 0), 0) if isinstance(one, Score) else 0,
        )
        for one in plugins
        if isinstance(one, Follows)
    )


def normalized(plugin: object) -> Normalize | None:
    """Return the plugin as one that normalizes, or None."""
    return plugin if isinstance(plugin, Normalize) else None
