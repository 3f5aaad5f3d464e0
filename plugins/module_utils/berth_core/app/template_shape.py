# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a pod template, as far as the app reads it. What its values mean is the API server's to judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..model.names import shown
from ..model.pod import PodInfo


def pod_template(source: Any, workload: str) -> dict[str, Any]:
    """The pod template itself, also a Pod, or from an object of kind ``workload`` that has one. Raises InputError."""
    template = source
    kind = template.get("kind") if isinstance(template, Mapping) else None
    if kind not in (None, "Pod", workload):
        raise InputError(f"template is a {shown(kind)}: expected a pod template (without kind), a Pod or a {workload}")
    if isinstance(template, Mapping) and kind == workload:
        template = mapping(template.get("spec"), "template.spec").get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise InputError("template has no spec: expected a pod template, a mapping with metadata (optional) and spec")
    metadata = mapping(template.get("metadata"), "template.metadata")
    for key in ("labels", "annotations"):
        mapping(metadata.get(key), f"template.metadata.{key}")
    _spec(template["spec"])
    return template


def check_readable(template: Mapping[str, Any], app: str, namespace: str) -> None:
    """Refuse a template whose pods nobody could place, as scheduling cannot read a field. Raises InputError."""
    pod = {"metadata": {**template["metadata"], "name": app, "namespace": namespace}, "spec": template["spec"]}
    try:
        PodInfo.from_manifest(pod)
    except InputError as exc:
        raise InputError(f"template: {exc.message}", **exc.details) from exc


def _spec(spec: Mapping[str, Any]) -> None:
    for key in ("volumes", "resourceClaims"):
        mappings(spec.get(key), f"template.spec.{key}")
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers or not all(isinstance(item, dict) for item in containers):
        raise InputError("template.spec has no containers: expected a list with at least one container")
    for index, container in enumerate(containers):
        if not container.get("name") or not container.get("image"):
            raise InputError(f"template.spec.containers[{index}] needs both name and image")
    for key in ("containers", "initContainers"):
        for index, container in enumerate(mappings(spec.get(key), f"template.spec.{key}")):
            _container(container, f"template.spec.{key}[{index}]")


def _container(container: Mapping[str, Any], where: str) -> None:
    for key in ("volumeMounts", "volumeDevices"):
        mappings(container.get(key), f"{where}.{key}")
    resources = mapping(container.get("resources"), f"{where}.resources")
    mappings(resources.get("claims"), f"{where}.resources.claims")
    for key in ("limits", "requests"):
        mapping(resources.get(key), f"{where}.resources.{key}")


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The value, or an empty mapping for None. Raises InputError."""
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{where} is {str(value)[:40]!r}: expected a mapping")
    return value or {}


def mappings(value: Any, where: str) -> list[Mapping[str, Any]]:
    """The list, or an empty one for None. Raises InputError."""
    if value is not None and not (isinstance(value, list) and all(isinstance(each, Mapping) for each in value)):
        raise InputError(f"{where} is {str(value)[:40]!r}: expected a list of mappings")
    return value or []
