# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod, reduced to what scheduling looks at.

Called by the snapshot for pods that run, and by front ends for the pod that is to be placed (also from a template
that the API server has not seen yet: its defaulting of requests and of host ports is applied here). Never keeps the
manifest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from ..errors import InputError
from .attachable import InlineVolume, parse_inline
from .fields import Object, boolean, integer, mapping, objects, string, string_map, strings
from .image import pod_images
from .labels import LabelSelector, NodeSelector, PreferredTerm, Requirement, parse_preferred
from .pod_affinity import NO_AFFINITY, Owner, PodAffinity, parse_pod_affinity
from .preemption import NO_FACTS, PreemptionFacts, VictimFacts, read_facts
from .quantity import Number
from .requests import CPU, MEMORY, amount, nonzero_defaults, read_pod_resources
from .taint import Toleration, parse_tolerations

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  (compared with what pods ask for, never bound)
Amounts = tuple[tuple[str, int], ...]
"""Whole units per resource, sorted by name.

Cpu in thousandths of a core, memory and storage in bytes, the rest counted.
"""


class HashedOnce:
    """A tuple that many share as a part of their keys: its hash is worked out once, and it is itself at first sight."""

    __slots__ = ("_hash", "_what")

    def __init__(self, what: tuple[Hashable, ...]) -> None:
        self._what, self._hash = what, hash(what)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, HashedOnce) and self._what == other._what)


@dataclass(frozen=True)
class HostPort:
    """A port of the host that a pod takes. `ip` 0.0.0.0 is every address."""

    protocol: str
    ip: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Tell whether both cannot be on one host."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or EVERY_ADDRESS in (self.ip, other.ip)


