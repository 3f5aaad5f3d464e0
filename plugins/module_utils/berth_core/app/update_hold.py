# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hold pod: it keeps a replica's room on its node while an update has deleted its pod. Pure.

It is pending for ever, since no node has the label that it asks for, and it is nominated to the replica's node. There
kube-scheduler counts it against every other pod of its priority or below, the replica's new pod among them: when that
has been refused for the first time, it is nominated itself, and the hold pod goes. Whether that is there, and what its
status says, is all that a driver remembers of it. app.update says when each of this is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import StateError
from ..model.one_node import tie
from ..model.pod import EVERY_ADDRESS
from ..model.times import age
from .helper_pods import COMMON, NOTHING, Verdict, going, helper_pod, of_ordinal
from .helper_pods import HOLD as KIND
from .observed import ended, unscheduled

Object = Mapping[str, Any]
#: The PriorityClass of hold pods: it preempts nobody, and so kube-scheduler leaves them their nomination.
CLASS = "berth-hold"
#: The label that no node has.
NO_NODE: Mapping[str, str] = {"berth.dev/hold": "never"}
#: Seconds that a scheduler has to look at a hold pod for the first time.
SEEN = 30.0
#: What of a container that is never started has to be said so that a namespace for careful pods takes it.
_CAREFUL = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
#: What a Berth says it takes, and no container can ask for.
_COUNTED = ("pods", "attachable-volumes-")
#: The name of kube-scheduler in pods, and that of berth's own where nobody gives it another one.
STOCK, OURS = "default-scheduler", "berth-scheduler"
#: Who holds a replica's room while it has no pod. UNKNOWN: that is for its scheduler to say.
BY_HOLD_POD, BY_BERTH, BY_NOBODY, UNKNOWN = "hold_pod", "berth", "nobody", "unknown"
HELD, TO_NOMINATE, WAITING, VOID = "held", "to nominate", "waiting", "void"


@dataclass(frozen=True)
class Holds:
    """``pods``: an app's hold pods, by name. ``berths``: by ordinal, which say what each replica takes. ``values``: of
    PriorityClasses; without that of CLASS no hold pod is made. ``without``: ordinals that do without, for theirs was
    refused."""

    pods: Mapping[str, Object] = field(default_factory=dict)
    berths: Mapping[int, Object] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    without: frozenset[int] = frozenset()


NO_HOLDS = Holds()


class Nomination(NamedTuple):
    """A pod is to have the room of that node. ``drop``: the hold pods that are of no use from then on."""

    pod: Object
    node: str
    drop: tuple[Object, ...] = ()

    @property
    def patch(self) -> dict[str, Any]:
        """Of the pod's status, and of this very state of it: one that has got a node meanwhile is not nominated."""
        seen = {key: self.pod["metadata"].get(key) for key in ("uid", "resourceVersion")}
        return {"metadata": seen, "status": {"nominatedNodeName": self.node}}


class Room(NamedTuple):
    """How the room of one replica stands. ``keeps``: the names of hold pods that are of use.

    ``make``: the one that is to be made. ``nominate``: who gets the room. ``wait``: what comes before the replica's pod
    is deleted, or before it has a node; after ``again`` seconds time alone may end that. ``note``: for a person.
    """

    keeps: tuple[str, ...] = ()
    make: Mapping[str, Any] | None = None
    nominate: Nomination | None = None
    wait: str = ""
    again: float = 0.0
    note: str = ""


# -- before the pod is deleted


