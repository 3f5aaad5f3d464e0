# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A KubeSchedulerConfiguration (v1) as a value: what a scheduler is told, with every default filled in.

Called by front ends with the decoded file. The defaults, the merging of plugins and what is refused are those of
kube-scheduler v1.36. Settings of its process that mean nothing here (profiling, delayed cache sync) are read and kept
out of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..framework.profile import Profile
from ..framework.registry import Registry
from ..model.fields import boolean, integer, mapping, objects, string
from ..plugins.table import TABLE
from .connections import Extender, LeaderElection, parse_extenders
from .extender_address import address_of
from .names import ALIASES, EXTENDS, REMOVED
from .plugin_args import API_VERSION, arguments, takes_arguments
from .plugin_sets import Arrangement, arrange
from .reading import only, within, wrong

KIND = "KubeSchedulerConfiguration"
_NUMBERS = ("parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")
_SWITCHES = ("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive")
_CLIENT = ("kubeconfig", "acceptContentTypes", "contentType", "qps", "burst")


@dataclass(frozen=True)
class ProfileConfiguration:
    """One profile. `args`: of every plugin that has any, with defaults, as they would stand in the file.

    `ignored`: resources that extenders manage and the scheduler is to ignore. They go before the ignoredResources of
    NodeResourcesFit.
    """

    scheduler_name: str
    plugins: Arrangement
    args: Mapping[str, Mapping[str, Any]]
    percentage_of_nodes_to_score: int | None = None
    ignored: tuple[str, ...] = ()

    def build(self, table: Registry = TABLE) -> Profile:
        """Make the plugins. Names that the table does not have are left out: the queue and the binder know them."""
        args = {**self.args}
        if self.ignored:
            args["NodeResourcesFit"] = {**args.get("NodeResourcesFit", {}), "ignoredResources": list(self.ignored)}
        made = {
            name: table.make(name, args.get(name), f"pluginConfig[{name}].args")
            for name in self.plugins.names
            if name in table.names
        }
        return Profile.arranged(self.scheduler_name, made, self.plugins.points, self.plugins.weights)


