"""Modules as drivers: halted at every request, and killed there or let go on. stateful_app of an app's replica is here,
disk_replace in race_exchange.py.

What it does is the product's own: observe, Release and Driver of _glue.app. They run in a thread, which goes on only
while `step` waits for it, so one interleaving is one order of requests.
"""

from __future__ import annotations

import re
from dataclasses import replace
from threading import Semaphore, Thread
from types import SimpleNamespace

from ansible_collections.berth.stateful.plugins.module_utils._glue.app.driver import Driver
from ansible_collections.berth.stateful.plugins.module_utils._glue.app.observe import observe
from ansible_collections.berth.stateful.plugins.module_utils._glue.app.release import Release
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context
from ansible_collections.berth.stateful.plugins.module_utils.berth_core import errors
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observing import view_of
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.wanted import parse_app
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.driving import reserved, there
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.history import Actor
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.left_volumes import with_volumes
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.replica import ReplicaOwner
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.step import Choose
from berth_core.app.claim_disks import not_free
from berth_core.app.wanted import OURS
from berth_core.errors import ApiError
from berth_core.lifecycle.step import CREATE, PATCH, REMOVE, REPLACE, STATUS, Write
from berth_core.lifecycle.view import devices_of, disks_of
from berth_core.model.disk import LocalDisk
from berth_core.model.over_disk import berth_uid, disk_below
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PV
from tests.core.app.samples import changed
from tests.core.lifecycle.race_controller import with_volume
from tests.core.lifecycle.replica_world import DEVICES, DISKS, NAME, TEMPLATE, merged

REQUIREMENT = re.compile(r"([\w./-]+)(?:=([^,]+)| in \(([^)]*)\))")
APP = parse_app(changed(replicas=1, disks=DISKS, devices=DEVICES, template=TEMPLATE, workload="Pod"))


class Killed(BaseException):
    """The process ends at a request."""


class Client:
    """The API client of a run: each request waits for its turn first."""

    def __init__(self, world, halt):
        self._world, self._halt = world, halt

    def get(self, resource, name, namespace=None):
        found = self.find(resource, name, namespace)
        if found is None:
            raise errors.NotFoundError(f"{resource.kind} {name} is not there", 404, "NotFound")
        return found

    def find(self, resource, name, _namespace=None):
        self._halt()
        return self._world.get(resource, name)

    def list(self, resource, _namespace=None, labels=None, fields=None):
        self._halt()
        return [one for one in self._world.all(resource) if _selected(one, labels, fields)]

    def list_with_version(self, resource, namespace=None, labels=None):
        return self.list(resource, namespace, labels), "1"

    def watch(self, *_args):
        return iter(())

    def create(self, resource, body):
        return self._write(CREATE, resource, body)

    def replace(self, resource, body):
        return self._write(REPLACE, resource, body)

    def patch(self, resource, name, _namespace, body, subresource=None):
        body = {**body, "metadata": {**body["metadata"], "name": name}}
        if subresource is None:
            return self._write(PATCH, resource, body)
        before = (self._world.get(resource, name) or {}).get("status")
        return self._write(STATUS, resource, lambda: {**body, "status": merged(before, body["status"])})

    def delete(self, resource, name, _namespace=None, uid=None):
        try:
            self._write(REMOVE, resource, {"metadata": {"name": name, "uid": uid}})
        except errors.NotFoundError:
            return False
        return True

    def _write(self, do, resource, body):
        self._halt()
        try:
            return self._apply(Write(do, resource, body() if callable(body) else body, ""))
        except ApiError as exc:  # the collection has its own copy of the core, and so of its errors
            raise getattr(errors, type(exc).__name__)(exc.message, exc.status, exc.reason) from exc

    def _apply(self, write):
        """No lock of a Berth that is there is given up under a living pod, or under the volume that was made for it."""
        live = self._world.get(write.resource, write.body["metadata"]["name"])
        ref = live["spec"].get("claimRef") if write.resource == LOCAL_DISK and live is not None else None
        same = ref and live["metadata"]["resourceVersion"] == write.body["metadata"].get("resourceVersion")
        lives = same and ref["uid"] in {one["metadata"]["uid"] for one in self._world.all(BERTH)}
        if lives and write.do == REPLACE and not write.body["spec"].get("claimRef"):
            name, uid = live["metadata"]["name"], ref["uid"]
            users = [pod for pod, taken in self._world.pods.items() if name in taken]
            over = [one for one in self._world.all(PV) if disk_below(one) == name and berth_uid(one) == uid]
            assert (users, over) == ([], []), f"{name} is given up under {users or over}"
        return self._world.apply(write)


