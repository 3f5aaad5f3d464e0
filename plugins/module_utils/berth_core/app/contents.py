# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ConfigMaps and Secrets that a template names, counted as a part of its revision (option update_on). Pure.

A hash of what each holds goes into one annotation of the template, so that a changed content is another template. Both
drivers read what `asked_for` names and give it to `with_contents`; what a changed hash means for a pod says pod_change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..errors import StateError
from ..model.resources import CONFIG_MAP, SECRET, Resource
from .pod_change import CONTENTS, without_annotation
from .update_rules import CONFIG_MAPS, SECRETS
from .wanted import AppWanted

KINDS: Mapping[str, Resource] = {CONFIG_MAPS: CONFIG_MAP, SECRETS: SECRET}
Object = Mapping[str, Any]


class Named(NamedTuple):
    """One object that a template names. ``where``: the first place that needs it, for people."""

    resource: Resource
    name: str
    optional: bool
    where: str


def asked_for(app: AppWanted, kinds: Sequence[str] | None) -> list[Named]:
    """The objects whose content counts, by kind and name; each once, optional where every place says so."""
    resources = {KINDS[one] for one in kinds or ()}
    found: dict[tuple[str, str], Named] = {}
    for one in _named(app.template["spec"]):
        before = found.get((one.resource.kind, one.name))
        if one.resource in resources and (before is None or before.optional):
            found[one.resource.kind, one.name] = one
    return [found[key] for key in sorted(found)]


def own_content(app: AppWanted, named: Named) -> Object | None:
    """The ConfigMap of the app's own manifest, which is applied before any pod sees it; None: it is somebody else's."""
    for one in app.beside:
        if (one["kind"], one["metadata"]["name"]) == (named.resource.kind, named.name):
            return one
    return None


def with_contents(app: AppWanted, read: Mapping[Named, Object | None]) -> AppWanted:
    """The app whose template says what these objects hold. Without any: as it is without the option.

    Raises StateError for one that is missing and needed.
    """
    template = without_annotation(app.template, CONTENTS)
    if read:
        told = json.dumps({_title(one): _hash(app, one, body) for one, body in read.items()}, sort_keys=True)
        metadata = template["metadata"]
        template = {**template, "metadata": {**metadata, "annotations": {**_annotations(metadata), CONTENTS: told}}}
    return app if template == app.template else replace(app, template=template)


def _title(one: Named) -> str:
    return f"{one.resource.kind} {one.name}"


def _hash(app: AppWanted, one: Named, body: Object | None) -> str | None:
    """Of the content alone: labels, annotations and who wrote it count for nothing. None: it is not there, and may be.

    Who may read pods reads the hash. A Secret's is keyed by its uid, which only they know who may read the Secret: a
    short password is not found by trying.
    """
    if body is None:
        if one.optional:
            return None
        raise StateError(
            f"{one.resource.describe(one.name, app.namespace)} is not there, and {one.where} of the template names it: "
            "its content counts as a revision (update_on), and no pod could start without it; create it, or leave it "
            "out of the template; nothing was changed"
        )
    key = str(body["metadata"].get("uid") or "") if one.resource == SECRET else ""
    content = [key, body.get("data") or {}, body.get("binaryData") or {}]
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _annotations(metadata: Object) -> Object:
    return metadata.get("annotations") or {}


# -- where a template names them


def _named(spec: Object) -> Iterator[Named]:
    for key in ("initContainers", "containers"):
        for container in _mappings(spec.get(key)):
            yield from _of_container(container)
    for volume in _mappings(spec.get("volumes")):
        where = f"volume {volume.get('name')}"
        yield from _one(CONFIG_MAP, volume.get("configMap"), "name", where)
        yield from _one(SECRET, volume.get("secret"), "secretName", where)
        for source in _mappings(_mapping(volume.get("projected")).get("sources")):
            yield from _one(CONFIG_MAP, source.get("configMap"), "name", where)
            yield from _one(SECRET, source.get("secret"), "name", where)


def _of_container(container: Object) -> Iterator[Named]:
    where = f"container {container.get('name')}"
    for source in _mappings(container.get("envFrom")):
        yield from _one(CONFIG_MAP, source.get("configMapRef"), "name", f"envFrom of {where}")
        yield from _one(SECRET, source.get("secretRef"), "name", f"envFrom of {where}")
    for variable in _mappings(container.get("env")):
        source, place = _mapping(variable.get("valueFrom")), f"env {variable.get('name')} of {where}"
        yield from _one(CONFIG_MAP, source.get("configMapKeyRef"), "name", place)
        yield from _one(SECRET, source.get("secretKeyRef"), "name", place)


def _one(resource: Resource, reference: Any, key: str, where: str) -> Iterator[Named]:
    """What is no reference is the API server's to refuse, when it is tried."""
    told = _mapping(reference)
    if isinstance(told.get(key), str) and told[key]:
        yield Named(resource, told[key], told.get("optional") is True, where)


def _mapping(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Object]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
