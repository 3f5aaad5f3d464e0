# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a StatefulSet's manifest says beside its pod template: each field is taken, or refused by name with the way out.

Called by given.py. Values that are taken are the API server's to judge, which is asked by a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..model.labels import LabelSelector
from ..model.names import shown
from .given_disks import disks_of
from .template_shape import mapping

#: Fields of the spec that count as its own: they go into the app's StatefulSet as they are, but for the strategy, which
#: is read as the options for updates are (given_strategy.py).
TAKEN = ("updateStrategy", "minReadySeconds", "revisionHistoryLimit")
#: Fields of the spec that are read, each by its own rule.
_READ = (
    *("replicas", "podManagementPolicy", "serviceName", "selector", "template", "volumeClaimTemplates"),
    *("ordinals", "persistentVolumeClaimRetentionPolicy"),
)
#: What the API server fills in.
_SERVERS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_METADATA = ("name", "namespace", "labels", "annotations")
#: What kubectl apply keeps for itself.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Metadata:
    """Labels and annotations of a manifest's own."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SetGiven:
    """``fields``: of TAKEN. ``disks``: the volumeClaimTemplates, as the option disks has them. None: not said."""

    replicas: int | None = None
    pod_management_policy: str | None = None
    service_name: str | None = None
    disks: tuple[dict[str, Any], ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)

    @property
    def of_sets_alone(self) -> list[str]:
        """The fields that bare pods do not have."""
        return [*self.fields, *(["podManagementPolicy"] if self.pod_management_policy else [])]


def set_of(document: Mapping[str, Any], app: str, namespace: str) -> SetGiven:
    """Read everything but the pod template. Raises InputError."""
    where = f"StatefulSet {app}"
    version = document.get("apiVersion", "apps/v1")
    if version != "apps/v1":
        raise InputError(f"{where}: apiVersion is {shown(version)}: expected apps/v1")
    _known(document, ("apiVersion", "kind", "metadata", "spec", "status"), where)
    metadata = own_metadata(document, where, namespace)
    name = mapping(document.get("metadata"), f"{where}: metadata").get("name", app)
    if name != app:
        raise InputError(f"StatefulSet {name}: the app is called {app} (option name): give both one name")
    spec = mapping(document.get("spec"), "template.spec")
    _known(spec, (*_READ, *TAKEN), f"{where}: spec")
    _check_fixed(spec, where)
    _check_selector(spec, where)
    return SetGiven(
        _number(spec, "replicas", where),
        _text(spec, "podManagementPolicy", where, ("OrderedReady", "Parallel")),
        _text(spec, "serviceName", where) or None,
        disks_of(spec.get("volumeClaimTemplates"), f"{where}: spec.volumeClaimTemplates"),
        {key: spec[key] for key in TAKEN if spec.get(key) is not None},
        metadata,
    )


def own_metadata(document: Mapping[str, Any], where: str, namespace: str) -> Metadata:
    """Labels and annotations, where all else fits the app. Raises InputError."""
    metadata = mapping(document.get("metadata"), f"{where}: metadata")
    _known(metadata, (*_METADATA, *_SERVERS), f"{where}: metadata")
    there = metadata.get("namespace") or namespace
    if there != namespace:
        raise InputError(
            f"{where}: metadata.namespace is {shown(there)}, and the app's is {namespace} (option namespace): make "
            "them one"
        )
    annotations = mapping(metadata.get("annotations"), f"{where}: metadata.annotations")
    return Metadata(
        dict(mapping(metadata.get("labels"), f"{where}: metadata.labels")),
        {key: value for key, value in annotations.items() if key != _APPLIED},
    )


def _known(found: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [str(key) for key, value in found.items() if key not in known and value is not None]
    if unknown:
        raise InputError(
            f"{where}: {', '.join(unknown)} cannot be taken: leave it out; what is taken: "
            f"{', '.join(key for key in known if key not in _SERVERS)}"
        )


def _check_fixed(spec: Mapping[str, Any], where: str) -> None:
    """What has one value that berth can keep its word with."""
    start = mapping(spec.get("ordinals"), f"{where}: spec.ordinals").get("start") or 0
    if start != 0:
        raise InputError(
            f"{where}: spec.ordinals.start is {shown(start)}: the ordinals of berths begin at 0; leave ordinals out"
        )
    policy = mapping(spec.get("persistentVolumeClaimRetentionPolicy"), f"{where}: persistentVolumeClaimRetentionPolicy")
    for when, what in policy.items():
        if what != "Retain":
            raise InputError(
                f"{where}: spec.persistentVolumeClaimRetentionPolicy.{when} is {shown(what)}: claims go with their "
                "berths, and data is never given up by itself; leave it out or say Retain, and give a disk up by name "
                "(local_disk with state: released, force_retained: true)"
            )


def _check_selector(spec: Mapping[str, Any], where: str) -> None:
    """The app's own selector is its label; the manifest's has to mean the same pods."""
    selector = LabelSelector.parse(spec.get("selector"), f"{where}: spec.selector")
    template = mapping(spec.get("template"), "template.spec.template")
    metadata = mapping(template.get("metadata"), "template.metadata")
    labels = mapping(metadata.get("labels"), "template.metadata.labels")
    if selector is not None and not selector.matches(dict(labels)):
        raise InputError(
            f"{where}: spec.selector ({selector}) does not select the pods of its own template: {dict(labels)}"
        )


def _number(spec: Mapping[str, Any], key: str, where: str) -> int | None:
    value = spec.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise InputError(f"{where}: spec.{key} is {shown(value)}: expected a whole number")
    return value


def _text(spec: Mapping[str, Any], key: str, where: str, choices: tuple[str, ...] = ()) -> str | None:
    value = spec.get(key)
    if value is not None and (not isinstance(value, str) or (choices and value not in choices)):
        raise InputError(f"{where}: spec.{key} is {shown(value)}: expected {' or '.join(choices) or 'a name'}")
    return value
