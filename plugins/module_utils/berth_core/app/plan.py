# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is wanted and what is there to what has to be done. Pure: check mode stops here, a run goes on.

The plan of a finished app is empty. Nothing in it depends on what an earlier, interrupted run remembered.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..lifecycle import states
from ..lifecycle.view import recorded
from . import by_hand, manifests
from .by_hand import differing
from .compare import differences
from .given_strategy import ON_DELETE
from .held_claims import check_held
from .helper_pods import HOLD, left_over, of_app, ordinal_of
from .hook_rules import owes
from .observed import Object, Observed, device_claim_stands, ended, phase
from .pod_revision import HASH, Mark, outdated, updating
from .restart_backoff import Backoff
from .update_failure import settled
from .wanted import POD, REVISION_ANNOTATION, STATEFUL_SET, AppWanted

#: Where bare pods bear their revision.
OWN = Mark("annotations", REVISION_ANNOTATION)


@dataclass(frozen=True)
class Plan:
    """``select``: ordinals that need a berth. ``discard``: berths to be given up first: Selected ones that no longer
    suit the request, and those that an earlier run began to give up. ``replacing``: berths that disk_replace is at.

    ``tie``: kept berths with a device that is to be handed over and has no ResourceClaim yet.
    ``advance``: ordinal -> phase it is in, for berths that are kept and have steps to go. ``release``: ordinals to
    give up, highest first. ``refresh``: berths whose facts (requests, labels, ports, quorum) were recorded for another
    revision of the template: what admission adds to a pod is no revision. ``restart``: bare pods that have ended and
    are made anew in their berths. ``backoff``: ended pods whose time has not come (app.ended_pods); those that stand in
    ``restart`` as well are waited for. ``update``: ordinals whose pods have another revision, or wait for a hook, where
    the app has rules for updates, highest first. ``outdated``: those of them that the rules leave as they are
    (partition, paused). ``stop``: ordinals of a suspended app whose pods are there, highest first.
    ``held``: ordinals whose room an update holds, or held when it died: they are brought home, whatever else is done.
    ``stale``: leftovers of berths that are gone. ``helpers``: helper pods of an update that nobody asks for any more.
    ``later``: berths that are being given up, and left alone until it is their turn (app.leaving).
    ``settled``: ordinals whose Berths tell of a failed update that is over. ``service``/``stateful_set``/``beside``:
    manifests to apply.
    """

    select: tuple[int, ...] = ()
    discard: tuple[int, ...] = ()
    advance: Mapping[int, str] | None = None
    release: tuple[int, ...] = ()
    refresh: tuple[int, ...] = ()
    service: Mapping[str, Any] | None = None
    stateful_set: Mapping[str, Any] | None = None
    stale: tuple[str, ...] = ()
    tie: tuple[int, ...] = ()
    replacing: tuple[int, ...] = ()
    restart: tuple[int, ...] = ()
    beside: tuple[Mapping[str, Any], ...] = ()
    update: tuple[int, ...] = ()
    outdated: tuple[int, ...] = ()
    stop: tuple[int, ...] = ()
    helpers: tuple[Object, ...] = ()
    held: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()
    backoff: Mapping[int, Backoff] = field(default_factory=dict)
    later: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        return not (
            self.select
            or self.discard
            or self.advance
            or self.release
            or self.refresh
            or self.restart
            or self.update
            or self.stop
            or self.helpers
            or self.held
            or self.settled
            or self.service
            or self.stateful_set
            or self.stale
            or self.tie
            or self.beside
        )


def make_plan(app: AppWanted, observed: Observed, until: str = states.CREATED) -> Plan:
    """Raises StateError where the app that is there cannot become the one that is wanted without losing data."""
    release = tuple(sorted((ordinal for ordinal in observed.berths if ordinal >= app.replicas), reverse=True))
    build, until = until == states.CREATED, goal(app, until)
    pods = build and not app.suspended
    select, discard, advance, refresh, replacing, held = [], [], {}, [], [], []
    for ordinal in range(app.replicas):
        now = phase(ordinal, observed, app.workload)
        record = observed.berths.get(ordinal)
        if record is None:
            select.append(ordinal)
        elif now == states.RELEASING or (recorded(record) == states.SELECTED and not _suits(app, record)):
            discard.append(ordinal)
            select.append(ordinal)
        else:
            if recorded(record) != states.SELECTED:
                held.append(ordinal)
            if now == states.REPLACING:
                replacing.append(ordinal)
            elif not states.reached(now, until) or not states.reached(recorded(record), until):
                advance[ordinal] = now
            if now != states.REPLACING and _lacks_facts(app, record):
                refresh.append(ordinal)
    check_held(app, observed, held)
    update, outdated = _to_update(app, observed, replacing) if pods else ((), ())
    held_rooms = _held(app, observed, replacing) if pods else ()
    return Plan(
        tuple(select),
        tuple(discard),
        advance,
        release,
        tuple(refresh),
        service_change(app, observed) if build else None,
        stateful_set_change(app, observed) if build else None,
        _stale(observed),
        _untied(app, observed) if states.reached(until, states.BOUND) else (),
        tuple(replacing),
        _ended_pods(app, observed, replacing) if pods else (),
        beside_changes(app, observed) if build else (),
        update,
        outdated,
        _to_stop(app, observed) if build and app.suspended else (),
        () if update or held_rooms else tuple(left_over(observed.helpers, ())),
        held_rooms,
        _settled(app, observed, (*update, *outdated), discard) if build else (),
    )


