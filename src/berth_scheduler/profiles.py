"""A profile that runs: the engine's plugins, and what acts for them in this process.

configuration.py says what stands where; the scheduler reads the result. A plugin from outside acts itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from berth_core.app.fsid import DEFAULT_MOUNT_ROOT
from berth_core.cluster.snapshot import Snapshot
from berth_core.config.configuration import ProfileConfiguration, SchedulerConfiguration
from berth_core.config.names import EXTENDS
from berth_core.framework.binding import Bind, Hold, PostBind, PreBind, PreFlight
from berth_core.framework.contract import Permit, Plugin, PreEnqueue, QueueSort, Status
from berth_core.framework.events import EVERYTHING, Wish, Wishes
from berth_core.framework.extended import NAME as EXTENDER
from berth_core.framework.profile import Profile
from berth_core.framework.queue import Rules
from berth_core.framework.registry import Registry
from berth_core.model.pod import PodInfo
from berth_core.plugins.coscheduling import Coscheduling, group_of
from berth_core.plugins.default_preemption import DefaultPreemption
from berth_core.plugins.dynamic_resources import DynamicResources
from berth_core.plugins.hints import wishes_of

from .binding import Actors, DefaultBinder
from .cluster import Cluster
from .consulted.extender import HttpExtender
from .devices import ResourceClaims
from .disks import LocalDisks
from .guarded import GuardedGate, guarded_order
from .volumes import Volumes


class Running(NamedTuple):
    """One profile. ``volumes``, ``disks`` and ``claims`` count, lock and write what the engine has chosen.

    ``share``: how many of the nodes are enough, in per cent; 0: all are looked at. ``extenders``: of the configuration.
    """

    profile: Profile
    permits: tuple[tuple[str, Permit], ...]
    actors: Actors
    gates: tuple[tuple[str, PreEnqueue], ...]
    wishes: Wishes
    volumes: Volumes
    disks: LocalDisks
    claims: ResourceClaims
    share: int = 0
    extenders: tuple[HttpExtender, ...] = ()


@dataclass(frozen=True)
class GroupGate:
    """Coscheduling at PreEnqueue: only the cluster knows how many members a group has."""

    plugin: Coscheduling
    members: Callable[[tuple[str, str]], int]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Keep a member back while there are too few."""
        group = group_of(pod)
        return self.plugin.gate(pod, self.members(group) if group is not None else 1)


@dataclass(frozen=True)
class ClaimGate:
    """DynamicResources at PreEnqueue: a pod is not tried before its claims are there."""

    plugin: DynamicResources
    snapshot: Snapshot

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Keep a pod back whose claims are still being made."""
        return self.plugin.gate(self.snapshot, pod)


def run_profile(
    configured: ProfileConfiguration,
    table: Registry,
    cluster: Cluster,
    preempting: PreEnqueue,
    mount_root: str = DEFAULT_MOUNT_ROOT,
    share: int = 0,
    extenders: tuple[HttpExtender, ...] = (),
) -> Running:
    """Make the plugins of a profile, and what acts for them. ``preempting``: DefaultPreemption's gate."""
    profile = configured.build(table)
    plugins = {one.name: one for one in profile.plugins}
    points = configured.plugins.points
    seconds = float(configured.args.get("VolumeBinding", {}).get("bindTimeoutSeconds", 600))
    volumes = Volumes(cluster, seconds)
    disks = LocalDisks(cluster, volumes, mount_root)
    acting: dict[str, Any] = {**plugins}
    claims = ResourceClaims(cluster)
    for one in (volumes, disks, claims, DefaultBinder()):
        acting[one.name] = one
    at = {point: [(name, acting[name]) for name in listed if name in acting] for point, listed in points.items()}
    actors = _actors(at)
    permits = tuple((name, plugins[name]) for name in points["permit"] if isinstance(plugins.get(name), Permit))
    gates = tuple(_gates(plugins, points["preEnqueue"], cluster, preempting))
    wishes = {**wishes_of(profile.plugins), EXTENDER: (Wish(EVERYTHING),)}
    return Running(profile, permits, actors, gates, wishes, volumes, disks, claims, share, extenders)  # type: ignore[arg-type]


def actors_for(running: Running, pod: PodInfo) -> Actors:
    """Who acts for a pod: an extender that binds goes before all Bind plugins."""
    actors = running.actors
    binders = tuple((str(one), one) for one in running.extenders if one.config.bind_verb and one.concerns(pod))
    return actors._replace(binds=(*binders, *actors.binds), pre_flights=None) if binders else actors


def _actors(at: Mapping[str, list[tuple[str, Any]]]) -> Actors:
    """``at``: who stands at which point."""
    holds = tuple((name, one) for name, one in at["reserve"] if isinstance(one, Hold))
    pre_binds = tuple((name, one) for name, one in at["preBind"] if isinstance(one, PreBind))
    binds = tuple((name, one) for name, one in at["bind"] if isinstance(one, Bind))
    post_binds = tuple((name, one) for name, one in at["postBind"] if isinstance(one, PostBind))
    before: dict[str, object] = dict((*holds, *pre_binds))
    able = {name: one for name, one in before.items() if isinstance(one, PreFlight)}
    whole = len(able) == len(before) and bool(binds) and isinstance(binds[0][1], DefaultBinder)
    return Actors(holds, pre_binds, binds, post_binds, tuple(able.items()) if whole else None)


def _gates(
    plugins: Mapping[str, Plugin], names: tuple[str, ...], cluster: Cluster, preempting: PreEnqueue
) -> Iterator[tuple[str, PreEnqueue]]:
    for name in names:
        plugin: object = plugins.get(name)
        if isinstance(plugin, Coscheduling):
            yield name, GroupGate(plugin, cluster.members)
        elif isinstance(plugin, DynamicResources):
            yield name, ClaimGate(plugin, cluster.snapshot)
        elif isinstance(plugin, DefaultPreemption):
            yield name, preempting
        elif isinstance(plugin, PreEnqueue):
            yield name, plugin if name in EXTENDS else GuardedGate(name, plugin)


def queue_rules(configuration: SchedulerConfiguration, running: Mapping[str, Running]) -> Rules:
    """What all profiles together say of the queue; the configuration has made sure that they have one QueueSort."""
    first = configuration.profiles[0]
    profile = running[first.scheduler_name].profile
    name = first.plugins.points["queueSort"][0]
    sort = next(one for one in profile.plugins if one.name == name and isinstance(one, QueueSort))
    return Rules(
        sort.queue_key if name in EXTENDS else guarded_order(name, sort.queue_key),
        {name: one.gates for name, one in running.items()},
        {name: one.wishes for name, one in running.items()},
        float(configuration.pod_initial_backoff),
        float(configuration.pod_max_backoff),
    )