def before(app: str, ordinal: int, pod: Object, template: Object, holds: Holds, now: datetime) -> Room:
    """``pod``, on its node, is to be deleted there; with nothing to do or to wait for it may be."""
    there, record, name = of_ordinal(holds.pods, ordinal), holds.berths.get(ordinal), pod["metadata"]["name"]
    if ordinal in holds.without or record is None or CLASS not in holds.values:
        return Room(_names(there))  # whatever is there goes when the new pod comes
    if not holds_room(pod, template, holds.values):
        priority = priority_of(pod, template, holds.values)
        return Room(note=goes_on_without(name, too_low(priority, holds.values[CLASS])))
    want = hold_pod(app, ordinal, pod, template, record)
    own, node = want["metadata"]["name"], pod["spec"]["nodeName"]
    live = holds.pods.get(own)
    if live is None:
        return Room((own,), make=want)
    waits = f"the room of pod {name} on node {node} to be held (pod {own}"
    if going(live):
        return Room((own,), wait=f"{waits} is still to go)")
    found = verdict(live, node, now)
    if found.state == TO_NOMINATE:
        return Room((own,), nominate=Nomination(live, node))
    if found.state == WAITING:
        return Room((own,), wait=f"{waits}: {found.words})", again=found.again)
    return Room((own,), note=goes_on_without(name, found.words) if found.state == VOID else "")


