# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An application is released from berth: what is refused, what would be written, and what a host has to know then.

Called by stateful_app_adoption. Pure. How a single berth goes is lifecycle.way_out's; here is the whole application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import StateError
from ..lifecycle.locks import unlock_disk
from ..lifecycle.step import PATCH, REPLACE, Write
from ..lifecycle.view import claim_name, disks_of
from ..lifecycle.way_out import begun, kept_for_volume, refusal, untied
from ..model.resources import BERTH, LOCAL_DISK, PV, PVC, SERVICE, STATEFUL_SET, Resource
from .disk_plan import DEFAULT_FS_TYPE
from .fs_plan import FilesystemPlan, fstab_line
from .fsid import filesystem_of, mount_point
from .given_beside import BESIDE
from .given_strategy import ON_DELETE
from .manifests import volume_of
from .observed import Object, Observed, bound


@dataclass(frozen=True)
class Change:
    """One object, before and after; an empty ``after``: it goes. ``patch``: the merge patch, where it stays."""

    resource: Resource
    thing: Object
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    patch: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class WayOut:
    """``shared``: objects of the whole app, which lose berth's labels first: from then on stateful_app leaves them
    alone. ``berths``: ordinals whose Berths go. ``changes``: everything, for people."""

    shared: tuple[Change, ...] = ()
    berths: tuple[int, ...] = ()
    changes: tuple[Change, ...] = ()


def plan_release(observed: Observed) -> WayOut:
    """The way out of what is there; empty where it was released before. Raises StateError, and nothing is written then.

    ``observed`` with all that came beside the app's manifest.
    """
    _check(observed)
    shared = tuple(Change(resource, one, _marks(one), {}, untied(one)) for resource, one in _shared(observed))
    ordinals = tuple(sorted(observed.berths))
    own = [change for ordinal in ordinals for change in _of_berth(observed, observed.berths[ordinal])]
    return WayOut(shared, ordinals, (*shared, *own))


def _check(observed: Observed) -> None:
    title = f"{observed.namespace}/{observed.name}"
    anywhere = observed.stateful_set is not None or observed.foreign
    if not anywhere:
        have = "its Berths are there" if observed.berths else "neither is a Berth of that name"
        raise StateError(
            f"there is no StatefulSet {title}, and {have}: only an application with a StatefulSet goes on without "
            "berth, for nobody makes bare pods anew; check name and namespace; nothing was changed"
        )
    wrong = [f"Berth {title}-{ordinal}: {why}" for ordinal, why in sorted(_refusals(observed).items())]
    if wrong:
        raise StateError(f"{title} is not released from berth: {'; '.join(wrong)}; nothing was changed")


def _refusals(observed: Observed) -> dict[int, str]:
    found = {}
    for ordinal, record in observed.berths.items():
        why = refusal(record)
        if not why and not begun(record) and not bound(record, observed):
            why = "a claim or volume of it is missing or is going: let stateful_app mend that first"
        if why:
            found[ordinal] = why
    return found


def _shared(observed: Observed) -> list[tuple[Resource, Object]]:
    there = [(STATEFUL_SET, observed.stateful_set), (SERVICE, observed.service)]
    there += [(BESIDE[kind], one) for (kind, _name), one in sorted(observed.beside.items())]
    return [(resource, one) for resource, one in there if one is not None]


def _of_berth(observed: Observed, record: Object) -> list[Change]:
    meta = record["metadata"]
    changes = [Change(BERTH, record, {"node": record["spec"]["nodeName"], "disks": _names(record)}, {})]
    for entry in disks_of(record):
        volume = volume_of(record, entry)
        for resource, thing in (
            (PVC, observed.claims.get(claim_name(record, entry["claim"]))),
            (PV, observed.volumes.get(volume)),
        ):
            if thing is not None:
                changes.append(Change(resource, thing, _marks(thing), {}, untied(thing)))
        disk = observed.disks.get(entry["name"])
        if disk is not None:
            kept = {"retainedFor": f"{meta['namespace']}/{meta['name']} (claim {entry['claim']})", "volume": volume}
            changes.append(Change(LOCAL_DISK, disk, {"claimRef": f"{meta['namespace']}/{meta['name']}"}, kept, {}))
    return changes


