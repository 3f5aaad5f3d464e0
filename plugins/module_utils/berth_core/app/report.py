# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is shown: the berths of an app as rows, and a plan as the before and after of a diff.

Called by stateful_app and stateful_app_info. The diff of check mode and of a real run come from here, from the same
plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lifecycle import states
from ..lifecycle.locks import unlock_disk
from ..lifecycle.view import recorded
from .by_hand import aligned
from .choose import Choice
from .compare import prune
from .manifests import quorum_of
from .observed import Object, Observed, ended, phase
from .plan import Plan
from .pod_change import PodChange
from .update_failure import failure_of
from .wanted import POD, AppWanted


def rows(observed: Observed, workload: str) -> list[dict[str, Any]]:
    """One row for each berth, by ordinal: where it is, what it holds, how far it has come."""
    return [
        _row(record, phase(ordinal, observed, workload), _name(observed.pod(ordinal)))
        for ordinal, record in sorted(observed.berths.items())
    ]


def written_rows(records: Mapping[int, Object]) -> list[dict[str, Any]]:
    """The same rows of berths that a run has just brought as far as their records say."""
    return [
        _row(record, recorded(record), (record.get("status") or {}).get("podName"))
        for _ordinal, record in sorted(records.items())
    ]


def suspended_rows(records: Mapping[int, Object]) -> list[dict[str, Any]]:
    """The same rows after the pods have gone: no phase is recorded on the way back."""
    return [
        _row(record, states.BOUND if states.reached(recorded(record), states.BOUND) else recorded(record), None)
        for _ordinal, record in sorted(records.items())
    ]


def without_workload(records: Mapping[int, Object]) -> list[dict[str, Any]]:
    """Rows of the berths that hold disks or devices, and whose workload was not told of them."""
    held = (states.RESERVED, states.BOUND)
    return [row for row in written_rows(records) if row["recorded_phase"] in held]


def left(kept: Sequence[Mapping[str, Any]]) -> str:
    """What a failed run leaves, and what becomes of it. ``kept``: rows.

    A Reserved berth counts as one with data (docs/decisions/0029): its node's agent may have begun on the disk.
    """
    told = [f"{row['name']} ({', '.join((row['phase'], *(disk['name'] for disk in row['disks'])))})" for row in kept]
    return (
        f"Left are the berths {', '.join(told)}: they keep their disks and devices, and the next run of this task goes "
        "on with them. With state: absent they are given up; the disks then stay with this app (retainedFor), although "
        "no pod has used them, until they are wiped or given to another by force_retained"
    )


def _name(thing: Object | None) -> str | None:
    return str(thing["metadata"]["name"]) if thing else None


def _row(record: Object, now: str, pod: str | None) -> dict[str, Any]:
    spec, meta = record["spec"], record["metadata"]
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "ordinal": spec["ordinal"],
        "uid": meta["uid"],
        "node": spec["nodeName"],
        "disks": [dict(disk) for disk in spec.get("disks") or ()],
        "devices": [dict(device) for device in spec.get("devices") or ()],
        "phase": now,
        "recorded_phase": recorded(record),
        "pod": pod,
    }


