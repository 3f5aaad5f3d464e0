# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written, and told, where a StatefulSet over local volumes comes under berth. Pure.

Called by stateful_app_adoption with what adopting has judged. Each patch is of what is there now, and None where it is
there already: so each of them may be the last one, and the next run goes on.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..lifecycle import states
from ..lifecycle.locks import BERTH_ANNOTATION
from ..lifecycle.view import disks_of, recorded
from ..model.resources import BERTH, LOCAL_DISK, POD, PV, PVC, STATEFUL_SET, Resource
from . import manifests
from .adoptable import Part
from .adopting import Replica, Seen, runs
from .adoption import Change
from .given_strategy import ON_DELETE
from .pod_revision import HASH
from .wanted import APP_LABEL, MANAGED_LABEL, REVISION_ANNOTATION, AppWanted

Object = Mapping[str, Any]
#: Who made the volumes of sig-storage-local-static-provisioner.
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_STATIC = "local-volume-provisioner"


def set_patch(seen: Seen, live: Object) -> dict[str, Any] | None:
    """Berth's labels on the StatefulSet and on its template, in one write with OnDelete: its controller makes no pod
    anew for them. None where they are there."""
    app = seen.app
    ours = {APP_LABEL: app.name, MANAGED_LABEL: "berth"}
    notes = {REVISION_ANNOTATION: app.set_revision} if seen.given else {}
    meta, spec = live["metadata"], live["spec"]
    template = (spec["template"].get("metadata") or {}).get("labels") or {}
    metadata = {
        key: changed
        for key, wanted in (("labels", ours), ("annotations", notes))
        if (changed := _missing(wanted, meta.get(key)))
    }
    patch: dict[str, Any] = {"metadata": {**_version(live), **metadata}}
    labels = _missing(ours, template)
    if labels:
        patch["spec"] = {
            "template": {"metadata": {"labels": labels}},
            "updateStrategy": {"type": ON_DELETE, "rollingUpdate": None},
        }
    return patch if metadata or labels else None


