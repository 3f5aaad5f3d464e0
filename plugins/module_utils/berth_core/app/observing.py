# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of the API server to what is there of one application. Pure.

Those who read (_glue.app.observe, berth_controller.apps.observe) ask; what of the answers is the app's is decided here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..lifecycle.view import Objects, View
from ..model.resources import SERVICE, STATEFUL_SET, Resource
from . import helper_pods, manifests
from .given_beside import BESIDE
from .observed import Observed
from .wanted import APP_LABEL, MANAGED_LABEL
from .wanted import STATEFUL_SET as STATEFUL_SET_WORKLOAD

Object = dict[str, Any]
Named = tuple[Resource, str]


@dataclass(frozen=True)
class Question:
    """What is asked about one application. ``beside``: other objects of its manifest, to be looked for by name."""

    name: str
    namespace: str
    workload: str
    service: str | None
    beside: Sequence[Mapping[str, Any]] = ()

    @property
    def labels(self) -> str:
        """The selector of all that is the app's in its namespace."""
        return f"{APP_LABEL}={self.name}"

    @property
    def pod_labels(self) -> str:
        """Likewise of pods: those of its replicas, and helper pods."""
        return helper_pods.selector(self.name)

    @property
    def volume_labels(self) -> str:
        """Likewise of volumes, which have no namespace."""
        return f"{self.labels},{manifests.NAMESPACE_LABEL}={self.namespace}"

    @property
    def beside_labels(self) -> str:
        """Likewise of what came with its manifest."""
        return f"{self.labels},{MANAGED_LABEL}=berth"

    @property
    def held_fields(self) -> str:
        """The field selector of disks that are held in its name."""
        return f"spec.claimRef.app={self.name}"

    @property
    def named(self) -> list[Named]:
        """The objects that are asked for by name."""
        own = [(STATEFUL_SET, self.name)] if self.workload == STATEFUL_SET_WORKLOAD else []
        others = [(BESIDE[one["kind"]], str(one["metadata"]["name"])) for one in self.beside]
        return [*own, *others, *([(SERVICE, self.service)] if self.service else [])]


@dataclass(frozen=True)
class Answers:
    """Lists as they were answered; ``named`` by kind and name. ``disks``, ``devices``, ``volumes`` and ``claims`` were
    read before ``berths``, and these before ``pods``.

    ``device_claims`` is empty where nobody has asked.
    """

    disks: Sequence[Object]
    devices: Sequence[Object]
    berths: Sequence[Object]
    volumes: Sequence[Object]
    claims: Sequence[Object]
    pods: Sequence[Object]
    named: Mapping[Named, Object]
    device_claims: Sequence[Object] = ()


def has_devices(berths: Sequence[Object]) -> bool:
    """Whether the ResourceClaims are to be asked for."""
    return any(record["spec"].get("devices") for record in berths)


def observed(question: Question, answers: Answers) -> Observed:
    """What is there of it."""
    name, namespace = question.name, question.namespace
    ours, foreign = _whose(name, namespace, answers.named)
    beside = {(kind.kind, other) for kind, other in question.named if kind.kind in BESIDE}
    return Observed(
        name,
        namespace,
        berths={record["spec"]["ordinal"]: record for record in answers.berths if record["spec"]["app"] == name},
        disks=_by_name([disk for disk in answers.disks if disk["spec"]["claimRef"]["namespace"] == namespace]),
        devices=_by_name([device for device in answers.devices if device["spec"].get("claimRefs")]),
        volumes=_by_name(answers.volumes),
        claims=_by_name(answers.claims),
        pods=_by_name([] if STATEFUL_SET.describe(name, namespace) in foreign else own_pods(answers.pods, name)),
        stateful_set=ours.get((STATEFUL_SET, name)),
        service=ours.get((SERVICE, question.service or "")),
        beside={
            (kind.kind, other): found
            for (kind, other), found in ours.items()
            if (kind.kind, other) in beside and (kind, other) != (SERVICE, question.service)
        },
        foreign=tuple(foreign),
        device_claims=_by_name(answers.device_claims),
        helpers=helper_pods.of_app(_by_name(answers.pods), name),
    )


def _whose(app: str, namespace: str, named: Mapping[Named, Object]) -> tuple[dict[Named, Object], list[str]]:
    """The app's own objects of those names, and what stands there and is not the app's."""
    ours, foreign = {}, []
    for (resource, name), found in named.items():
        if (found["metadata"].get("labels") or {}).get(APP_LABEL) == app:
            ours[resource, name] = found
        else:
            foreign.append(resource.describe(name, namespace))
    return ours, foreign


def _by_name(items: Sequence[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in items}


def own_pods(pods: Sequence[Object], name: str) -> list[Object]:
    """The pods of the replicas."""
    pattern = re.compile(re.escape(name) + r"-[0-9]+")
    return [pod for pod in pods if pattern.fullmatch(pod["metadata"]["name"])]


def uses_claims(template: Mapping[str, Any]) -> bool:
    """Whether a template brings claims of its own."""
    return any("persistentVolumeClaim" in volume for volume in template["spec"].get("volumes") or ())


def view_of(seen: Observed, ordinal: int) -> View:
    """What was seen of one ordinal. Objects of the whole app that are not its own do no harm: names tell."""
    record = seen.berths.get(ordinal)
    name = f"{seen.name}-{ordinal}"
    pods: Objects = {name: seen.pods[name]} if name in seen.pods else {}
    return View(
        f"{seen.namespace}/{name}",
        None,
        copy.deepcopy(dict(record)) if record is not None else None,
        disks=seen.disks,
        devices=seen.devices,
        volumes=seen.volumes,
        claims=seen.claims,
        device_claims=seen.device_claims,
        pods=pods,
    )