@dataclass(frozen=True)
class SpreadConstraint:
    """A topology spread constraint. `selector` None selects no pod; `min_domains` 1 is the default."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True)
class ClaimVolume:
    """A volume that is filled by a PersistentVolumeClaim.

    `ephemeral`: the claim is made for, and owned by, this pod.
    """

    volume: str
    claim: str
    ephemeral: bool = False


@dataclass(frozen=True)
class PodClaim:
    """A resource claim of a pod. `claim` None: there is no object for it, as none was `made` yet or none is needed.

    `template`: the claim is made for, and owned by, this pod.
    """

    name: str
    claim: str | None
    template: bool = False
    made: bool = True


@dataclass(frozen=True)
class PodInfo:
    """What scheduling looks at.

    Frozen and hashable; pods of one `shape` share every verdict that does not depend on their name.
    """

    namespace: str
    name: str
    uid: str
    node_name: str
    labels: tuple[tuple[str, str], ...]
    requests: Amounts
    nonzero: Amounts
    """cpu and memory as scoring counts them for a pod on a node: with defaults for containers that request none."""
    score_requests: Amounts
    """What NodeResourcesFit scores for the pod that is being placed: defaults as above, pod-level requests left out."""
    host_ports: tuple[HostPort, ...]
    tolerations: tuple[Toleration, ...]
    node_selector: LabelSelector | None
    required_affinity: NodeSelector | None
    preferred_affinity: tuple[PreferredTerm, ...]
    spread: tuple[SpreadConstraint, ...]
    volumes: tuple[ClaimVolume, ...]
    priority: int
    terminating: bool
    phase: str
    affinity: PodAffinity = NO_AFFINITY
    """What the pod says of other pods; node affinity stands above."""
    inline: tuple[InlineVolume, ...] = ()
    images: tuple[str, ...] = ()
    containers: int = 1
    """Init containers too: as many may pull an image."""
    controller: tuple[str, str, str] | None = None
    """apiVersion, kind and name of the object that the pod is made by."""
    gates: tuple[str, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    features: frozenset[str] = frozenset()
    """What the pod's node has to declare that it can do."""
    preemption: PreemptionFacts = NO_FACTS
    """No part of the shape: it does not decide where the pod may go."""

    @property
    def victim_facts(self) -> VictimFacts:
        """Return what preemption has to know of the pod once it is on a node."""
        facts = self.preemption
        return VictimFacts(
            self.namespace, self.name, self.uid, self.priority, self.labels, facts.started, facts.preempted
        )

    @property
    def finished(self) -> bool:
        """Tell whether the pod has ended and gives back what it held."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def shape(self) -> Hashable:
        """Return everything that decides where a pod may go, without its name."""
        return (self.namespace, self.node_name, self.labels, self.controller, self._of_all_twins())

    def _of_all_twins(self) -> Hashable:
        """Return the part of the shape that twins have in common: one object for all of them, hashed once."""
        found: Hashable = self.__dict__.get("_twins")
        if found is None:
            found = self.__dict__["_twins"] = HashedOnce(
                (
                    *(self.requests, self.score_requests, self.host_ports, self.tolerations, self.node_selector),
                    *(self.required_affinity, self.preferred_affinity, self.spread, self.volumes, self.priority),
                    *(self.affinity, self.inline, self.images, self.containers, self.resource_claims, self.features),
                )
            )
        return found

    def twin(self, pod: Object) -> PodInfo:
        """Return a pod whose manifest says the same as this one's did, but for its identity, node, labels and life.

        That is the caller's word: what else the two share is not read again, and is shared.
        """
        try:
            return self._twin(pod)
        except InputError:
            # Names of pod and field are put together for each value: that is for the one pod where one is wrong.
            return PodInfo.from_manifest(pod)

    def _twin(self, pod: Object) -> PodInfo:
        meta, spec, status = mapping(pod, "metadata"), mapping(pod, "spec"), mapping(pod, "status")
        terminating = meta.get("deletionTimestamp") is not None
        self._of_all_twins()
        namespace, labels = string(meta, "namespace") or "default", tuple(sorted(string_map(meta, "labels").items()))
        found = object.__new__(PodInfo)
        # dataclasses.replace goes through a frozen class field by field: ten times as long.
        found.__dict__.update(
            self.__dict__,
            # What is equal is shared: of many thousand pods it is most of what is kept.
            namespace=_same(self.namespace, namespace),
            name=_same(self.name, string(meta, "name")),
            uid=_same(self.uid, string(meta, "uid")),
            node_name=_same(self.node_name, string(spec, "nodeName")),
            labels=self.labels if labels == self.labels else labels,
            terminating=terminating,
            phase=_same(self.phase, string(status, "phase")),
            controller=_controller(meta, "ownerReferences"),
            preemption=read_facts(spec, status, terminating, "pod"),
        )
        return found

    @classmethod
    def from_manifest(cls, pod: Object) -> PodInfo:
        """Read a pod. Raises InputError, QuantityError or SelectorError that name the pod and the field."""
        meta, spec = mapping(pod, "metadata", "pod.metadata"), mapping(pod, "spec", "pod.spec")
        status = mapping(pod, "status", "pod.status")
        name = string(meta, "name", "pod.metadata.name") or string(meta, "generateName", "pod.metadata.generateName")
        namespace = string(meta, "namespace", "pod.metadata.namespace") or "default"
        title = f"pod {namespace}/{name}"
        where = f"{title}: spec"
        resources = read_pod_resources(spec, where, status)
        exact = resources.total()
        nonzero = resources.total(nonzero_defaults(exact, bool(resources.pod_level)))
        # v1.36's NodeResourcesFit does not look at pod-level requests when it scores; its filter does.
        score = resources.total(nonzero_defaults({}, False), pod_level=False)
        labels = string_map(meta, "labels", f"{title}: metadata.labels")
        selector = string_map(spec, "nodeSelector", f"{where}.nodeSelector")
        affinities = mapping(spec, "affinity", f"{where}.affinity")
        affinity = mapping(affinities, "nodeAffinity", f"{where}.affinity.nodeAffinity")
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        path = f"{where}.affinity.nodeAffinity"
        owner = Owner(namespace, labels, stored=bool(meta.get("resourceVersion")))
        images, containers = pod_images(spec, where)
        terminating = meta.get("deletionTimestamp") is not None
        return cls(
            namespace=namespace,
            name=name,
            uid=string(meta, "uid", "pod.metadata.uid"),
            node_name=string(spec, "nodeName", f"{where}.nodeName"),
            labels=tuple(sorted(labels.items())),
            requests=_amounts(exact),
            nonzero=tuple((key, amount(key, nonzero.get(key, 0))) for key in (CPU, MEMORY)),
            score_requests=_amounts(score),
            host_ports=_host_ports(spec, where),
            tolerations=parse_tolerations(spec, f"{where}.tolerations"),
            node_selector=LabelSelector.from_labels(selector) if selector else None,
            required_affinity=NodeSelector.parse(_object(required, path), path) if required is not None else None,
            preferred_affinity=parse_preferred(
                affinity.get("preferredDuringSchedulingIgnoredDuringExecution"), f"{path}.preferredDuringScheduling"
            ),
            spread=tuple(
                parse_spread(one, f"{where}.topologySpreadConstraints[{index}]", labels)
                for index, one in enumerate(
                    objects(spec, "topologySpreadConstraints", f"{where}.topologySpreadConstraints")
                )
            ),
            volumes=_volumes(spec, where, name),
            priority=integer(spec, "priority", f"{where}.priority"),
            terminating=terminating,
            phase=string(status, "phase", f"{title}: status.phase"),
            affinity=parse_pod_affinity(affinities, f"{where}.affinity", owner),
            inline=_inline(spec, where),
            images=images,
            containers=containers,
            gates=tuple(string(one, "name") for one in objects(spec, "schedulingGates", f"{where}.schedulingGates")),
            controller=_controller(meta, f"{title}: metadata.ownerReferences"),
            resource_claims=_resource_claims(spec, status, where),
            features=_features(spec, where),
            preemption=read_facts(spec, status, terminating, title),
        )


def requests_of_pod(pod: Object) -> Amounts:
    """Return what a pod requests, and read nothing else of it: `PodInfo.requests` at a fourth of the work.

    Raises InputError or QuantityError that name the pod and the field.
    """
    meta = mapping(pod, "metadata", "pod.metadata")
    where = f"pod {meta.get('namespace') or 'default'}/{meta.get('name')}: spec"
    resources = read_pod_resources(mapping(pod, "spec", "pod.spec"), where, mapping(pod, "status", "pod.status"))
    return _amounts(resources.total())


def _amounts(exact: Mapping[str, Number]) -> Amounts:
    return tuple(sorted((key, amount(key, value)) for key, value in exact.items()))


def _object(value: object, path: str) -> Object:
    return mapping({"value": value}, "value", path)


def _host_ports(spec: Object, where: str) -> tuple[HostPort, ...]:
    host_network = boolean(spec, "hostNetwork", f"{where}.hostNetwork")
    lasting = [
        one
        for one in objects(spec, "initContainers", f"{where}.initContainers")
        if one.get("restartPolicy") == "Always"
    ]
    ports: list[HostPort] = []
    for container in lasting + objects(spec, "containers", f"{where}.containers"):
        for source in objects(container, "ports", f"{where}: container {container.get('name')}: ports"):
            port = integer(source, "hostPort", f"{where}: hostPort")
            if not port and host_network:
                port = integer(source, "containerPort", f"{where}: containerPort")
            if port > 0:
                ports.append(host_port(string(source, "protocol"), string(source, "hostIP"), port))
    return tuple(sorted(set(ports), key=lambda one: (one.port, one.protocol, one.ip)))


def host_port(protocol: str, ip: str, port: int) -> HostPort:
    """Return a host port with the API's defaults: TCP, every address."""
    return HostPort(protocol or "TCP", ip or EVERY_ADDRESS, port)


