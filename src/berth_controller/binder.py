"""One claim: asks for the next write, carries it out, asks again. Every step is decided in berth_core.lifecycle.

The controller calls `reconcile` with (namespace, uid of the claim). What it needs is taken from the caches and from the
controller's own last writes (berth_kube.lifecycle).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import replace

from berth_core.app import capacity, claim_before, claims
from berth_core.app.claim_disks import choose, named_disks, own_disks
from berth_core.app.claim_pods import ClaimPod
from berth_core.app.claims import Asked
from berth_core.errors import ConflictError, UnschedulableError
from berth_core.lifecycle import states
from berth_core.lifecycle.claim import ClaimOwner
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import DONE, Choose, Look, Step, Wait, Write
from berth_core.lifecycle.view import View, recorded
from berth_core.model.disk import LocalDisk
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PVC
from berth_core.model.tenant import UNKNOWN, Tenant
from berth_kube.client import KubeClient
from berth_kube.lifecycle import Driver, claim_berth, view_of_claim

from .caches import Caches, Obj, slim_pod
from .held_back import HeldBack
from .reports import Reports
from .rescues import Rescues
from .wakes import ClaimKey, Wakes

_log = logging.getLogger(__name__)

#: Writes and refusals of one visit. A claim's whole life has fewer; more: somebody works against the controller.
VISIT = 40


class Binder:
    """Brings claims to Bound, and back to nothing when they are gone.

    ``wakes`` gets the claims that wait for a disk to become free; ``resync``: seconds between two visits.
    """

    def __init__(
        self, client: KubeClient, caches: Caches, reports: Reports, wakes: Wakes, mount_root: str, resync: float
    ) -> None:
        self._client, self._caches, self._reports, self._wakes = client, caches, reports, wakes
        self._mount_root, self._resync = mount_root, resync
        self._driver = Driver(client, caches, "berth-controller")
        self._loop = asyncio.get_running_loop()
        #: disks that were chosen in this process and are not locked yet
        self._chosen: dict[ClaimKey, str] = {}
        #: pods that were asked for, as the watch had not told of the one for which the claim's node was chosen
        self._pods: dict[ClaimKey, list[Obj]] = {}
        #: the namespaces of claims that are being visited: a claim's own never changes
        self._tenants: dict[ClaimKey, Tenant] = {}
        self.held_back = HeldBack(self._settled, self._loop.time)
        self._since: dict[ClaimKey, float] = {}
        self.rescues = Rescues(wakes.pending, reports.metrics.rescues.inc)

    async def reconcile(self, key: ClaimKey) -> float | None:
        """Carry out what is to be done. Returns the seconds after which to look again; None: nothing is to come."""
        self.rescues.begin(key)
        try:
            return await self._visit(key)
        finally:
            self._let_go(key)
            self._pods.pop(key, None)
            self._tenants.pop(key, None)

    def _let_go(self, key: ClaimKey) -> None:
        """A disk that was chosen and not locked is there again for those who were told of the choice."""
        disk = self._caches.disk(self._chosen.pop(key, ""))
        if disk is not None:
            self._wakes.wake([disk["spec"].get("storageClassName", "")], soon=True)

    async def _visit(self, key: ClaimKey) -> float | None:
        gone = False
        for _number in range(VISIT):
            view, gone = await self._view(key, gone)
            if view is None:
                self._forget(key)
                return None
            step = next_step(view)
            if isinstance(step, Choose) and isinstance(view.owner, ClaimOwner):
                step = await self._choose(key, view, view.owner)
            if isinstance(step, Look):
                await self._tenant(key)
                continue
            if isinstance(step, Write):
                self.rescues.writes(key, step.why)
                await self._write(key, view, step)
            elif isinstance(step, Wait):
                return await self._rest(key, view, step)
        raise ConflictError(
            f"claim {key}: {VISIT} steps did not bring it to rest: somebody writes against the controller", 409
        )

    async def _rest(self, key: ClaimKey, view: View, step: Wait) -> float | None:
        self.rescues.rests(key)
        record = dict(view.berth) if view.berth is not None else None
        untold = await self._reports.waits(key, self._about(key, view), record, step)
        if step != DONE:
            return min(self._resync, untold)
        since = self._since.pop(key, None)
        if view.owner is None or view.berth is None:
            self._forget(key)
            return None
        if since is not None:
            self._reports.bound(self._loop.time() - since)
        return self._resync

    def _forget(self, key: ClaimKey) -> None:
        self._wakes.drop(key)
        self._since.pop(key, None)
        self._reports.forget(key)
        self.rescues.forget(key)

    # -- what is there ---------------------------------------------------------------------------------------------

    async def _view(self, key: ClaimKey, gone: bool) -> tuple[View | None, bool]:
        """What is there of the claim; None where it is not berth's. ``gone``: it was asked for live, and is gone."""
        caches = self._caches
        claim = None if gone else caches.claim_by_uid(key.namespace, key.uid)
        record = claim_berth(caches, key.namespace, key.uid)
        of_claim = claims.claim_of(record) if record is not None else None
        if record is not None and of_claim is None:
            return None, gone  # the berth of an app that is called like a claim's
        if claim is None and of_claim is not None and not gone:
            claim = await self._live_claim(of_claim)
            gone = claim is None
        if claim is None and record is None:
            return None, gone
        asked = self._asked(claim) if claim is not None else None
        lost = ""
        if claim is not None and asked is None:
            lost = claims.lost_class(claim, self._caches.classes.get(claims.class_of(claim)), record is not None)
            if not lost:
                return None, gone
        name = claim["metadata"]["name"] if claim is not None else (of_claim or ("", "", ""))[1]
        owner = None
        if asked is not None and claim is not None:
            owner = await self._owner(key, asked, record, caches.pods_of(claim))
        view = View(f"{key.namespace}/{name}", owner, record, lost=lost, quiet=True, tenant=self._tenants.get(key))
        if record is not None:
            view = replace(view, hostname=caches.hostname(record["spec"]["nodeName"]))
        return view_of_claim(caches, view), gone

    async def _owner(self, key: ClaimKey, asked: Asked, record: Obj | None, pods: tuple[ClaimPod, ...]) -> ClaimOwner:
        """Where its data is matters until Reserved: then the choice is final."""
        undecided = record is None or (recorded(record) == states.SELECTED and asked.storage_class.waits)
        own = undecided and bool(await self._own(key, asked))
        before = self._earlier(asked, self._caches.parsed_disks()) if record is None else None
        return ClaimOwner(asked, own, None, self._mount_root, pods, before)

    async def _own(self, key: ClaimKey, asked: Asked) -> list[LocalDisk]:
        """Disks with its data. Where none has its name, its namespace is not asked for: most claims are new."""
        named = named_disks(asked, self._caches.parsed_disks())
        return own_disks(asked, named, await self._tenant(key)) if named else []

    async def _tenant(self, key: ClaimKey) -> Tenant:
        known = self._tenants.get(key)
        if known is None:
            known = self._tenants[key] = await self._driver.tenant(key.namespace)
        return known

    def _earlier(self, asked: Asked, disks: list[LocalDisk]) -> Wait | None:
        """An earlier claim of this name whose Berth still has a disk."""
        caches, claim = self._caches, asked.claim
        found = caches.berths.by_index("app", f"{claim.namespace}/{claims.app_name(claim.name)}")
        newest = [caches.get(BERTH, one["metadata"]["name"], claim.namespace) for one in found]
        return claim_before.earlier(asked, [one for one in newest if one is not None], disks)

    def _asked(self, claim: Obj) -> Asked | None:
        """The claim, if it is of one of berth's classes."""
        storage_class = self._caches.class_of(claim)
        return claims.parse(claim, storage_class) if storage_class is not None else None

    async def _live_claim(self, of_claim: tuple[str, str, str]) -> Obj | None:
        """The claim that a Berth was made for, asked for now; None when it is gone, or another has its name."""
        namespace, name, uid = of_claim
        found = await self._client.find(PVC, name, namespace)
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _about(self, key: ClaimKey, view: View) -> Obj | None:
        """The object that events are about: the claim while it is there, else its berth."""
        if view.owner is not None or view.lost:
            return self._caches.claim_by_uid(key.namespace, key.uid)
        return dict(view.berth) if view.berth is not None else None

    # -- choosing --------------------------------------------------------------------------------------------------

    async def _choose(self, key: ClaimKey, view: View, owner: ClaimOwner) -> Step:
        """The step that writes the choice down; where there is none, say why, and give the node back."""
        asked = owner.asked
        self._since.setdefault(key, self._loop.time())
        await self._know_pod(key, asked)
        await self._own(key, asked)  # its data may have come to be known meanwhile
        try:
            disk = self._best(key, asked)
        except UnschedulableError as exc:
            self._wakes.put(key, asked.claim.storage_class)
            if asked.node is not None and not owner.own:
                await self._give_node_back(key, asked, asked.node)
            return Wait("NoDisk", exc.message, True)
        self._wakes.drop(key)
        self._let_go(key)
        self._chosen[key] = disk.name
        return next_step(replace(view, owner=replace(owner, chosen=disk)))

    async def _know_pod(self, key: ClaimKey, asked: Asked) -> None:
        """A node is chosen for a pod, and all its claims are to be filled there: one that is not known is asked for.

        The watch of pods may be behind that of claims; a claim that was bound alone could never be moved.
        """
        claim = asked.claim
        if asked.node is None or key in self._pods or self._caches.has_pod(claim.namespace, claim.name):
            return
        listed = await self._client.list(POD, claim.namespace, fields="status.phase=Pending")
        self._pods[key] = [pod for pod in map(slim_pod, listed.items) if pod is not None]

    def _best(self, key: ClaimKey, asked: Asked) -> LocalDisk:
        """Disks that an app's berth names, and has not locked yet, are left to it while there are others."""
        disks, places = self._caches.parsed_disks(), self._caches.places()
        here, written = self._taken(key)
        siblings, tenant = self._siblings(asked), self._tenants.get(key, UNKNOWN)
        if written - here:
            try:
                return choose(asked, disks, places, here | written, siblings, tenant)
            except UnschedulableError:
                pass
        return choose(asked, disks, places, here, siblings, tenant)

    def _taken(self, key: ClaimKey) -> tuple[set[str], set[str]]:
        """Disks that were chosen here for other claims, and those that berths have written down; not locked yet."""
        here = {name for other, name in self._chosen.items() if other != key}
        written = {
            disk["name"]
            for record in self._caches.berths.all()
            if recorded(record) == states.SELECTED and record["metadata"]["name"] != claims.berth_name(key.uid)
            for disk in record["spec"].get("disks") or ()
        }
        return here, written

    def _siblings(self, asked: Asked) -> list[Asked]:
        """The other claims of its pod that will be asked of the same node."""
        if asked.node is None:
            return []
        found, of_claim = [], asked.claim
        pods = self._pods.get(ClaimKey(of_claim.namespace, of_claim.uid), ())
        for claim in self._caches.claims_beside(of_claim.namespace, of_claim.name, pods):
            other = self._asked(claim)
            if other is None or not other.storage_class.waits or other.claim.volume_name or other.claim.terminating:
                continue
            if ClaimKey(other.claim.namespace, other.claim.uid) in self._chosen:
                continue  # has its disk, though the Berth that says so may not have come back yet
            begun = claim_berth(self._caches, other.claim.namespace, other.claim.uid) is not None
            if other.node in (None, asked.node) and not begun:
                found.append(replace(other, claim=replace(other.claim, selected_node=asked.node)))
        return found

    def _settled(self, key: Hashable) -> bool:
        """Whether a claim needs no node any more."""
        claim = self._caches.claim_by_uid(key.namespace, key.uid) if isinstance(key, ClaimKey) else None
        return claim is None or bool(claim["spec"].get("volumeName"))

    async def _give_node_back(self, key: ClaimKey, asked: Asked, node: str) -> None:
        """Take the scheduler's choice off the claim: it chooses anew, with what is free then, and another node."""
        claim, siblings = asked.claim, self._siblings(asked)
        here, written = self._taken(key)
        disks = self._caches.parsed_disks()
        if all(capacity.seems_to_fit(one, disks, here | written) for one in (asked, *siblings)):
            beside = [ClaimKey(one.claim.namespace, one.claim.uid) for one in siblings]
            self.held_back.put(node, claim.storage_class, [key, *beside])
        live = self._caches.claim_by_uid(claim.namespace, claim.uid)
        if live is None:
            return
        meta = live["metadata"]
        body = {
            "metadata": {
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
                "annotations": {claims.SELECTED_NODE: None},
            }
        }
        answer = await self._client.patch(PVC, claim.name, claim.namespace, body)
        self._caches.written.put(PVC, answer)

    # -- writing ---------------------------------------------------------------------------------------------------

    async def _write(self, key: ClaimKey, view: View, step: Write) -> None:
        """One write; where somebody was faster, the next question sees what is there now."""
        if await self._driver.write(view, step):
            if step.resource == LOCAL_DISK:
                self._chosen.pop(key, None)
            self._reports.wrote(view.key, step)
