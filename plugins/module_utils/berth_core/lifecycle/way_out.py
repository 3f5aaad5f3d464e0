# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way out: a replica is released from berth and goes on as plain Kubernetes, with its pod, claims and volumes.

One write says so in the Berth, and is never taken back; from then on whoever carries the berth on unties claims and
volumes in place of deleting them. The disks are given to nobody else: they keep the replica's data, and name the volume
that goes on to use it, so that the node agent leaves them mounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..app import claims
from ..app.manifests import NAMESPACE_LABEL, volume_over
from ..app.wanted import APP_LABEL, MANAGED_LABEL, ORDINAL_LABEL
from ..model.resources import PV, PVC, Resource
from . import states
from .locks import BERTH_ANNOTATION, DISK_ANNOTATION
from .recording import record_phase
from .step import PATCH, Step, Wait, Write
from .view import Object, Objects, View, devices_of, recorded

_LABELS = (APP_LABEL, MANAGED_LABEL, ORDINAL_LABEL, NAMESPACE_LABEL)


def begun(record: Object) -> bool:
    """Whether this berth is on the way out."""
    return recorded(record) == states.RELEASING and (record.get("status") or {}).get("release") == states.LEAVE


def refusal(record: Object) -> str:
    """Why this berth cannot be released from berth now; empty where it can."""
    phase, status = recorded(record), record.get("status") or {}
    if claims.claim_of(record) is not None:
        return "it was made for a claim without an app, and goes with that claim"
    devices = sorted(str(each["name"]) for each in devices_of(record))
    if devices:
        held = ", ".join(devices)
        return f"it holds LocalDevice {held}, which would be given to others while the pod uses it"
    if begun(record):
        return ""
    if phase == states.RELEASING:
        return f"it is being given up already ({status.get('release')}): let stateful_app finish that first"
    if phase == states.REPLACING:
        told = status.get("replacing") or {}
        return (
            f"LocalDisk {told.get('from')} is being exchanged for {told.get('to')}: finish that with disk_replace first"
        )
    if not states.reached(phase, states.BOUND):
        return f"it is {phase}, and has no claims yet: finish it with stateful_app, or remove it"
    return ""


def begin(record: Object) -> Step:
    """-> Releasing, with the word that claims and volumes stay. A compare-and-swap, as every step from there."""
    why = refusal(record)
    if why:
        return Wait("NotReleased", why, True)
    why = "it is released from berth; its pod, claims and volumes stay"
    return record_phase(record, states.RELEASING, why, release=states.LEAVE)


def untie_claims(view: View, record: Object) -> Step | None:
    """The next claim that still has berth's mark of this very berth."""
    return _untie(PVC, view.claims, record)


def untie_volumes(view: View, record: Object) -> Step | None:
    """The next volume that still has it."""
    return _untie(PV, view.volumes, record)


def _untie(resource: Resource, things: Objects, record: Object) -> Step | None:
    for _name, thing in sorted(things.items()):
        if _marks(thing).get(BERTH_ANNOTATION) == record["metadata"]["uid"]:
            why = f"{resource.kind} {thing['metadata']['name']} stays, and is berth's no more"
            return Write(PATCH, resource, untied(thing), why)
    return None


def untied(thing: Object) -> dict[str, Any]:
    """A merge patch, on the version that was read, that takes berth's labels and its mark off."""
    meta = thing["metadata"]
    seen = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta}
    labels = {key: None for key in _LABELS if key in (meta.get("labels") or {})}
    marks = {key: None for key in (BERTH_ANNOTATION, DISK_ANNOTATION) if key in _marks(thing)}
    return {"metadata": {**seen, "labels": labels, "annotations": marks}}


def kept_for_volume(record: Object, disk: dict[str, Any]) -> dict[str, Any]:
    """The LocalDisk whose lock has just been taken off: it names the volume that its data is used through."""
    disk["spec"]["retainedFor"]["volume"] = volume_over(record, disk["metadata"]["name"])
    return disk


def _marks(thing: Object) -> Mapping[str, Any]:
    return thing["metadata"].get("annotations") or {}