def _settled(app: AppWanted, observed: Observed, left: Sequence[int], discard: Sequence[int]) -> tuple[int, ...]:
    return tuple(ordinal for ordinal in settled(app, observed, left) if ordinal not in discard)


def goal(app: AppWanted, until: str) -> str:
    """How far the berths are brought: those of a suspended app as far as their claims."""
    return states.BOUND if app.suspended and until == states.CREATED else until


def _to_stop(app: AppWanted, observed: Observed) -> tuple[int, ...]:
    return tuple(ordinal for ordinal in reversed(range(app.replicas)) if observed.pod(ordinal) is not None)


def _untied(app: AppWanted, observed: Observed) -> tuple[int, ...]:
    kept = {
        ordinal: record
        for ordinal, record in observed.berths.items()
        if ordinal < app.replicas and recorded(record) not in (states.RELEASING, states.REPLACING)
    }
    return tuple(
        ordinal
        for ordinal, record in sorted(kept.items())
        if not all(device_claim_stands(record, app.claim_name(each.name, ordinal), observed) for each in app.handed)
    )


def removal_plan(observed: Observed) -> Plan:
    """The plan for state absent: every berth, highest ordinal first."""
    ordinals = tuple(sorted(observed.berths, reverse=True))
    return Plan(release=ordinals, stale=_stale(observed), helpers=tuple(left_over(observed.helpers, ())))


def _stale(observed: Observed) -> tuple[str, ...]:
    """What is left of berths that are gone, as people name it."""
    claims, volumes = observed.stale_claims()
    left = [f"LocalDisk {disk['metadata']['name']}" for disk in observed.stale_disks()]
    left += [f"LocalDevice {device['metadata']['name']}" for device, _uid in observed.stale_devices()]
    left += [f"PersistentVolumeClaim {claim['metadata']['name']}" for claim in claims]
    left += [f"PersistentVolume {volume['metadata']['name']}" for volume in volumes]
    return tuple(sorted(left))


def _lacks_facts(app: AppWanted, record: Object) -> bool:
    """Whether the Berth was told of another template, or of another quorum."""
    spec = record["spec"]
    return bool(spec.get("revision") != app.revision or (spec.get("quorum") or 0) != manifests.quorum_of(app))


def _suits(app: AppWanted, record: Object) -> bool:
    """Whether a choice that was written down, and not yet locked, still answers the request."""
    spec = record["spec"]
    disks = sorted((disk["claim"], disk["size"]) for disk in spec.get("disks") or ())
    devices = {device["claim"] for device in spec.get("devices") or ()}
    wanted_disks = sorted((disk.name, disk.size) for disk in app.disks)
    return (
        disks == wanted_disks
        and devices == {device.name for device in app.devices}
        and spec.get("revision") == app.revision
    )


