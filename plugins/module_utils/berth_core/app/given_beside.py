# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Service or a ConfigMap that stands beside the StatefulSet in one manifest, as it is applied.

Called by given.py and wanted.py. What it holds is the API server's to judge, which is asked by a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..model.labels import LabelSelector
from ..model.names import is_subdomain, shown
from ..model.resources import CONFIG_MAP, SERVICE, Resource
from .given_set import own_metadata
from .template_shape import mapping

BESIDE: Mapping[str, Resource] = {resource.kind: resource for resource in (SERVICE, CONFIG_MAP)}


def beside_of(document: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The manifest with the app's ``labels``, in its namespace, and without what the API server fills in."""
    resource = BESIDE[document["kind"]]
    name = mapping(document.get("metadata"), f"{resource.kind}: metadata").get("name")
    if not is_subdomain(name):
        raise InputError(f"template: {resource.kind} has metadata.name {shown(name)}: expected a DNS-1123 name")
    where = f"{resource.kind} {name}"
    if document.get("apiVersion") != resource.api_version:
        raise InputError(f"{where}: apiVersion is {shown(document.get('apiVersion'))}: expected {resource.api_version}")
    own = own_metadata(document, where, namespace)
    metadata = {"name": name, "namespace": namespace, "labels": {**own.labels, **labels}}
    if own.annotations:
        metadata["annotations"] = dict(own.annotations)
    body = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    return {**body, "metadata": metadata}


def check_governing(service: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Refuse a Service that is to give the pods their names and selects none of them. Raises InputError."""
    name = service["metadata"]["name"]
    selector = mapping(
        mapping(service.get("spec"), f"Service {name}: spec").get("selector"), f"Service {name}: selector"
    )
    parsed = LabelSelector.parse({"matchLabels": selector}, f"Service {name}: spec.selector")
    if not selector or parsed is None or not parsed.matches(labels):
        raise InputError(
            f"Service {name}: spec.selector {dict(selector)} does not select the pods of the StatefulSet, whose names "
            f"it gives out (serviceName): expected labels of its template: {dict(labels)}"
        )
