# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a StatefulSet over local volumes can come under berth: everything is judged before the first write. Pure.

Called by stateful_app_adoption. What an earlier run has done already is found done. What is written is told in
adopting_writes; how a single berth comes is the lifecycle's, which marks volumes and claims that were there before.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import StateError
from ..lifecycle import states
from ..lifecycle.locks import BERTH_ANNOTATION, holds_disk
from ..lifecycle.view import disks_of, going, recorded
from ..lifecycle.way_out import begun
from ..model.labels import LabelSelector
from ..model.resources import STATEFUL_SET, Resource
from ..model.tenant import Tenant
from . import adoptable, manifests
from .adoptable import Part, Whose
from .compare import differences
from .observed import ready
from .pod_revision import HASH
from .wanted import APP_LABEL, MANAGED_LABEL, AppWanted

Object = Mapping[str, Any]
#: Fields of a StatefulSet that nobody can change, or that adoption itself writes or refuses.
_FIXED = ("selector", "volumeClaimTemplates", "updateStrategy", "persistentVolumeClaimRetentionPolicy")


@dataclass(frozen=True)
class Seen:
    """What was read. ``app``: what stateful_app would be given; ``given``: by the user, and not by the StatefulSet.

    ``hostnames``: label -> Node; ``named``: (ordinal, claim) -> LocalDisk; ``beside``: (kind, wanted, live) of Services
    and ConfigMaps of the app; ``templates``: those of the StatefulSet's revisions, by name. All others by name.
    """

    app: AppWanted
    given: bool
    live: Object
    pods: Mapping[str, Object]
    claims: Mapping[str, Object]
    volumes: Mapping[str, Object]
    disks: Mapping[str, Object]
    hostnames: Mapping[str, str]
    berths: Mapping[int, Object]
    tenant: Tenant
    named: Mapping[tuple[int, str], str] = field(default_factory=dict)
    beside: tuple[tuple[Resource, Object, Object], ...] = ()
    templates: Mapping[str, Object] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.app.namespace}/{self.app.name}"

    @property
    def ours(self) -> bool:
        """Whether an earlier run has come as far as the StatefulSet, or stateful_app has made it."""
        return (self.live["metadata"].get("labels") or {}).get(APP_LABEL) == self.app.name


@dataclass(frozen=True)
class Replica:
    """``parts``: its claims that are still to come under berth; empty where its Berth has them. For the lifecycle it is
    the place where the replica goes (replica.Place)."""

    ordinal: int
    node: str
    parts: tuple[Part, ...] = ()
    devices: tuple[tuple[str, str, int], ...] = ()

    @property
    def disks(self) -> Mapping[str, str]:
        return {part.whose.claim: part.disk_name for part in self.parts}

    @property
    def volumes(self) -> Mapping[str, str]:
        return {part.whose.claim: part.volume_name for part in self.parts}


def check_set(live: Object | None, title: str, app: str) -> Object:
    """Raises StateError for a StatefulSet that cannot be adopted by itself, whatever is below it."""
    if live is None:
        raise StateError(f"there is no StatefulSet {title}: only a StatefulSet is adopted; check name and namespace")
    meta, spec = live["metadata"], live["spec"]
    why = ""
    label = (meta.get("labels") or {}).get(APP_LABEL)
    owners = ", ".join(f"{one['kind']} {one['name']}" for one in meta.get("ownerReferences") or ())
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if going(live):
        why = "it is being deleted"
    elif owners:
        why = (
            f"it belongs to {owners} (ownerReferences), which would take back what berth writes: release it there first"
        )
    elif label not in (None, app):
        why = f"it has the label {APP_LABEL}: {label}: it is another app's"
    elif set(policy.values()) - {"Retain"}:
        why = "its persistentVolumeClaimRetentionPolicy deletes claims: set both to Retain first"
    elif not spec.get("replicas", 1):
        why = "it has 0 replicas: only what runs is adopted; scale it up first"
    if why:
        raise StateError(f"StatefulSet {title} is not adopted: {why}; nothing was changed")
    return live


