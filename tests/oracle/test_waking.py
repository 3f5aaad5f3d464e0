"""What wakes a waiting pod, beside kube-scheduler's own EventsToRegister and QueueingHintFns (v1.36.4).

Wherever kube-scheduler would try a pod again that a plugin has refused, so must berth-scheduler: a change that is
missed costs the pod five minutes. The other way round is allowed only for a reason that stands below.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from berth_core.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    UNSCHEDULED_POD,
    Action,
    Change,
    ClusterEvent,
    Wish,
)
from berth_core.model.pod import PodInfo
from berth_core.plugins import hints
from berth_core.plugins.hints import BUILT_IN, wishes_of
from berth_core.plugins.table import make_profile
from tests.oracle.changes import case
from tests.oracle.conftest import ask
from tests.support.waking import changes

FIRST, LAST = (int(part) for part in os.environ.get("BERTH_ORACLE_SEEDS", "0-39").split("-"))
EACH = 120
THEIRS = [name for name in BUILT_IN if name not in ("LocalDiskFit", "LocalDeviceFit")]
#: What kube-scheduler has no events for: Berths, and namespaces.
OURS_ALONE = {"_kept", "_own_berth", "_relabelled"}
#: As kube-scheduler's: whoever refused the pod decides, so this one never says yes.
NEVER = {"DefaultPreemption": "_by_others"}
#: kube-scheduler's hint says yes to every event that it is asked about.
ALWAYS = {("NodeDeclaredFeatures", "Node")}
ACTIONS = {
    "Add": Action.ADD,
    "Delete": Action.DELETE,
    "UpdateNodeAllocatable": Action.NODE_ALLOCATABLE,
    "UpdateNodeLabel": Action.NODE_LABEL,
    "UpdateNodeTaint": Action.NODE_TAINT,
    "UpdateNodeDeclaredFeature": Action.NODE_DECLARED_FEATURE,
    "UpdatePodLabel": Action.POD_LABEL,
    "UpdatePodScaleDown": Action.POD_SCALE_DOWN,
    "UpdatePodToleration": Action.POD_TOLERATION,
    "UpdatePodSchedulingGatesEliminated": Action.POD_GATES_ELIMINATED,
    "UpdatePodGeneratedResourceClaim": Action.POD_CLAIMS_GENERATED,
}
EPHEMERAL = "the claim of an ephemeral volume, too"
NO_HINT = "few such changes: any of them counts"
#: Where berth says yes and kube-scheduler's hint no, by plugin and kind: an attempt more.
MAY_SAY_YES = {
    ("DynamicResources", "Pod"): "the claim that was made is looked for when the pod is tried",
    ("DynamicResources", "ResourceClaim"): "one that is gone as well; whether the pod's others are there is not asked",
    ("DynamicResources", "ResourceSlice"): "one that is gone as well: its pool may be whole without it",
    ("InterPodAffinity", "Node"): "which terms pods on the nodes have is not asked: any node, any label",
    ("InterPodAffinity", "Pod"): "terms are not asked: any pod on a node",
    ("NodeAffinity", "Node"): "the profile adds affinity, which kube-scheduler's hint asks only of the node as it is",
    ("NodeResourcesFit", "Node"): "the profile ignores resources, which kube-scheduler's hint asks for",
    ("NodeResourcesFit", "Pod"): "a pod that takes less of anything, not only of what is asked for",
    ("NodeUnschedulable", "Node"): "one that comes cordoned, where the pod tolerates that",
    ("NodeUnschedulable", "Pod"): "any toleration more, not only one of the cordon",
    ("NodeVolumeLimits", "CSINode"): NO_HINT,
    ("NodeVolumeLimits", "Pod"): "any pod that goes, not only one with claims",
    ("NodeVolumeLimits", "VolumeAttachment"): NO_HINT,
    ("PodTopologySpread", "Node"): "constraints are not asked: any node, any label or taint",
    (
        "PodTopologySpread",
        "Pod",
    ): "any change of one that counts, or of itself; selectors by the profile are not known",
    ("VolumeBinding", "CSIDriver"): "a driver of any class, not only of a volume that the pod names itself",
    ("VolumeBinding", "CSINode"): NO_HINT,
    ("VolumeBinding", "StorageClass"): NO_HINT,
    ("VolumeRestrictions", "PersistentVolumeClaim"): EPHEMERAL,
    ("VolumeRestrictions", "Pod"): "any pod that goes, not only one with the same volume",
    ("VolumeZone", "PersistentVolume"): NO_HINT,
    ("VolumeZone", "PersistentVolumeClaim"): EPHEMERAL,
    ("VolumeZone", "StorageClass"): NO_HINT,
}


class Heard(NamedTuple):
    """One change: what berth would do about a pod that each plugin in turn refused, and what kube-scheduler would."""

    where: str
    kind: str
    ours: Mapping[str, bool]
    theirs: Mapping[str, bool]


class Run(NamedTuple):
    """``hints``: by name, how often berth's said what. ``theirs``: plugin and number of the event, how often."""

    heard: list[Heard]
    hints: Mapping[str, Counter[bool]]
    theirs: Mapping[tuple[str, int], Counter[bool]]
    registered: Mapping[str, list[dict[str, Any]]]