def _volumes(spec: Object, where: str, pod_name: str) -> tuple[ClaimVolume, ...]:
    volumes = []
    for source in objects(spec, "volumes", f"{where}.volumes"):
        name = string(source, "name", f"{where}.volumes[].name")
        claim = mapping(source, "persistentVolumeClaim", f"{where}: volume {name}")
        if claim:
            volumes.append(ClaimVolume(name, string(claim, "claimName", f"{where}: volume {name}: claimName")))
        elif source.get("ephemeral") is not None:
            volumes.append(ClaimVolume(name, f"{pod_name}-{name}", ephemeral=True))
    return tuple(volumes)


def _resource_claims(spec: Object, status: Object, where: str) -> tuple[PodClaim, ...]:
    """Read the claims. Which one was made from a template stands in the status."""
    made = {
        string(one, "name"): string(one, "resourceClaimName") or None
        for one in objects(status, "resourceClaimStatuses", "pod.status.resourceClaimStatuses")
    }
    found = []
    for one in objects(spec, "resourceClaims", f"{where}.resourceClaims"):
        name, claim = string(one, "name"), string(one, "resourceClaimName")
        found.append(PodClaim(name, claim) if claim else PodClaim(name, made.get(name), True, name in made))
    return tuple(found)


def _features(spec: Object, where: str) -> frozenset[str]:
    """Infer features as nodedeclaredfeatures of k8s.io/component-helpers v0.36 does, where they decide about nodes."""
    found = set()
    for kind in ("containers", "initContainers"):
        for container in objects(spec, kind, f"{where}.{kind}"):
            rules = objects(container, "restartPolicyRules", f"{where}.{kind}[].restartPolicyRules")
            if any(one.get("action") == "RestartAllContainers" for one in rules):
                found.add("RestartAllContainersOnContainerExits")
    if spec.get("hostUsers") is False and boolean(spec, "hostNetwork", f"{where}.hostNetwork"):
        found.add("UserNamespacesHostNetworkSupport")
    return frozenset(found)