def hold_pod(app: str, ordinal: int, pod: Object, template: Object, record: Object) -> dict[str, Any]:
    """The hold pod for the replica of which ``pod`` is; ``record``: its Berth, which says what the new pod takes."""
    spec, meta = record["spec"], record["metadata"]
    asked = {name: each for name, each in (spec.get("requests") or {}).items() if not name.startswith(_COUNTED)}
    amounts = {**NOTHING, **asked}
    container: dict[str, Any] = {
        "name": KIND,
        "image": template["spec"]["containers"][0]["image"],
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": _CAREFUL,
    }
    ports = [_port(each) for each in spec.get("hostPorts") or ()]
    body: dict[str, Any] = {
        "schedulerName": pod["spec"].get("schedulerName") or STOCK,
        "priorityClassName": CLASS,
        "nodeSelector": dict(NO_NODE),
        "containers": [{**container, "ports": ports} if ports else container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        **COMMON,
        **{key: template["spec"][key] for key in ("serviceAccountName",) if template["spec"].get(key)},
    }
    tie(body, pod["spec"]["nodeName"])  # nobody looks at another node for it
    owner = {"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", "name": meta["name"], "uid": meta["uid"]}
    return helper_pod(app, ordinal, KIND, pod, body, owner)


def _port(told: Object) -> dict[str, Any]:
    port = {"containerPort": told["port"], "hostPort": told["port"], "protocol": told.get("protocol") or "TCP"}
    address = told.get("hostIP") or EVERY_ADDRESS
    return port if address == EVERY_ADDRESS else {**port, "hostIP": address}


def verdict(hold: Object, node: str, now: datetime) -> Verdict:
    """How far a hold pod is. Its nomination counts from when its scheduler has looked at it: what is written to pods
    comes to a scheduler in the order in which it was written, and the deletion of the replica's pod is written later.
    """
    status, spec = hold.get("status") or {}, hold["spec"]
    if ended(hold) or spec.get("nodeName"):
        return Verdict(VOID, f"pod {hold['metadata']['name']} {ended(hold) or 'was bound to node ' + spec['nodeName']}")
    if refused(hold):
        return Verdict(HELD if status.get("nominatedNodeName") == node else TO_NOMINATE)
    told = unscheduled(hold)
    words = f"scheduler {spec.get('schedulerName')} has not looked at it{f' ({told})' if told else ''}"
    rest = SEEN - (age(str(hold["metadata"].get("creationTimestamp")), now) or 0.0)
    if rest > 0:
        return Verdict(WAITING, words, rest)
    return Verdict(VOID, f"within {SEEN:g} s {words} (pod {hold['metadata']['name']})")


def refused(pod: Object) -> bool:
    """Whether a scheduler has looked at the pod, and found no place: it stands in its queue."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for one in conditions
    )


# -- when it has been


def after(pod: Object | None, ordinal: int, doomed: bool, holds: Holds) -> Room:
    """``pod``: the replica's, which has no node yet, or is going; None: there is none. ``doomed``: it is to be deleted
    itself, as the template has changed again."""
    there = of_ordinal(holds.pods, ordinal)
    if not there or pod is None or going(pod) or doomed:
        return Room(_names(there))
    if not refused(pod):  # its first try would take a nomination back that is written meanwhile
        return Room(_names(there), wait=f"pod {pod['metadata']['name']} to be looked at by its scheduler")
    home = (holds.berths.get(ordinal) or {"spec": {}})["spec"].get("nodeName")
    if home is None or (pod.get("status") or {}).get("nominatedNodeName") == home:
        return Room()
    return Room(_names(there), nominate=Nomination(pod, home, tuple(there)))


def _names(pods: Iterable[Object]) -> tuple[str, ...]:
    return tuple(pod["metadata"]["name"] for pod in pods)


# -- priorities


def classes(template: Object, pods: Iterable[Object]) -> list[str]:
    """The PriorityClasses whose values have to be known: of a running pod its own is."""
    given = template["spec"].get("priorityClassName")
    known = {pod["spec"].get("priorityClassName") for pod in pods}
    return [CLASS, *([str(given)] if given and known != {given} else [])]


def values(found: Mapping[str, Object | None]) -> dict[str, int]:
    """Of PriorityClasses as they were found. Raises StateError where no hold pod would hold anything."""
    own = found.get(CLASS)
    if own is None:
        raise StateError(
            f"PriorityClass {CLASS} is not there, and hold pods (update_hold) are of that class; run the module crds "
            "of this collection, which makes it, or say update_hold: false. Nothing was changed"
        )
    policy = own.get("preemptionPolicy") or "PreemptLowerPriority"
    if policy != "Never":
        raise StateError(
            f"PriorityClass {CLASS} has preemptionPolicy {policy}: expected Never, or kube-scheduler takes hold pods "
            "(update_hold) their rooms again; delete it, and make it anew, as the module crds does. Nothing was changed"
        )
    return {name: int(body["value"]) for name, body in found.items() if body is not None}


def priority_of(pod: Object, template: Object, known: Mapping[str, int]) -> int:
    """Of the pod that takes the place of ``pod``."""
    given, spec = template["spec"].get("priorityClassName"), pod["spec"]
    if given and given != spec.get("priorityClassName") and given in known:
        return known[given]
    return int(spec.get("priority") or 0)


def holder(held: bool, pod: Object, template: Object, fields: Iterable[str] = ()) -> str:
    """Who holds the room of ``pod`` while the new one is not there; ``held``: a hold pod. ``fields``: what changes.

    What the running pod names counts where that does not change: a policy may have given it another scheduler.
    """
    if held:
        return BY_HOLD_POD
    spec = template["spec"] if "spec.schedulerName" in fields else pod["spec"]
    return {STOCK: BY_NOBODY, OURS: BY_BERTH}.get(spec.get("schedulerName") or STOCK, UNKNOWN)


def holds_room(pod: Object, template: Object, known: Mapping[str, int]) -> bool:
    """Whether a hold pod keeps pods of the same priority away from the room of ``pod``."""
    return CLASS in known and priority_of(pod, template, known) <= known[CLASS]


# -- words


def goes_on_without(name: str, why: str) -> str:
    """The warning about a replica whose room nobody holds."""
    return f"pod {name} is made anew without its room being held: {why}; mend that, or say update_hold: false"


def too_low(priority: int, value: int) -> str:
    """Why a hold pod would be of no use."""
    return (
        f"its priority is {priority}, and PriorityClass {CLASS} has the value {value}, which keeps no pod of priority "
        f"{priority} away (who wants that deletes the class and makes it anew with {priority})"
    )


def no_right(message: str) -> str:
    """Why a hold pod could not be nominated."""
    return f"{message} (the right to patch pods/status is in ClusterRole berth-update-hold)"


def not_known(message: str) -> str:
    """The warning where the classes may not be read."""
    return f"rooms are not held during this update (update_hold): {message}; ClusterRole berth-disk-user has that right"
