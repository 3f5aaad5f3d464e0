# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extenders and leader election of a scheduler's configuration. Called by configuration.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..model.fields import boolean, integer, mapping, objects, string
from ..model.labels import is_label_key
from ..model.requests import is_extended
from .reading import only, seconds, within, wrong

_JITTER = 1.2
_VERBS = ("filterVerb", "preemptVerb", "prioritizeVerb", "bindVerb")


@dataclass(frozen=True)
class LeaderElection:
    """Who leads is written in a Lease. Durations in seconds."""

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"

    @classmethod
    def parse(cls, source: Mapping[str, Any], path: str = "leaderElection") -> LeaderElection:
        """Read `leaderElection`. Raises InputError with the path."""
        durations = ("leaseDuration", "renewDeadline", "retryPeriod")
        only(source, ("leaderElect", "resourceLock", "resourceName", "resourceNamespace", *durations), path)
        # A duration of zero is one that was not given.
        lease, renew, retry = (
            seconds(source, key, f"{path}.{key}", default) or default
            for key, default in zip(durations, (15.0, 10.0, 2.0))
        )
        elect = boolean(source, "leaderElect", f"{path}.leaderElect", True)
        lock = string(source, "resourceLock", f"{path}.resourceLock") or "leases"
        if elect:
            if lease <= renew:
                raise wrong(f"{path}.leaseDuration", f"more than renewDeadline ({renew} s)", lease)
            if renew <= _JITTER * retry:
                raise wrong(f"{path}.renewDeadline", f"more than {_JITTER} times retryPeriod ({retry} s)", renew)
            if retry <= 0:
                raise wrong(f"{path}.retryPeriod", "more than 0", retry)
            if lock != "leases":
                raise wrong(f"{path}.resourceLock", "leases", lock)
        name = string(source, "resourceName", f"{path}.resourceName") or cls.resource_name
        namespace = string(source, "resourceNamespace", f"{path}.resourceNamespace") or cls.resource_namespace
        return cls(elect, lease, renew, retry, name, namespace)


@dataclass(frozen=True)
class Extender:
    """An HTTP extender; "" for a verb that it does not have. `managed`: resource -> ignored by the scheduler."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = False
    timeout: float = 5.0
    node_cache_capable: bool = False
    ignorable: bool = False
    managed: tuple[tuple[str, bool], ...] = ()
    tls: tuple[tuple[str, Any], ...] = ()


def parse_extenders(listed: list[Mapping[str, Any]], path: str = "extenders") -> tuple[Extender, ...]:
    """Read `extenders`. Raises InputError with the path."""
    found, managed = [], set()
    for index, source in enumerate(listed):
        one = _extender(source, f"{path}[{index}]")
        for position, (name, _ignored) in enumerate(one.managed):
            if name in managed:
                raise wrong(f"{path}[{index}].managedResources[{position}].name", "a resource of one extender", name)
            managed.add(name)
        found.append(one)
    binders = sum(bool(one.bind_verb) for one in found)
    if binders > 1:
        raise wrong(path, "at most one with a bindVerb", f"{binders} of them")
    return tuple(found)


def _extender(source: Mapping[str, Any], path: str) -> Extender:
    others = ("weight", "enableHTTPS", "tlsConfig", "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable")
    only(source, ("urlPrefix", *_VERBS, *others), path)
    filter_, preempt, prioritize, bind = (string(source, verb, f"{path}.{verb}") for verb in _VERBS)
    weight = integer(source, "weight", f"{path}.weight")
    if prioritize:
        within(weight, 1, None, f"{path}.weight")
    return Extender(
        url_prefix=string(source, "urlPrefix", f"{path}.urlPrefix"),
        filter_verb=filter_, preempt_verb=preempt, prioritize_verb=prioritize, bind_verb=bind,
        weight=weight,
        enable_https=boolean(source, "enableHTTPS", f"{path}.enableHTTPS"),
        timeout=seconds(source, "httpTimeout", f"{path}.httpTimeout", 0.0) or 5.0,
        node_cache_capable=boolean(source, "nodeCacheCapable", f"{path}.nodeCacheCapable"),
        ignorable=boolean(source, "ignorable", f"{path}.ignorable"),
        managed=_managed(source, f"{path}.managedResources"),
        tls=tuple(sorted(mapping(source, "tlsConfig", f"{path}.tlsConfig").items())),
    )  # fmt: skip


def _managed(source: Mapping[str, Any], path: str) -> tuple[tuple[str, bool], ...]:
    found = []
    for index, one in enumerate(objects(source, "managedResources", path)):
        only(one, ("name", "ignoredByScheduler"), f"{path}[{index}]")
        name = string(one, "name", f"{path}[{index}].name")
        if not is_label_key(name) or not is_extended(name):
            raise wrong(f"{path}[{index}].name", "the name of an extended resource", name)
        found.append((name, boolean(one, "ignoredByScheduler", f"{path}[{index}].ignoredByScheduler")))
    return tuple(found)