def manifest_of(live: Object) -> dict[str, Any]:
    """The StatefulSet as stateful_app takes it, where nobody gives a manifest.

    Without its updateStrategy: stateful_app brings a template to the pods from now on.
    """
    spec = {key: value for key, value in live["spec"].items() if key != "updateStrategy"}
    claims = [
        {"metadata": {"name": one["metadata"]["name"]}, "spec": one["spec"]}
        for one in spec.get("volumeClaimTemplates") or ()
    ]
    metadata = {"name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"]}
    spec["volumeClaimTemplates"] = claims
    return {"apiVersion": STATEFUL_SET.api_version, "kind": STATEFUL_SET.kind, "metadata": metadata, "spec": spec}


def judged(seen: Seen) -> tuple[Replica, ...]:
    """The replicas with what is below them. Raises StateError with all that is in the way: nothing is written then."""
    wrong = list(_wrong_with_set(seen))
    replicas: list[Replica] = []
    for ordinal in range(seen.app.replicas):
        found = _replica_or_why(seen, ordinal)
        if isinstance(found, Replica):
            replicas.append(found)
        else:
            wrong.append(f"{seen.app.berth_name(ordinal)}: {found}")
    wrong += _twice(replicas)
    if wrong:
        raise StateError(f"{seen.title} is not adopted: {'; '.join(wrong)}; nothing was changed")
    return tuple(replicas)


def _replica_or_why(seen: Seen, ordinal: int) -> Replica | str:
    try:
        return _replica(seen, ordinal)
    except StateError as exc:
        return exc.message


def _wrong_with_set(seen: Seen) -> Iterable[str]:
    live, app = seen.live, seen.app
    names = {one["metadata"]["name"] for one in live["spec"].get("volumeClaimTemplates") or ()}
    if names != {disk.name for disk in app.disks}:
        yield f"its volumeClaimTemplates are {', '.join(sorted(names)) or 'none'}, and what is given has others"
    wrong = differences(_as_given(app, live), live)
    if wrong:
        yield f"what is given differs from the StatefulSet that runs in {', '.join(wrong)}: adopt it as it is first"
    selector = LabelSelector.parse(live["spec"].get("selector"), "spec.selector")
    if selector is not None and not selector.matches(app.template["metadata"]["labels"]):
        yield f"its selector ({selector}) would not match its pods with berth's labels: give it another selector first"
    extra = sorted(ordinal for ordinal in seen.berths if ordinal >= app.replicas)
    if extra:
        yield f"there are Berths of ordinals that it does not have: {', '.join(map(str, extra))}"
    for resource, _wanted, thing in seen.beside:
        label = (thing["metadata"].get("labels") or {}).get(APP_LABEL)
        if label not in (None, app.name):
            yield f"{resource.describe(thing['metadata']['name'], app.namespace)} is of the app {label}"


def _as_given(app: AppWanted, live: Object) -> dict[str, Any]:
    """What stateful_app would write, without what nobody can change and what adoption itself adds."""
    desired = copy.deepcopy(manifests.stateful_set(app))
    spec = {key: desired["spec"][key] for key in desired["spec"] if key not in _FIXED}
    labels = spec["template"]["metadata"]["labels"]
    there = (live["spec"]["template"].get("metadata") or {}).get("labels") or {}
    spec["template"]["metadata"]["labels"] = {
        key: value for key, value in labels.items() if key in there or key not in (APP_LABEL, MANAGED_LABEL)
    }
    spec["template"]["metadata"]["labels"].pop(MANAGED_LABEL, None)
    return {"spec": spec}


