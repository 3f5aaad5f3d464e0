# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Affinity and anti-affinity between pods: terms that speak of other pods' labels and namespaces.

Called by model/pod.py, the table of terms and the plugin InterPodAffinity. A term is read together with the pod that
has it: where it names no namespace, it speaks of that pod's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import SelectorError
from .fields import Object, mapping, objects, string, strings
from .labels import IN, NOT_IN, LabelSelector, Requirement

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@dataclass(frozen=True)
class PodTerm:
    """Pods of some namespaces with some labels, in one domain of `topology_key`.

    `selector` None selects no pod; `namespace_selector` None no namespace beside the listed ones.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None = None

    def accepts(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Tell whether the term speaks of a pod with these labels in that namespace."""
        if self.selector is None:
            return False
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True)
class WeightedPodTerm:
    """A preferred term; `weight` is 1 to 100."""

    weight: int
    term: PodTerm


@dataclass(frozen=True)
class PodAffinity:
    """All that a pod says of other pods."""

    required: tuple[PodTerm, ...] = ()
    required_anti: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()
    preferred_anti: tuple[WeightedPodTerm, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether it says anything."""
        return bool(self.required or self.required_anti or self.preferred or self.preferred_anti)


NO_AFFINITY = PodAffinity()


@dataclass(frozen=True)
class PodMatch:
    """Which pods a term of the pod that is being placed speaks of, with its namespace selector carried out.

    `namespaces` None: all of them.
    """

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def accepts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod with these labels in that namespace is meant."""
        if self.selector is None or not (self.namespaces is None or namespace in self.namespaces):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True)
class Owner:
    """What a term takes from its pod. `stored`: the API server has written matchLabelKeys into the selectors."""

    namespace: str
    labels: Mapping[str, str]
    stored: bool


def parse_pod_affinity(affinity: Object, path: str, pod: Owner) -> PodAffinity:
    """Read podAffinity and podAntiAffinity of a pod's spec.affinity. Raises SelectorError with the path."""
    if affinity.get("podAffinity") is None and affinity.get("podAntiAffinity") is None:
        return NO_AFFINITY
    near, near_wishes = _read_terms(affinity, "podAffinity", path, pod)
    away, away_wishes = _read_terms(affinity, "podAntiAffinity", path, pod)
    return PodAffinity(near, away, near_wishes, away_wishes)


def _read_terms(
    affinity: Object, kind: str, path: str, pod: Owner
) -> tuple[tuple[PodTerm, ...], tuple[WeightedPodTerm, ...]]:
    where = f"{path}.{kind}"
    source = mapping(affinity, kind, where)
    required = objects(source, _REQUIRED, f"{where}.{_REQUIRED}")
    preferred = objects(source, _PREFERRED, f"{where}.{_PREFERRED}")
    return (
        tuple(_term(one, f"{where}.{_REQUIRED}[{index}]", pod) for index, one in enumerate(required)),
        tuple(_weighted(one, f"{where}.{_PREFERRED}[{index}]", pod) for index, one in enumerate(preferred)),
    )


def _weighted(source: Object, path: str, pod: Owner) -> WeightedPodTerm:
    weight = source.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 100:
        raise SelectorError(f"{path}.weight must be a whole number from 1 to 100, got {weight!r}", field=path)
    term = mapping(source, "podAffinityTerm", f"{path}.podAffinityTerm")
    return WeightedPodTerm(weight, _term(term, f"{path}.podAffinityTerm", pod))


def _term(source: Object, path: str, pod: Owner) -> PodTerm:
    key = string(source, "topologyKey", f"{path}.topologyKey")
    if not key:
        raise SelectorError(f"{path}.topologyKey: expected the key of a node label", field=path)
    selector = LabelSelector.parse(source.get("labelSelector"), f"{path}.labelSelector")
    if selector is not None and not pod.stored:
        selector = _with_keys(selector, source, path, pod.labels)
    namespaces = strings(source, "namespaces", f"{path}.namespaces")
    namespace_selector = LabelSelector.parse(source.get("namespaceSelector"), f"{path}.namespaceSelector")
    if not namespaces and namespace_selector is None:
        namespaces = (pod.namespace,)
    return PodTerm(key, selector, tuple(sorted(set(namespaces))), namespace_selector)


def _with_keys(selector: LabelSelector, source: Object, path: str, labels: Mapping[str, str]) -> LabelSelector:
    """Add the pod's own values of matchLabelKeys and mismatchLabelKeys, as the API server does with a new pod."""
    own = [
        Requirement(key, operator, (labels[key],))
        for field, operator in (("matchLabelKeys", IN), ("mismatchLabelKeys", NOT_IN))
        for key in strings(source, field, f"{path}.{field}")
        if key in labels
    ]
    if not own:
        return selector
    merged = {*selector.requirements, *own}
    return LabelSelector(tuple(sorted(merged, key=lambda one: (one.key, one.operator, one.values))))