def label_patch(wanted: Object, live: Object, app: AppWanted) -> dict[str, Any] | None:
    """Berth's labels on a Service or ConfigMap of the app, and the revision of the manifest that is given."""
    revision = (wanted["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION)
    notes = {REVISION_ANNOTATION: revision} if revision else {}
    labels = _missing({APP_LABEL: app.name, MANAGED_LABEL: "berth"}, live["metadata"].get("labels"))
    notes = _missing(notes, live["metadata"].get("annotations"))
    if not labels and not notes:
        return None
    return {"metadata": {**_version(live), "labels": labels, "annotations": notes}}


def pod_patch(seen: Seen, pod: Object, live: Object) -> dict[str, Any] | None:
    """Berth's labels on a pod, and the StatefulSet's revision, which differs from the pod's by these labels alone.

    A pod that is of another template keeps its revision: it is outdated.
    """
    wanted = {APP_LABEL: seen.app.name, MANAGED_LABEL: "berth"}
    revision, own = str((live.get("status") or {}).get("updateRevision") or ""), HASH.of(pod)
    if revision and own != revision and _same_but_labels(seen.templates.get(own or ""), live["spec"]["template"]):
        wanted[HASH.key] = revision
    labels = _missing(wanted, pod["metadata"].get("labels"))
    return {"metadata": {**_version(pod), "labels": labels}} if labels else None


def _same_but_labels(before: Object | None, now: Object) -> bool:
    return before is not None and _without_ours(before) == _without_ours(now)


def _without_ours(template: Object) -> dict[str, Any]:
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    labels = {key: one for key, one in (metadata.get("labels") or {}).items() if key not in (APP_LABEL, MANAGED_LABEL)}
    return {"metadata": {**metadata, "labels": labels}, "spec": template["spec"]}


def sample_mark(thing: Object) -> dict[str, Any]:
    """Of the kind that the lifecycle writes on claims and volumes: to be tried."""
    return {"metadata": {**_version(thing), "annotations": {BERTH_ANNOTATION: "tried"}}}


def recorded_disk(part: Part, disk: Object) -> dict[str, Any]:
    """The LocalDisk with its data on record, in the replica's name, which keeps it from others from now on.

    Until then ``reserved`` has: nothing else declares a disk that the host uses (disk_plan.py).
    """
    body = copy.deepcopy(dict(disk))
    body["spec"]["retainedFor"] = dict(part.kept)
    body["spec"].pop("reserved", None)
    return body


def is_on_record(disk: Object) -> bool:
    """Whether somebody's data is on record there."""
    return bool(disk["spec"].get("claimRef") or disk["spec"].get("retainedFor"))


def _missing(wanted: Mapping[str, str], there: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if (there or {}).get(key) != value}


def _version(live: Object) -> dict[str, Any]:
    """What makes a patch a compare-and-swap."""
    meta = live["metadata"]
    return {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta}


def changes(seen: Seen, replicas: Sequence[Replica]) -> Iterable[Change]:
    """Everything that is going to be written."""
    for replica in replicas:
        yield from _of_replica(seen, replica)
    for resource, wanted, live in seen.beside:
        patch = label_patch(wanted, live, seen.app)
        if patch is not None:
            yield _patched(resource, live, patch)
    patch = set_patch(seen, seen.live)
    if patch is not None:
        yield _patched(STATEFUL_SET, seen.live, patch)
    for replica in replicas:
        pod = seen.pods.get(seen.app.berth_name(replica.ordinal))
        told = pod_patch(seen, pod, seen.live) if pod is not None else None
        if pod is not None and told is not None:
            yield _patched(POD, pod, told)


def _of_replica(seen: Seen, replica: Replica) -> Iterable[Change]:
    name, record = seen.app.berth_name(replica.ordinal), seen.berths.get(replica.ordinal)
    berth = record or {"metadata": {"name": name, "namespace": seen.app.namespace}}
    if not runs(record):
        before = {"phase": recorded(record)} if record is not None else {}
        place = {"node": replica.node, "disks": dict(replica.disks), "volumes": dict(replica.volumes)}
        yield Change(BERTH, berth, before, {"phase": states.RUNNING, **(place if replica.parts else {})}, {})
    for part in replica.parts:
        who = f"{seen.app.namespace}/{name} (claim {part.whose.claim})"
        told = {key: part.kept[key] for key in ("filesystemUUID", "mountPoint", "volume") if key in part.kept}
        if not part.disk["spec"].get("claimRef"):
            kept = bool(part.disk["spec"].get("retainedFor"))
            seen_before: dict[str, Any] = {"retainedFor": who} if kept else {"claimRef": None}
            yield Change(LOCAL_DISK, part.disk, seen_before, {"claimRef": who, **told}, {})
        for resource, thing in ((PV, part.volume), (PVC, part.claim)):
            if BERTH_ANNOTATION not in (thing["metadata"].get("annotations") or {}):
                yield _marked(seen, resource, thing, name)


def _marked(seen: Seen, resource: Resource, thing: Object, berth: str) -> Change:
    before: dict[str, Any] = {"berth": None}
    after: dict[str, Any] = {"berth": f"{seen.app.namespace}/{berth}", "labels": {APP_LABEL: seen.app.name}}
    policy = thing["spec"].get("persistentVolumeReclaimPolicy")
    if resource == PV and policy != "Retain":
        before["persistentVolumeReclaimPolicy"], after["persistentVolumeReclaimPolicy"] = policy, "Retain"
    return Change(resource, thing, before, after, {})


def _patched(resource: Resource, live: Object, patch: Mapping[str, Any]) -> Change:
    after = {key: value for key, value in patch["metadata"].items() if key in ("labels", "annotations") and value}
    before: dict[str, Any] = {
        key: {name: (live["metadata"].get(key) or {}).get(name) for name in after[key]} for key in after
    }
    if "spec" in patch:
        before["updateStrategy"] = live["spec"].get("updateStrategy")
        after.update(patch["spec"])
    return Change(resource, live, before, after, patch)


def rows(seen: Seen, replicas: Sequence[Replica]) -> list[dict[str, Any]]:
    """For each replica where it is, and the claim, volume and disk of each of its disks."""
    found = []
    for replica in replicas:
        name, record = seen.app.berth_name(replica.ordinal), seen.berths.get(replica.ordinal)
        disks = [
            _row(part.whose.claim, part.disk_name, part.volume_name, part.kept, seen, replica) for part in replica.parts
        ]
        if not replica.parts and record is not None:
            disks = [
                _row(each["claim"], each["name"], manifests.volume_of(record, each), _owner(seen, each), seen, replica)
                for each in disks_of(record)
            ]
        found.append(
            {
                "name": name,
                "ordinal": replica.ordinal,
                "node": replica.node,
                "pod": name if name in seen.pods else None,
                "disks": disks,
            }
        )
    return found


def _owner(seen: Seen, entry: Object) -> Mapping[str, Any]:
    return (seen.disks.get(entry["name"]) or {"spec": {}})["spec"].get("claimRef") or {}


def _row(claim: str, disk: str, volume: str, owner: Object, seen: Seen, replica: Replica) -> dict[str, Any]:
    return {
        "claim": seen.app.claim_name(claim, replica.ordinal),
        "name": disk,
        "volume": volume,
        "mount_point": owner.get("mountPoint"),
        "filesystem_uuid": owner.get("filesystemUUID"),
    }


def warnings(replicas: Sequence[Replica]) -> list[str]:
    """What somebody else may do with these disks."""
    static = [
        f"{part.volume_name} ({part.volume['spec']['local']['path']})"
        for replica in replicas
        for part in replica.parts
        if str((part.volume["metadata"].get("annotations") or {}).get(_PROVISIONED_BY) or "").startswith(_STATIC)
    ]
    if not static:
        return []
    text = (
        f"PersistentVolume {', '.join(static)} was made by {_STATIC}: take these folders out of what it discovers, or "
        "it makes another volume over each as soon as its own is gone, and gives the disk away"
    )
    return [text]