def _selected(one, labels, fields):
    """By labels (a=b, a in (b,c)), and by the holder of a disk: what is asked for."""
    has = one["metadata"].get("labels") or {}
    asked = [(key, value or values) for key, value, values in REQUIREMENT.findall(labels or "")]
    ours = all(has.get(key) in values.split(",") for key, values in asked)
    return ours and (not fields or (one["spec"].get("claimRef") or {}).get("app") == APP.name)


class Process:
    """Runs of a module, one after the other."""

    def __init__(self, world):
        self._world, self._thread = world, None
        self._go, self._halted, self._killed, self._failure = Semaphore(0), Semaphore(0), False, None

    def step(self):
        """One request. Raises what the run ends with, unless it is what a module would tell."""
        if self._thread is None:
            self._thread = Thread(target=self._life, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._halted.acquire()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def kill(self):
        """The run ends at the request that it waits with; the next step begins another one."""
        if self._thread is not None:
            self._killed = True
            self.step()
            self._killed = False

    def run(self):
        """One run from its beginning to its end."""
        raise NotImplementedError

    def client(self):
        """Of one run."""
        return Client(self._world, self._halt)

    def _halt(self):
        self._halted.release()
        self._go.acquire()
        if self._killed:
            raise Killed

    def _life(self):
        try:
            self.run()
        except (Killed, errors.BerthError) as exc:
            self._failure = exc if isinstance(exc, errors.InvalidError) else None
        except BaseException as exc:  # noqa: BLE001 - of a thread: step raises it
            self._failure = exc
        self._thread = None
        self._halted.release()


class Module(Process):
    """stateful_app: ``state`` is present or absent."""

    def __init__(self, world, state):
        super().__init__(world)
        self.state = state

    def run(self):
        Run(self._world, self.client()).carry_out(self.state)

    def turn(self):
        """The next run is asked for the other state."""
        self.kill()
        self.state = "absent" if self.state == "present" else "present"


def context(module, client, params=()):
    """What a run of the module is given."""
    made = Context(dict(params), False, lambda _text: None)
    made._client, made._actor = client, Actor(module)
    return made


class Run:
    """One task of stateful_app."""

    def __init__(self, world, client):
        self._world = world
        self._context = context("stateful_app", client)
        self._client, self._driver = self._context.client, Driver(self._context, lambda _text: None, 0.0)

    def carry_out(self, state):
        if state == "absent":
            self._world.wanted = False
        seen = observe(self._client, APP.name, APP.namespace, APP.workload, None, True)
        release = Release(self._context, seen, APP.workload, 0.0)
        release.clear_stale()
        if state == "absent":
            release.remove(sorted(seen.berths), "")
        else:
            self._present(replace(view_of(seen, 0), hostname="h1"))

    def _present(self, view):
        """Selected, then Reserved, then as far as it comes; what comes then is the next run's."""
        chosen = self._choose() if view.berth is None else None
        view = self._driver.drive(replace(view, owner=self._owner(chosen)), there).view
        if view.berth is None:
            return
        for resource, entries in ((LOCAL_DISK, disks_of(view.berth)), (LOCAL_DEVICE, devices_of(view.berth))):
            for entry in entries:
                found = self._client.find(resource, entry["name"])
                view = view if found is None else view.having(resource, found)
        view = with_volumes(view, self._client.list(PV, labels=OURS))
        driven = self._driver.drive(replace(view, owner=self._owner()), reserved)
        if not driven.asked or isinstance(driven.step, Choose):
            return
        driven = self._driver.drive(replace(driven.view, owner=self._owner()))
        if getattr(driven.step, "reason", "") == "Workload":
            self._world.wanted = True

    def _owner(self, chosen=None):
        world = self._world
        return ReplicaOwner(APP, 0, chosen, told=world.wanted, ready=(POD, NAME) in world.store)

    def _choose(self):
        """Its own disks, else the first that are free. One that is cordoned is neither."""
        kept, free = {}, []
        bodies, volumes = self._client.list(LOCAL_DISK), self._client.list(PV, labels=OURS)
        for body in bodies:
            mine = body["spec"].get("retainedFor") or {}
            if mine.get("app") == APP.name and not body["spec"].get("unschedulable"):
                kept[mine["claim"]] = body["metadata"]["name"]
            elif not not_free(with_volume(LocalDisk.from_object(body), volumes)):
                free.append(body["metadata"]["name"])
        disks = {each["name"]: kept.get(each["name"]) or (free.pop(0) if free else None) for each in DISKS}
        if None in disks.values():
            return None
        return SimpleNamespace(ordinal=0, node="h1", disks=disks, devices=(("gpu", "h1-gpu", 1000),), volumes={})