def _names(record: Object) -> dict[str, str]:
    return {str(entry["claim"]): str(entry["name"]) for entry in disks_of(record)}


def _marks(thing: Object) -> dict[str, Any]:
    """Berth's labels and annotation that are on an object now."""
    taken = untied(thing)["metadata"]
    told = {}
    for part in ("labels", "annotations"):
        there = thing["metadata"].get(part) or {}
        told.update({key: there[key] for key in taken[part]})
    return told


def tried(observed: Observed) -> list[Write]:
    """One write of each kind, to be tried on the API server first: a right that is missing is told before the first
    write. Rights are alike for all replicas."""
    for _ordinal, record in sorted(observed.berths.items()):
        for entry in disks_of(record):
            volume, claim = volume_of(record, entry), claim_name(record, entry["claim"])
            pairs = ((PVC, observed.claims.get(claim)), (PV, observed.volumes.get(volume)))
            patches = [Write(PATCH, kind, untied(one), "") for kind, one in pairs if one is not None]
            disk = observed.disks.get(entry["name"])
            unlocked = unlock_disk(disk, record["metadata"]["uid"], True) if disk is not None else None
            if unlocked is not None:
                return [*patches, Write(REPLACE, LOCAL_DISK, kept_for_volume(record, unlocked), "")]
    return []


def rows(observed: Observed, mount_root: str) -> list[dict[str, Any]]:
    """For each replica where it is, and for each of its disks the objects and the line of /etc/fstab.

    After a reboot nothing of berth mounts a disk that no berth holds: the host's own table has to.
    """
    return [
        {
            "name": record["metadata"]["name"],
            "ordinal": ordinal,
            "node": record["spec"]["nodeName"],
            "pod": record["metadata"]["name"] if observed.pod(ordinal) is not None else None,
            "disks": [_disk_row(observed, record, entry, mount_root) for entry in disks_of(record)],
        }
        for ordinal, record in sorted(observed.berths.items())
    ]


def _disk_row(observed: Observed, record: Object, entry: Mapping[str, Any], mount_root: str) -> dict[str, Any]:
    name, disk = str(entry["name"]), observed.disks.get(str(entry["name"]))
    return {
        "claim": claim_name(record, entry["claim"]),
        "name": name,
        "volume": volume_of(record, entry),
        "fstab": _line(disk, mount_root) if disk is not None else None,
    }


def _line(disk: Object, mount_root: str) -> str | None:
    """None of a block volume, which is not mounted by its host, and of a filesystem that the host mounts itself."""
    name, spec, status = str(disk["metadata"]["name"]), disk["spec"], disk.get("status") or {}
    if spec.get("volumeMode", "Filesystem") == "Block" or spec["claimRef"].get("mountPoint"):
        return None
    seen = (status.get("observed") or {}).get("filesystem") or {}
    kind = (status.get("journal") or {}).get("fsType") or seen.get("type") or spec.get("fsType") or DEFAULT_FS_TYPE
    uuid, options = filesystem_of(spec["claimRef"], name), tuple(spec.get("mountOptions") or ())
    point = mount_point(name, mount_root)
    return fstab_line(FilesystemPlan(name, "", "", uuid, str(kind), point, options, False, False, ""))


def warnings(observed: Observed) -> list[str]:
    """What goes on in another way than before."""
    live = observed.stateful_set or {}
    if ((live.get("spec") or {}).get("updateStrategy") or {}).get("type") != ON_DELETE:
        return []
    text = (
        f"StatefulSet {observed.namespace}/{observed.name} has updateStrategy {ON_DELETE}, with which stateful_app "
        "updates pods itself: set RollingUpdate where its controller is to do that from now on; pods whose template "
        "differs are then made anew"
    )
    return [text]