def _replica(seen: Seen, ordinal: int) -> Replica:
    name, record = seen.app.berth_name(ordinal), seen.berths.get(ordinal)
    if record is not None and runs(record) and not going(record):
        return Replica(ordinal, str(record["spec"]["nodeName"]))  # whatever its pod does now
    node = str(_pod(seen, name)["spec"]["nodeName"])
    if record is not None:
        _check_berth(record, seen)
        if states.reached(recorded(record), states.BOUND):
            return Replica(ordinal, node)
    parts = tuple(_part(seen, ordinal, disk.name, disk.size, node) for disk in seen.app.disks)
    made = Replica(ordinal, node, parts)
    if record is not None and _entries(record) != {
        part.whose.claim: (part.disk_name, part.volume_name) for part in parts
    }:
        raise StateError(
            f"Berth {seen.title}-{ordinal} is there, and is of other disks or volumes: find out whose it is"
        )
    return made


def runs(record: Object | None) -> bool:
    """Whether a Berth has come as far as it can."""
    return record is not None and recorded(record) in (states.RUNNING, states.REPLACING)


def _pod(seen: Seen, name: str) -> Object:
    pod = seen.pods.get(name)
    owners = (pod or {"metadata": {}})["metadata"].get("ownerReferences") or ()
    if pod is None or seen.live["metadata"]["uid"] not in [one.get("uid") for one in owners]:
        raise StateError("its pod is not there: wait until all replicas run")
    if not ready(pod):
        raise StateError("its pod is not Ready: wait until all replicas run")
    status = seen.live.get("status") or {}
    if not seen.ours and HASH.of(pod) != status.get("updateRevision"):
        raise StateError("its pod is of another revision than the StatefulSet: wait until it has been made anew")
    return pod


def _check_berth(record: Object, seen: Seen) -> None:
    title = f"Berth {seen.title}-{record['spec']['ordinal']}"
    if begun(record):
        raise StateError(f"{title} is being released from berth: finish that first (state: released)")
    uid = record["metadata"]["uid"]
    marked = [
        one
        for one in (*seen.claims.values(), *seen.volumes.values())
        if (one["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION) == uid
    ]
    if going(record) or (recorded(record) == states.RELEASING and marked):
        raise StateError(f"{title} is being given up: let stateful_app finish that first")


def _entries(record: Object) -> dict[str, tuple[str, str]]:
    return {str(each["claim"]): (str(each["name"]), str(each.get("volume") or "")) for each in disks_of(record)}


def _part(seen: Seen, ordinal: int, claim: str, size: int, node: str) -> Part:
    app, record = seen.app, seen.berths.get(ordinal)
    uid = record["metadata"]["uid"] if record is not None else None
    live = adoptable.check_claim(
        seen.claims.get(app.claim_name(claim, ordinal)), app.claim_name(claim, ordinal), app.namespace
    )
    volume = seen.volumes.get(live["spec"].get("volumeName") or "")
    at = adoptable.check_volume(volume, live, seen.hostnames)
    if volume is None:
        raise AssertionError("the caller has looked")
    if at != node:
        raise StateError(f"PersistentVolume {volume['metadata']['name']} is of node {at}, and its pod is on {node}")
    adoptable.check_mark(live, f"PersistentVolumeClaim {live['metadata']['name']}", uid)
    adoptable.check_mark(volume, f"PersistentVolume {volume['metadata']['name']}", uid)
    adoptable.check_alone(volume, seen.volumes)
    disk = adoptable.find_disk(volume, node, seen.disks, seen.named.get((ordinal, claim)))
    adoptable.check_uncovered(disk, volume, seen.volumes)
    whose = Whose(app.namespace, app.name, ordinal, claim, seen.tenant)
    ref = disk["spec"].get("claimRef") or {}
    if uid is not None and holds_disk(disk, uid) and ref.get("volume") == volume["metadata"]["name"]:
        return Part(whose, live, volume, disk, ref)  # locked by an earlier run
    return Part(whose, live, volume, disk, adoptable.put_on_record(disk, volume, whose, size))


def _twice(replicas: Iterable[Replica]) -> list[str]:
    found: dict[str, str] = {}
    wrong = []
    for part in (part for replica in replicas for part in replica.parts):
        other = found.setdefault(part.disk_name, part.volume_name)
        if other != part.volume_name:
            wrong.append(f"LocalDisk {part.disk_name} is below PersistentVolumes {other} and {part.volume_name}")
    return wrong