def wakes(wish: Wish, pod: PodInfo, change: Change, count: Mapping[str, Counter[bool]]) -> bool:
    if not wish.event.covers(change.event):
        return False
    if wish.hint is None:
        return True
    said = wish.hint(pod, change)
    count[wish.hint.__name__][said] += 1
    return said


@pytest.fixture(scope="module")
def run(oracle) -> Run:
    listed = [{"name": name, "weight": 1} for name in THEIRS]
    seeds = range(FIRST, LAST + 1)
    cases = [{**case(seed, EACH), "plugins": listed} for seed in seeds]
    found = Run([], defaultdict(Counter), defaultdict(Counter), {})
    for seed, made, answer in zip(seeds, cases, ask(oracle, cases), strict=True):
        assert not found.registered or answer["registered"] == found.registered
        found = found._replace(registered=answer["registered"])
        args = {one["name"]: one["args"] for one in made["pluginConfig"]}
        profile = make_profile("oracle", args, [(name, 1) for name in THEIRS])
        wishes = wishes_of(profile.plugins)
        for number, (one, said) in enumerate(zip(made["happenings"], answer["said"], strict=True)):
            pod = PodInfo.from_manifest(one["pod"])
            told = changes(one["kind"], one["old"], one["new"])
            # Every hint is asked, so that all are counted.
            answers = {
                name: [wakes(wish, pod, change, found.hints) for wish in wishes[name] for change in told]
                for name in THEIRS
            }
            ours = {name: any(said) for name, said in answers.items()}
            for name, events in said.items():
                for index, yes in events.items():
                    found.theirs[name, int(index)][yes] += 1
            theirs = {name: any(said.get(name, {}).values()) for name in THEIRS}
            found.heard.append(Heard(f"seed {seed}, change {number}: {one}", one["kind"], ours, theirs))
    return found


def test_whatever_wakes_a_pod_of_kube_schedulers_wakes_ours(run):
    for one in run.heard:
        missed = [name for name, yes in one.theirs.items() if yes and not one.ours[name]]
        assert not missed, f"{missed}: {one.where}"


def test_what_wakes_more_pods_has_its_reason(run):
    more: Counter[tuple[str, str]] = Counter()
    for one in run.heard:
        for name, yes in one.ours.items():
            if yes and not one.theirs[name]:
                more[name, one.kind] += 1
                assert (name, one.kind) in MAY_SAY_YES, f"{name}: {one.where}"
    for (name, kind), count in sorted(more.items()):
        print(f"{count:5} {name}, {kind}: {MAY_SAY_YES[name, kind]}")
    assert set(more) == set(MAY_SAY_YES), "a reason that nothing needs"


def test_every_event_is_listened_to(run):
    for name in THEIRS:
        for one in run.registered[name]:
            missed = [
                str(event) for event in events_of(one) if not any(wish.event.covers(event) for wish in BUILT_IN[name])
            ]
            assert not missed, f"{name}: {missed}"


def events_of(registered: dict[str, Any]) -> list[ClusterEvent]:
    """Return the events that berth has for what a plugin of kube-scheduler's has registered."""
    kind, known = registered["resource"], set()
    for action in registered["actions"]:
        if action in ("Add", "Delete") or (kind in (POD, NODE) and action.startswith(f"Update{kind}")):
            known.add(ACTIONS.get(action, Action.OTHER_UPDATE))
        elif kind not in (POD, NODE):
            known.add(Action.OTHER_UPDATE)
    kinds = (ASSIGNED_POD, UNSCHEDULED_POD) if kind == POD else (kind,)
    return [ClusterEvent(one, action) for one in kinds for action in known]


def test_every_hint_has_said_both(run):
    """A comparison of one answer alone would prove nothing."""
    ours = {wish.hint.__name__ for name in THEIRS for wish in BUILT_IN[name] if wish.hint} | {hints._own_berth.__name__}
    for name in ours - OURS_ALONE - set(NEVER.values()):
        assert min(run.hints[name][True], run.hints[name][False]) >= 5, f"{name}: {run.hints[name]}"
    for name, events in run.registered.items():
        for index, one in enumerate(events):
            said = run.theirs[name, index]
            assert set(said) == expected(name, one), f"kube-scheduler's {name}, {one}: {said}"
            assert min(said.values()) >= 5, f"kube-scheduler's {name}, {one}: {said}"


def expected(name: str, registered: dict[str, Any]) -> set[bool]:
    """Return what a hint of kube-scheduler's can say; where there is none, everything counts."""
    if name in NEVER:
        return {False}
    return {True, False} if registered["hinted"] and (name, registered["resource"]) not in ALWAYS else {True}
