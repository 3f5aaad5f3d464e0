"""The extender's ledger: disks that are spoken for and not locked yet, so that no other pod is sent to them.

An extender is not told what kube-scheduler made of its answers. What it can see is the node that kube-scheduler writes
on a claim (volume.kubernetes.io/selected-node), and its own binds: from either moment on a disk of the claim counts as
taken. A hold ends when the watch shows the lock, when the claim's node is taken back or the claim goes, and at the
latest after `seconds`. Locks decide; holds only spare pods a way in vain. Used by verdicts.py and binder.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from berth_core.app import claims
from berth_core.app.asking import ask
from berth_core.errors import BerthError
from berth_core.framework.cycle import place
from berth_core.framework.events import Change
from berth_core.framework.profile import Profile
from berth_core.lifecycle import states
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.model.resources import BERTH, PVC
from berth_core.model.volume import ClaimInfo

from ..cluster import Cluster

_log = logging.getLogger(__name__)

#: Who holds: ("pod", uid) or ("claim", uid).
Owner = tuple[str, str]


class Holds:
    """``now``: a monotonic clock. Listens to the cluster from the beginning."""

    def __init__(self, cluster: Cluster, profile: Profile, seconds: float, now: Callable[[], float]) -> None:
        self._cluster, self._profile, self._seconds, self._now = cluster, profile, seconds, now
        self._held: dict[Owner, tuple[PlacementRequest, float]] = {}
        self._bound_now: set[str] = set()
        self.expired = 0
        cluster.tell = self.changed

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, owner: Owner, request: PlacementRequest, placement: Placement) -> None:
        """Count the placement as taken from now on."""
        self.drop(owner)
        self._cluster.snapshot.assume(request, placement)
        self._held[owner] = (request, self._now() + self._seconds)

    def drop(self, owner: Owner) -> None:
        """Believe the API server's objects alone again."""
        held = self._held.pop(owner, None)
        if held is not None:
            self._cluster.snapshot.forget(held[0])

    def expire(self) -> None:
        """Give up what nobody has confirmed in time."""
        for owner, (request, until) in list(self._held.items()):
            if self._now() >= until:
                _log.warning("a hold has expired", extra={"for": f"{request.pod.namespace}/{request.pod.name}"})
                self.expired += 1
                self.drop(owner)

    def changed(self, change: Change) -> None:
        """News of the watch."""
        kind = change.event.resource
        seen = change.new if change.new is not None else change.old
        if not isinstance(seen, dict):
            return
        if kind == PVC.kind:
            self.look_again([(seen["metadata"]["namespace"], seen["metadata"]["name"])], seen["metadata"]["uid"])
        elif kind == BERTH.kind:
            found = claims.claim_of(seen)
            if found is not None:
                self.look_again([found[:2]], found[2])

    def look_at_all(self) -> None:
        """Once every kind was listed: a claim may have been seen before the disks that it could have."""
        self.look_again(list(self._cluster.snapshot.volumes.claims))

    def release(self, pod: PodInfo) -> None:
        """While a pod is judged anew, what is held for itself and its claims is no obstacle to it."""
        self.drop(("pod", pod.uid))
        for claim in self._claims_of(pod):
            self.drop(("claim", claim.uid))

    def look_again(self, names: Iterable[tuple[str, str]], gone: str = "") -> None:
        """Hold a disk for each claim that has a node and no lock; drop the hold of any other, and of uid ``gone``."""
        if gone:
            self.drop(("claim", gone))
        for name in names:
            claim = self._cluster.snapshot.volumes.claims.get(name)
            if claim is not None:
                self._hold_for(claim)

    def renew(self, pod: PodInfo) -> None:
        """The other half of `release`."""
        self.look_again([(claim.namespace, claim.name) for claim in self._claims_of(pod)])

    def begin(self, pod: PodInfo, request: PlacementRequest, placement: Placement) -> None:
        """The pod is being bound: what is held for it stands for its claims too."""
        self._bound_now.update(claim.uid for claim in self._claims_of(pod))
        self.hold(("pod", pod.uid), request, placement)

    def end(self, pod: PodInfo) -> None:
        """It is bound, or it is not."""
        self._bound_now.difference_update(claim.uid for claim in self._claims_of(pod))
        self.drop(("pod", pod.uid))
        self.renew(pod)

    def _claims_of(self, pod: PodInfo) -> list[ClaimInfo]:
        known = self._cluster.snapshot.volumes.claims
        found = [known.get((pod.namespace, volume.claim)) for volume in pod.volumes]
        return [claim for claim in found if claim is not None]

    def _hold_for(self, claim: ClaimInfo) -> None:
        self.drop(("claim", claim.uid))
        record = self._cluster.snapshot.berths.get((claim.namespace, claims.berth_name(claim.uid)))
        locked = record is not None and states.reached(record.phase or states.SELECTED, states.RESERVED)
        settled = locked or bool(claim.volume_name) or claim.terminating or claim.uid in self._bound_now
        if settled or not claim.selected_node:
            return
        # The name is one that no pod has: the claim stands for whichever pod it is.
        stand_in = {
            "metadata": {"name": f"claim {claim.name}", "namespace": claim.namespace, "uid": claim.uid},
            "spec": {"volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim.name}}]},
        }
        try:
            asked = ask(self._cluster, PodInfo.from_manifest(stand_in))
            if asked.problem or not asked.request.disks:
                return
            outcome = place(
                self._profile, self._cluster.snapshot, asked.request, only_node=claim.selected_node, hints=False
            )
        except BerthError as exc:
            _log.warning("claim %s/%s: nothing is held for it: %s", claim.namespace, claim.name, exc.message)
            return
        if outcome.placement is not None:
            self.hold(("claim", claim.uid), asked.request, outcome.placement)
