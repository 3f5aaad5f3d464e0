# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A berth is given up because its replica is not to run on its node any more, and somebody asked for it: the node is
lost and that is proven, or the replica leaves a node that is well.

Its disks are cordoned before their locks go, so that neither this replica nor another one is ever given them by itself;
their data stays in the replica's name. On a lost node the pod's object is taken away by force, as no kubelet will
confirm its end; on one that is well the pod is asked to go, and is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Callable

from ..app import claims
from ..app.disk_acts import cordoned_disk
from ..app.manifests import volume_of
from ..model.one_node import is_tied
from ..model.resources import LOCAL_DISK, POD, PVC, RESOURCE_CLAIM
from . import states
from .back import release
from .locks import BERTH_ANNOTATION, holds_disk
from .step import FORCE, REMOVE, REPLACE, Ref, Step, Wait, Write, first_due
from .view import Object, View, claim_name, devices_of, disks_of, going

#: In place of a Berth's uid, of a Loss. ANY_BERTH: whichever is on that node goes. NO_BERTH: disks alone are given up,
#: no Berth of the ordinal is left, and one that is made later, there or elsewhere, stays.
ANY_BERTH, NO_BERTH = "", "none"


@dataclass(frozen=True)
class Loss:
    """``node``: the one that is lost. ``proof``: by what it is known that nothing of it runs any more.

    ``app`` and ``ordinal``: whose data its disks may keep. ``left``: the node is well, and the replica leaves it.
    ``berth``: the uid of the one that goes, ANY_BERTH or NO_BERTH. ``why``: for the berth's history, where there is
    more to tell.
    """

    node: str
    proof: str
    namespace: str
    app: str
    ordinal: int
    left: bool = False
    berth: str = ANY_BERTH
    why: str = ""

    @property
    def where(self) -> str:
        """The node, for people."""
        return f"node {self.node}, which is left," if self.left else f"the lost node {self.node}"

    @property
    def of_one(self) -> bool:
        """Whether one Berth goes by its uid: the next one may be on that node, too."""
        return self.berth not in (ANY_BERTH, NO_BERTH)

    def takes(self, record: Object) -> bool:
        """Whether this very Berth goes: the one that comes after it is on another node, or has another uid."""
        if record["spec"]["nodeName"] != self.node:
            return False
        return self.berth in (ANY_BERTH, record["metadata"]["uid"])


def exchanging(record: Object, loss: Loss) -> Wait:
    """A berth whose disk is being exchanged is not given up: somebody else carries it on."""
    told = (record.get("status") or {}).get("replacing") or {}
    what = f"LocalDisk {told.get('from')} is being exchanged for {told.get('to')} on {loss.where.rstrip(',')}"
    return Wait("Replacing", f"{what}: delete the Berth to end that; its data is kept", True)


def give_up(view: View, record: Object, loss: Loss) -> Step:
    """-> Releasing."""
    held = [view.disks[each["name"]] for each in disks_of(record) if each["name"] in view.disks]
    own = [disk for disk in held if holds_disk(disk, record["metadata"]["uid"])]
    why = f"it leaves node {loss.node}" if loss.left else f"its node {loss.node} is lost ({loss.proof})"
    return _cordon(own, loss) or release(view, record, loss.why or why)


def cordon_kept(view: View, loss: Loss) -> Step | None:
    """Without a berth: the disks that keep this replica's data on the lost node, before another one is chosen."""
    return _cordon([disk for disk in view.disks.values() if keeps(disk, loss)], loss)


def keeps(disk: Object, loss: Loss) -> bool:
    """Whether a disk of the lost node keeps this replica's data, and nobody holds it."""
    spec = disk["spec"]
    kept = spec.get("retainedFor") or {}
    whose = (kept.get("namespace"), kept.get("app"), kept.get("ordinal"))
    return (
        spec["nodeName"] == loss.node and not spec.get("claimRef") and whose == (loss.namespace, loss.app, loss.ordinal)
    )


def _cordon(disks: Iterable[Object], loss: Loss) -> Write | None:
    for disk in disks:
        if not disk["spec"].get("unschedulable"):
            why = f"LocalDisk {disk['metadata']['name']} of {loss.where} is cordoned; its data is kept"
            return Write(REPLACE, LOCAL_DISK, cordoned_disk(disk, True), why)
    return None


def stop(view: View, record: Object, loss: Loss) -> Step | None:
    """Releasing: what was made for its pod goes, and the pod. None: the rest goes as of every other berth (back.py)."""
    return first_due(states.STEPS["vacate" if loss.left else "bury"].writes, _UNDO, view, record, loss)