def chosen_rows(app: AppWanted, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """The same rows for replicas whose berth is not there yet."""
    sizes = {disk.name: disk.size for disk in app.disks}
    return [
        {
            "name": app.berth_name(choice.ordinal),
            "namespace": app.namespace,
            "ordinal": choice.ordinal,
            "uid": None,
            "node": choice.node,
            "disks": [
                {"claim": claim, "name": name, "size": sizes[claim]} for claim, name in sorted(choice.disks.items())
            ],
            "devices": [{"claim": claim, "name": name, "shares": shares} for claim, name, shares in choice.devices],
            "phase": states.SELECTED,
            "recorded_phase": None,
            "pod": None,
        }
        for choice in choices
    ]


def _brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """A berth in a diff: what a person decides by."""
    brief: dict[str, Any] = {"node": row["node"], "phase": row["phase"]}
    if row["disks"]:
        brief["disks"] = {disk["claim"]: disk["name"] for disk in row["disks"]}
    if row["devices"]:
        brief["devices"] = [f"{device['claim']}: {device['name']} ({device['shares']})" for device in row["devices"]]
    return brief


def diff(
    app: AppWanted,
    observed: Observed,
    plan: Plan,
    choices: Sequence[Choice],
    goal: str,
    updates: Mapping[int, PodChange] | None = None,
) -> dict[str, Any]:
    """Ansible's diff of a plan: every berth with its node, disks and devices, and every object that changes."""
    have = {row["name"]: row for row in rows(observed, app.workload)}
    before = {name: _brief(row) for name, row in have.items()}
    after = dict(before)
    for ordinal in plan.release:
        after.pop(app.berth_name(ordinal), None)
    for ordinal in plan.advance or {}:
        name = app.berth_name(ordinal)
        if not states.reached(have[name]["phase"], goal):
            after[name] = {**before[name], "phase": goal}
    for name in map(app.berth_name, plan.stop):
        if name in after:  # a run that died has given up that of a pod without one: its next place is chosen
            after[name] = {**after[name], "phase": goal}
    for name, was, now in _told_to_berths(app, observed, plan):
        before[name], after[name] = {**before[name], **was}, {**after[name], **now}
    for row in chosen_rows(app, choices):
        after[row["name"]] = {**_brief(row), "phase": goal}
    objects_before, objects_after = _object_changes(app, observed, plan, choices, goal)
    for ordinal in plan.stop:
        objects_after[f"Pod {app.namespace}/{app.berth_name(ordinal)}"] = "stopped, and its berth kept"
    for ordinal, change in sorted((updates or {}).items()):
        objects_after[f"Pod {app.namespace}/{app.berth_name(ordinal)}"] = _told(change)
    return {
        "before": {"berths": before, "objects": objects_before},
        "after": {"berths": after, "objects": objects_after},
        "before_header": f"{app.namespace}/{app.name} (as it is)",
        "after_header": f"{app.namespace}/{app.name} (as it will be)",
    }


def _told_to_berths(app: AppWanted, observed: Observed, plan: Plan) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, before, after) of what else a Berth says: the quorum, and that its replica's update has failed."""
    found: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    for ordinal in plan.refresh:
        was, now = int(observed.berths[ordinal]["spec"].get("quorum") or 0), quorum_of(app)
        if was != now:
            found.append((app.berth_name(ordinal), {"quorum": was or None}, {"quorum": now or None}))
    for ordinal in plan.settled:
        failure = failure_of(observed.berths.get(ordinal))
        if failure is not None:
            found.append((app.berth_name(ordinal), {"update failed": failure.why}, {"update failed": None}))
    return found