def _to_update(app: AppWanted, observed: Observed, replacing: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(to be updated, left as they are), highest ordinal first."""
    rules = app.update
    if rules is None:
        return (), ()
    mark, revision = (HASH, _revision_there(app, observed)) if app.workload == STATEFUL_SET else (OWN, app.revision)
    going: list[int] = []
    left: list[int] = []
    for ordinal in reversed(range(app.replicas)):
        pod = observed.pod(ordinal)
        if pod is not None and ordinal not in replacing and outdated(pod, revision, mark):
            on_its_way = bool(revision) and (updating(pod) or {}).get("to") == revision
            taken = not rules.keeps(ordinal) and (on_its_way or not rules.paused)
            (going if taken else left).append(ordinal)
        elif _hook_is_due(app, observed, ordinal) and ordinal not in replacing:
            going.append(ordinal)
    return tuple(going), tuple(left)


def _held(app: AppWanted, observed: Observed, replacing: Sequence[int]) -> tuple[int, ...]:
    if app.update is None:
        return ()
    found = {ordinal_of(pod) for pod in of_app(observed.helpers, app.name, HOLD).values()}
    return tuple(sorted(found.intersection(range(app.replicas)).difference(replacing), reverse=True))


def _hook_is_due(app: AppWanted, observed: Observed, ordinal: int) -> bool:
    """Whether an earlier run has updated the replica, and its hook is still to be run."""
    rules = app.update
    if rules is None or rules.hooks is None or not rules.hooks.after or rules.keeps(ordinal):
        return False
    return owes(observed.berths.get(ordinal))


def _revision_there(app: AppWanted, observed: Observed) -> str:
    """The mark of pods that are made from this template; empty where the StatefulSet's controller does not say yet."""
    live = observed.stateful_set or {"metadata": {}}
    status, meta = live.get("status") or {}, live["metadata"]
    told = _asked_before(app, live)
    seen = int(status.get("observedGeneration") or 0) >= int(meta.get("generation") or 1)
    return str(status.get("updateRevision") or "") if told and seen else ""


def _ended_pods(app: AppWanted, observed: Observed, replacing: Sequence[int]) -> tuple[int, ...]:
    """Bare pods that nothing brings back, by the rule that the kubelet has for containers (restartPolicy).

    A pod that was evicted, or that its node refused (OutOfcpu), has Failed as a whole: no kubelet starts it again.
    """
    policy = app.template["spec"].get("restartPolicy", "Always")
    if app.workload != POD or policy == "Never":
        return ()
    phases = ("Failed", "Succeeded") if policy == "Always" else ("Failed",)
    found = []
    for ordinal in range(app.replicas):
        pod = observed.pod(ordinal)
        if pod is None or ordinal in replacing or outdated(pod, app.revision, OWN):
            continue
        if ended(pod).startswith(phases):
            found.append(ordinal)
    return tuple(found)


def service_change(app: AppWanted, observed: Observed) -> Mapping[str, Any] | None:
    if app.service is None:
        return None
    if observed.service is None or differences(app.service, observed.service):
        return app.service
    return None


def beside_changes(app: AppWanted, observed: Observed) -> tuple[Mapping[str, Any], ...]:
    """Services and ConfigMaps of the app's manifest that are not there as it says."""

    def stands(wanted: Mapping[str, Any]) -> bool:
        live = observed.beside.get((wanted["kind"], wanted["metadata"]["name"]))
        return live is not None and not differences(wanted, live)

    return tuple(one for one in app.beside if not stands(one))


def stateful_set_change(app: AppWanted, observed: Observed) -> Mapping[str, Any] | None:
    if app.workload != STATEFUL_SET:
        return None
    desired = manifests.stateful_set(app)
    live = observed.stateful_set
    if live is None:
        return desired
    desired = copy.deepcopy(desired)
    desired["spec"]["volumeClaimTemplates"] = (
        live["spec"].get("volumeClaimTemplates") or []
    )  # never changes: they only name the claims
    # Nor does this, of one that was there before berth.
    desired["spec"]["selector"] = live["spec"].get("selector") or desired["spec"]["selector"]
    rolls = bool(_to_update(app, observed, ())[0])  # of two who bring a template to the pods, one is stopped first
    compared = desired if rolls else _compared(app, desired)
    return None if _asked_before(app, live) and not differing(compared, live) else desired


def _asked_before(app: AppWanted, live: Object) -> bool:
    """Whether the StatefulSet was last given just this."""
    return bool((live["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION) == app.set_revision)


def strategy_patch(desired: Object, live: Object | None) -> Mapping[str, Any] | None:
    """The merge patch before a StatefulSet is applied that is OnDelete from now on; None where it needs none.

    What the API server has filled in for RollingUpdate belongs to nobody: no apply takes it away, and beside OnDelete
    it is refused.
    """
    wanted, there = (((one or {}).get("spec") or {}).get("updateStrategy") or {} for one in (desired, live))
    if live is None or wanted.get("type") != ON_DELETE or "rollingUpdate" not in there:
        return None
    strategy = {"type": ON_DELETE, "rollingUpdate": None}
    return {"metadata": {"uid": live["metadata"]["uid"]}, "spec": {"updateStrategy": strategy}}


def without_strategy(desired: Mapping[str, Any]) -> Mapping[str, Any]:
    """The StatefulSet as it would be if nothing were said of its updateStrategy."""
    return {**desired, "spec": {key: one for key, one in desired["spec"].items() if key != "updateStrategy"}}


def _compared(app: AppWanted, desired: Mapping[str, Any]) -> Mapping[str, Any]:
    """An updateStrategy of an earlier release goes with the next change of the manifest, and is none by itself."""
    return desired if app.update is None or app.update.asked else without_strategy(desired)


def lags(app: AppWanted, observed: Observed) -> bool:
    """Whether the StatefulSet's controller is still to say which revision the template is that it has been given."""
    live = observed.stateful_set
    told = live is not None and _asked_before(app, live)
    return app.update is not None and told and not _revision_there(app, observed)


def hand_made(app: AppWanted, observed: Observed, plan: Plan, before: Object | None = None) -> list[by_hand.Change]:
    """What others have changed in the StatefulSet and the plan takes back, whatever is asked for beside it.

    ``before``: the template that it was given last, where that is known; see needs_former.
    """
    live, desired = observed.stateful_set, plan.stateful_set
    if live is None or desired is None:
        return []
    return by_hand.taken_back(desired, live, _asked_before(app, live), before)


def needs_former(app: AppWanted, observed: Observed, plan: Plan) -> bool:
    """Whether hand_made does not know, without the template of before, what is new and what somebody has taken out."""
    live, desired = observed.stateful_set, plan.stateful_set
    if live is None or desired is None or _asked_before(app, live):
        return False
    return by_hand.names_more({"spec": {"template": desired["spec"]["template"]}}, live)
