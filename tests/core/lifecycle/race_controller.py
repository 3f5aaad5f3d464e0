"""The controller's driver of claims: halted at every request that it makes, and killed there or let go on.

What is next, which disk, and how a write is carried out is the product's: next_step, claim_disks.choose, and
berth_kube.lifecycle. The caches are as old as the last `hear`, but for what was answered to its own requests.
"""

from __future__ import annotations

import types
from dataclasses import replace

from berth_core.app import claim_before, claim_disks, claims
from berth_core.errors import ConflictError, NotFoundError, UnschedulableError
from berth_core.lifecycle.claim import ClaimOwner
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import CREATE, REMOVE, REPLACE, STATUS, Choose, Look, Wait, Write
from berth_core.lifecycle.view import View
from berth_core.model.disk import LocalDisk
from berth_core.model.over_disk import disk_below
from berth_core.model.resources import BERTH, LOCAL_DISK, PV, PVC
from berth_kube.lifecycle import Driver, claim_berth, view_of_claim
from tests.core.app.claim_world import node, places

#: Writes and refusals of one visit, as of the controller's.
VISIT = 40


@types.coroutine
def halt():
    """Until the controller is stepped again."""
    yield


class Api:
    """Requests to the world; each waits for its turn first."""

    def __init__(self, world):
        self._world = world

    async def find(self, resource, name, _namespace=None):
        await halt()
        return self._world.get(resource, name)

    async def create(self, resource, body):
        await halt()
        return self._world.apply(Write(CREATE, resource, body, ""))

    async def replace(self, resource, body, *, subresource=None):
        await halt()
        return self._world.apply(Write(STATUS if subresource else REPLACE, resource, body, ""))

    async def delete(self, resource, name, _namespace=None, *, uid, version):
        await halt()
        live = self._world.get(resource, name)
        if live is not None and live["metadata"]["resourceVersion"] != version:
            raise ConflictError("somebody was faster", 409, "Conflict")
        try:
            self._world.apply(Write(REMOVE, resource, {"metadata": {"name": name, "uid": uid}}, ""))
        except NotFoundError:
            return False
        return True


class Known:
    """Its caches."""

    def __init__(self, world):
        self._world, self._items = world, {}
        self.hear()

    def hear(self):
        """The watches tell all that there is."""
        self._items = {(kind, name): self._world.get(kind, name) for kind, name in self._world.store}

    def all(self, resource):
        return [one for (kind, _name), one in self._items.items() if kind == resource]

    def get(self, resource, name, _namespace=None):
        return self._items.get((resource, name))

    def volumes_over(self, disk):
        return sorted((one for one in self.all(PV) if disk_below(one) == disk), key=lambda one: one["metadata"]["name"])

    def wrote(self, resource, answer):
        if answer is not None:
            self._items[resource, answer["metadata"]["name"]] = answer

    def heard(self, resource, before, found):
        if found is not None:
            self.wrote(resource, found)
        elif before is not None:
            self._items.pop((resource, before["metadata"]["name"]), None)


class Controller:
    """One process. It visits every claim and every claim's Berth, over and over."""

    def __init__(self, world):
        self._world, self._going, self.rests = world, None, {}
        self.kill()

    def kill(self):
        """The process ends; another one begins, with caches that were just filled."""
        if self._going is not None:
            self._going.close()
        self._api, self._known = Api(self._world), Known(self._world)
        self._driver, self._going = Driver(self._api, self._known, "berth-controller"), None

    def hear(self):
        self._known.hear()

    def step(self):
        """One request."""
        self._going = self._going or self._round()
        try:
            self._going.send(None)
        except StopIteration:
            self._going = None

    async def _round(self):
        known = self._known
        found = {one["metadata"]["uid"]: one["metadata"]["name"] for one in known.all(PVC)}
        for record in known.all(BERTH):
            of_claim = claims.claim_of(record)
            if of_claim is not None:
                found[of_claim[2]] = of_claim[1]
        for uid, name in sorted(found.items()):
            if name.startswith("data-web-"):
                self.rests[uid] = await self._visit(name, uid)

    async def _visit(self, name, uid):
        """As the Binder does."""
        gone, tenant = False, None
        for _number in range(VISIT):
            claim, gone = await self._claim(name, uid, gone)
            view = self._view(name, uid, claim, tenant)
            step = next_step(view)
            if isinstance(step, Choose):
                tenant = tenant or await self._driver.tenant("default")
                step = self._choose(view, tenant)
            if isinstance(step, Look):
                tenant = await self._driver.tenant("default")
            elif isinstance(step, Write):
                await self._driver.write(view, step)
            else:
                return step
        raise AssertionError(f"claim {name} does not come to rest: {step}")

    async def _claim(self, name, uid, gone):
        """A claim that the caches do not have is asked for before its Berth is given up."""
        known = self._known.get(PVC, name)
        if known is not None and known["metadata"]["uid"] == uid and not gone:
            return known, False
        live = await self._api.find(PVC, name)
        if live is not None and live["metadata"]["uid"] == uid:
            return live, False
        return None, True

    def _view(self, name, uid, claim, tenant):
        record = claim_berth(self._known, "default", uid)
        owner = None
        if claim is not None:
            asked, disks = claims.parse(claim, self._world.storage_class), self._disks()
            own = bool(claim_disks.own_disks(asked, disks, self._world.tenant))
            ours = [one for one in self._known.all(BERTH) if one["spec"]["app"] == claims.app_name(name)]
            before = claim_before.earlier(asked, ours, disks) if record is None else None
            owner = ClaimOwner(asked, own, pods=(), before=before)
        view = View(f"default/{name}", owner, record, hostname="h1", quiet=True, tenant=tenant)
        return view_of_claim(self._known, view)

    def _choose(self, view, tenant):
        try:
            chosen = claim_disks.choose(view.owner.asked, self._disks(), places(node("h1")), tenant=tenant)
        except UnschedulableError as exc:
            return Wait("NoDisk", exc.message, True)
        return next_step(replace(view, owner=replace(view.owner, chosen=chosen)))

    def _disks(self):
        volumes = self._known.all(PV)
        return [with_volume(LocalDisk.from_object(one), volumes) for one in self._known.all(LOCAL_DISK)]


def with_volume(disk, volumes):
    """The disk as choices see it: with the volume that has stayed over it."""
    over = [one["metadata"]["name"] for one in volumes if disk_below(one) == disk.name]
    return replace(disk, volume=min(over, default=""))