def _object_changes(
    app: AppWanted, observed: Observed, plan: Plan, choices: Sequence[Choice], goal: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    beside = ((observed.beside.get((one["kind"], one["metadata"]["name"])), one) for one in plan.beside)
    for live, desired in ((observed.service, plan.service), (observed.stateful_set, plan.stateful_set), *beside):
        if desired is not None:
            key = _key(desired)
            if live is not None:
                before[key] = _without_gaps(prune(aligned(live, desired), desired))
            after[key] = desired
    for ordinal in plan.release:
        before.update(_released(app.namespace, observed, ordinal))
    if states.reached(goal, states.BOUND):
        fresh = {**{choice.ordinal: dict(choice.disks) for choice in choices}, **_unbound(observed, plan)}
        for ordinal, disks in sorted(fresh.items()):
            for claim, disk in sorted(disks.items()):
                after[f"PersistentVolumeClaim {app.namespace}/{app.claim_name(claim, ordinal)}"] = (
                    f"bound to LocalDisk {disk}"
                )
    if app.workload == POD and states.reached(goal, states.CREATED):
        _pod_changes(app, observed, plan, before, after)
    return before, after


def _without_gaps(value: Any) -> Any:
    """Without what stands for an element that is not there."""
    if isinstance(value, Mapping):
        return {key: _without_gaps(one) for key, one in value.items()}
    return [_without_gaps(one) for one in value if one is not None] if isinstance(value, list) else value


def _unbound(observed: Observed, plan: Plan) -> dict[int, dict[str, str]]:
    """Kept berths whose claims are still to be made."""
    return {
        ordinal: {disk["claim"]: disk["name"] for disk in observed.berths[ordinal]["spec"].get("disks") or ()}
        for ordinal, now in (plan.advance or {}).items()
        if not states.reached(now, states.BOUND)
    }


def _released(namespace: str, observed: Observed, ordinal: int) -> dict[str, str]:
    record = observed.berths[ordinal]
    spec = record["spec"]
    prefix = f"PersistentVolumeClaim {namespace}"
    return {
        f"{prefix}/{disk['claim']}-{spec['app']}-{ordinal}": f"bound to LocalDisk {disk['name']} (its data is kept)"
        for disk in spec.get("disks") or ()
    }


def _pod_changes(app: AppWanted, observed: Observed, plan: Plan, before: dict[str, Any], after: dict[str, Any]) -> None:
    for ordinal in range(app.replicas):
        key = f"Pod {app.namespace}/{app.berth_name(ordinal)}"
        pod = observed.pod(ordinal)
        if ordinal in plan.restart:
            before[key] = {"ended": ended(pod)}
            after[key] = {"revision": app.revision}
        elif pod is None:
            after[key] = {"revision": app.revision}


def _told(change: PodChange) -> str:
    fields = ", ".join(change.forced or change.fields) or "nothing that the pod shows"
    first = f"; pulled on the node first: {', '.join(change.pulled)}" if change.pulled else ""
    held = "; its room is held meanwhile" if change.held else ""
    gate = "; it leaves its Services first" if change.gated else ""
    waits = f"; forbidden now by PodDisruptionBudget {', '.join(change.forbidden)}" if change.forbidden else ""
    return f"{'updated in place' if change.in_place else 'made anew on its node'}: {fields}{first}{held}{gate}{waits}"


def updated(app: AppWanted, updates: Mapping[int, PodChange]) -> list[dict[str, Any]]:
    """What becomes of the pods of another revision, highest ordinal first."""
    return [
        {
            "pod": app.berth_name(ordinal),
            "ordinal": ordinal,
            "in_place": change.in_place,
            "fields": list(change.forced or change.fields),
            "pulled": list(change.pulled),
            "held": change.held,
            "room": change.room or None,
            "gated": change.gated,
            "forbidden_by": list(change.forbidden),
        }
        for ordinal, change in sorted(updates.items(), reverse=True)
    ]


def restarted(app: AppWanted, observed: Observed, plan: Plan) -> list[dict[str, str]]:
    """The pods that had ended and are made anew."""
    return [{"pod": app.berth_name(ordinal), "ended": ended(observed.pod(ordinal))} for ordinal in plan.restart]


def _key(manifest: Mapping[str, Any]) -> str:
    meta = manifest["metadata"]
    return f"{manifest['kind']} {meta['namespace']}/{meta['name']}"


def removal_diff(observed: Observed, plan: Plan) -> dict[str, Any]:
    """The diff of state absent: what goes, and whose data stays where."""
    name, namespace = observed.name, observed.namespace
    before: dict[str, Any] = {row["name"]: _brief(row) for row in rows(observed, "StatefulSet")}
    kept = []
    for ordinal in plan.release:
        uid = observed.berths[ordinal]["metadata"]["uid"]
        for disk in observed.berths[ordinal]["spec"].get("disks") or ():
            live = observed.disks.get(disk["name"])
            if live is not None and unlock_disk(live, uid, keep_data=True) is not None:
                kept.append(f"{disk['name']} (claim {disk['claim']} of {name}-{ordinal})")
    objects = [
        f"{kind} {namespace}/{name}"
        for kind, there in (("StatefulSet", observed.stateful_set), ("Service", observed.service))
        if there
    ]
    objects += [f"{kind} {namespace}/{other}" for kind, other in sorted(observed.beside)]
    return {
        "before": {"berths": before, "objects": objects},
        "after": {"berths": {}, "objects": [], "data kept on": kept},
        "before_header": f"{namespace}/{name} (as it is)",
        "after_header": f"{namespace}/{name} (absent)",
    }