def leaving(view: View, record: Object) -> View:
    """The view of a berth that is being given up, as of one whose replica leaves a node that is well.

    A run that had it leave may have died, and the next one not be asked for that: the replica is there, and its pod may
    run. As it was for a claim's berth, whose claim and pod are somebody else's, for an owner that is gone, as its pods
    have been stopped, and where the berth was never Reserved: nothing runs by it.
    """
    spec, meta = record["spec"], record["metadata"]
    if view.loss is not None or view.owner is None or claims.claim_of(record) is not None or not was_run_in(record):
        return view
    loss = Loss(spec["nodeName"], "", meta["namespace"], spec["app"], spec["ordinal"], left=True, berth=meta["uid"])
    return replace(view, loss=loss)


def vacate(view: View, record: Object) -> Step | None:
    """Releasing, of a node that is well: its claims are asked to go, and its pod, which is waited for."""
    view = leaving(view, record)
    return stop(view, record, view.loss) if view.loss is not None else None


def was_run_in(releasing: Object) -> bool:
    """Whether a berth that is being given up was more than a choice, and is not on its way out of berth's hands."""
    return (releasing.get("status") or {}).get("release") not in (states.NOTHING, states.LEAVE)


def _claims_go(view: View, record: Object, loss: Loss) -> Step | None:
    """All are asked to go before the pod is, so that no new one is made of them."""
    for claim in _claims(view, record):
        if not going(claim):
            return Write(REMOVE, PVC, dict(claim), f"the claim over a disk of {loss.where} goes")
    return None


def _claims(view: View, record: Object) -> list[Object]:
    """One that the StatefulSet's controller has made anew meanwhile is the next berth's."""
    own = [view.claims.get(claim_name(record, each["claim"])) for each in disks_of(record)]
    volumes = {volume_of(record, each) for each in disks_of(record)}
    return [one for one in own if one is not None and (going(one) or one["spec"].get("volumeName") in volumes)]


def _pod_and_claims_end(view: View, record: Object, loss: Loss) -> Step | None:
    """The claims that are going stay until the pod has."""
    step = _pod_goes(view, record, loss)
    if step is not None:
        return step
    left = _claims(view, record)
    if not left:
        return None
    ref = Ref.of(PVC, left[0])
    return Wait("PersistentVolumeClaimGoing", f"waits for the finalizers of PersistentVolumeClaim {ref.name}", on=ref)


def _device_claims_go(view: View, record: Object, loss: Loss) -> Step | None:
    """They hold no data, and are not waited for."""
    for name in dict.fromkeys(claim_name(record, each["claim"]) for each in devices_of(record)):
        live = view.device_claims.get(name)
        if live is not None and not going(live) and _made_for(live, record):
            why = f"ResourceClaim {name} over devices of {loss.where} goes"
            return Write(REMOVE, RESOURCE_CLAIM, dict(live), why)
    return None


def _made_for(thing: Object, record: Object) -> bool:
    return bool((thing["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION) == record["metadata"]["uid"])


def _pod_goes(view: View, record: Object, loss: Loss) -> Step | None:
    """Only what is of that node: another pod of that name waits for its new claims."""
    pod = view.pods.get(str(record["metadata"]["name"]))
    if pod is None or not _of_node(pod, loss):
        return None
    if going(pod) and (loss.left or pod["metadata"].get("deletionGracePeriodSeconds") == 0):
        ref = Ref.of(POD, pod)
        what = "the end" if loss.left else "the finalizers"
        return Wait("PodGoing", f"waits for {what} of pod {ref.namespace}/{ref.name}", on=ref)
    if loss.left:
        return Write(REMOVE, POD, dict(pod), f"the pod leaves node {loss.node}")
    return Write(FORCE, POD, dict(pod), f"the pod's object goes: {loss.proof}, so nothing of it runs on {loss.node}")


def _of_node(pod: Object, loss: Loss) -> bool:
    """Bound there, or tied to it by name before it is bound: such a pod would wait for that node for ever."""
    spec = pod.get("spec") or {}
    bound = spec.get("nodeName")
    return bound == loss.node or (not bound and is_tied(spec, loss.node))


#: How the writes are made in which such a berth differs from others.
_UNDO: Mapping[tuple[str, str], Callable[[View, Object, Loss], Step | None]] = {
    ("delete", "PersistentVolumeClaim"): _claims_go,
    ("delete by force", "Pod"): _pod_and_claims_end,
    ("delete", "Pod"): _pod_and_claims_end,
    ("delete", "ResourceClaim"): _device_claims_go,
}