@dataclass(frozen=True)
class SchedulerConfiguration:
    """The whole file. Durations in seconds."""

    profiles: tuple[ProfileConfiguration, ...]
    leader_election: LeaderElection
    extenders: tuple[Extender, ...] = ()
    parallelism: int = 16
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff: int = 1
    pod_max_backoff: int = 10
    kubeconfig: str = ""

    @classmethod
    def parse(
        cls,
        source: Mapping[str, Any],
        table: Registry = TABLE,
        extends: Mapping[str, tuple[str, ...]] | None = None,
    ) -> SchedulerConfiguration:
        """Read a decoded file. Raises InputError with the path of the first field that is wrong.

        `table` and `extends`: with the plugins that come from outside.
        """
        sections = ("leaderElection", "clientConnection", "profiles", "extenders")
        only(source, ("apiVersion", "kind", *_NUMBERS, *_SWITCHES, *sections), "")
        if source.get("kind") != KIND or source.get("apiVersion") != API_VERSION:
            raise wrong("kind", f"{KIND} of {API_VERSION}", f"{source.get('kind')} of {source.get('apiVersion')}")
        for switch in _SWITCHES:
            boolean(source, switch, switch)
        client = mapping(source, "clientConnection", "clientConnection")
        only(client, _CLIENT, "clientConnection")
        initial = within(integer(source, "podInitialBackoffSeconds", "", 1), 1, None, "podInitialBackoffSeconds")
        profiles = _profiles(source, table, EXTENDS if extends is None else extends)
        extenders = parse_extenders(objects(source, "extenders", "extenders"))
        ignored = tuple(name for one in extenders for name, by_scheduler in one.managed if by_scheduler)
        return cls(
            profiles=tuple(replace(one, ignored=ignored) for one in profiles),
            leader_election=LeaderElection.parse(mapping(source, "leaderElection", "leaderElection")),
            extenders=extenders,
            parallelism=within(integer(source, "parallelism", "parallelism", 16), 1, None, "parallelism"),
            percentage_of_nodes_to_score=_percentage(source, "") or 0,
            pod_initial_backoff=initial,
            pod_max_backoff=within(
                integer(source, "podMaxBackoffSeconds", "podMaxBackoffSeconds", 10),
                initial,
                None,
                "podMaxBackoffSeconds",
            ),
            kubeconfig=string(client, "kubeconfig", "clientConnection.kubeconfig"),
        )

    def check(self, table: Registry = TABLE) -> None:
        """Raise InputError for a plugin that cannot be made, and for an extender that could never be asked."""
        for profile in self.profiles:
            profile.build(table)
        for index, one in enumerate(self.extenders):
            address_of(one, f"extenders[{index}]")
            if one.timeout <= 0:
                raise wrong(f"extenders[{index}].httpTimeout", "more than 0s", f"{one.timeout:g}s")

    def extenders_in_order(self) -> tuple[Extender, ...]:
        """Return the extenders in the order in which they are asked: those that may be ignored last."""
        return tuple(sorted(self.extenders, key=lambda one: one.ignorable))

    def share_of_nodes(self, profile: ProfileConfiguration) -> int:
        """Return percentageOfNodesToScore for a profile: its own, else that of all; 0: all nodes."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own


def _percentage(source: Mapping[str, Any], path: str) -> int | None:
    where = f"{path}.percentageOfNodesToScore".lstrip(".")
    if source.get("percentageOfNodesToScore") is None:
        return None
    return within(integer(source, "percentageOfNodesToScore", where), 0, 100, where)


def _profiles(
    source: Mapping[str, Any], table: Registry, extends: Mapping[str, tuple[str, ...]]
) -> tuple[ProfileConfiguration, ...]:
    listed = objects(source, "profiles", "profiles") or [{}]
    default = "default-scheduler" if len(listed) == 1 else ""
    found: list[ProfileConfiguration] = []
    for index, one in enumerate(listed):
        read = _profile(one, f"profiles[{index}]", default, table, extends)
        if read.scheduler_name in {other.scheduler_name for other in found}:
            raise wrong(f"profiles[{index}].schedulerName", "a name that no other profile has", read.scheduler_name)
        first = found[0].plugins if found else read.plugins
        if (read.plugins.queue_sort, read.plugins.points["queueSort"]) != (first.queue_sort, first.points["queueSort"]):
            where = f"profiles[{index}].plugins.queueSort"
            raise InputError(f"{where}: expected the same as in profiles[0]: there is one queue for all", field=where)
        found.append(read)
    return tuple(found)


def _profile(
    source: Mapping[str, Any], path: str, default: str, table: Registry, extends: Mapping[str, tuple[str, ...]]
) -> ProfileConfiguration:
    only(source, ("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"), path)
    name = string(source, "schedulerName", f"{path}.schedulerName", default)
    if not name:
        raise wrong(f"{path}.schedulerName", "a name", name)
    plugins = arrange(mapping(source, "plugins", f"{path}.plugins"), f"{path}.plugins", extends)
    given: dict[str, tuple[Mapping[str, Any], str]] = {}
    for index, one in enumerate(objects(source, "pluginConfig", f"{path}.pluginConfig")):
        where = f"{path}.pluginConfig[{index}]"
        only(one, ("name", "args"), where)
        plugin = _plugin_name(string(one, "name", f"{where}.name"), f"{where}.name", extends)
        if plugin in given:
            raise wrong(f"{where}.name", "each plugin once", plugin)
        given[plugin] = (mapping(one, "args", f"{where}.args"), f"{where}.args")
    args = {}
    for plugin in sorted({*given, *plugins.alias_args, *(one for one in plugins.names if takes_arguments(one))}):
        own, where = given.get(plugin, ({}, f"{path}.pluginConfig[{plugin}].args"))
        args[plugin] = arguments(plugin, {**plugins.alias_args.get(plugin, {}), **own}, where, table)
    return ProfileConfiguration(name, plugins, args, _percentage(source, path))


def _plugin_name(name: str, path: str, extends: Mapping[str, tuple[str, ...]]) -> str:
    if name in ALIASES:
        return ALIASES[name][0]
    if name in REMOVED or name not in extends:
        raise InputError(f"{path}: unknown plugin {name!r}; expected one of {', '.join(sorted(extends))}", field=path)
    return name