def _same(known: str, text: str) -> str:
    return known if known == text else text


def _controller(meta: Object, where: str) -> tuple[str, str, str] | None:
    for owner in objects(meta, "ownerReferences", where):
        if owner.get("controller") is True:
            return (string(owner, "apiVersion", where), string(owner, "kind", where), string(owner, "name", where))
    return None


def _inline(spec: Object, where: str) -> tuple[InlineVolume, ...]:
    found = (
        parse_inline(source, f"{where}: volume {source.get('name')}")
        for source in objects(spec, "volumes", f"{where}.volumes")
    )
    return tuple(one for one in found if one is not None)


def parse_spread(source: Object, path: str, pod_labels: Mapping[str, str]) -> SpreadConstraint:
    """Read one topology spread constraint; matchLabelKeys add the pod's own values to the selector."""
    skew = integer(source, "maxSkew", f"{path}.maxSkew")
    key = string(source, "topologyKey", f"{path}.topologyKey")
    action = string(source, "whenUnsatisfiable", f"{path}.whenUnsatisfiable") or "DoNotSchedule"
    if skew < 1 or not key or action not in ("DoNotSchedule", "ScheduleAnyway"):
        raise InputError(
            f"{path}: expected maxSkew of at least 1, a topologyKey, and whenUnsatisfiable DoNotSchedule or "
            f"ScheduleAnyway; got maxSkew {skew}, topologyKey {key!r}, whenUnsatisfiable {action!r}",
            field=path,
        )
    selector = LabelSelector.parse(source.get("labelSelector"), f"{path}.labelSelector")
    keys = strings(source, "matchLabelKeys", f"{path}.matchLabelKeys")
    if selector is not None:
        own = tuple(Requirement(one, "In", (pod_labels[one],)) for one in keys if one in pod_labels)
        merged = sorted({*selector.requirements, *own}, key=lambda one: (one.key, one.operator, one.values))
        selector = LabelSelector(tuple(merged))
    return SpreadConstraint(
        max_skew=skew,
        topology_key=key,
        hard=action == "DoNotSchedule",
        selector=selector,
        min_domains=integer(source, "minDomains", f"{path}.minDomains", 1),
        honor_affinity=string(source, "nodeAffinityPolicy", f"{path}.nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=string(source, "nodeTaintsPolicy", f"{path}.nodeTaintsPolicy", "Ignore") == "Honor",
    )
