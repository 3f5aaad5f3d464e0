"""Whole runs of stateful_app and disk_replace, and looks of the controller, on `life_world.LifeWorld`: the product's
own, with its own client or `Requests` over the world.

A run goes at once, or halts at each request (race_module.Process) and goes on when it is stepped. It may die right
after any of its writes. Every write is shown to `life_checks` first, with who makes it.
"""

from __future__ import annotations

import types
from collections import Counter
from types import SimpleNamespace

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.berth.stateful.plugins.module_utils._glue import disk_replace, stateful_app
from ansible_collections.berth.stateful.plugins.module_utils.berth_core import errors
from berth_controller.apps.visit import AppKey, Visits
from berth_core.errors import ApiError, BerthError
from berth_core.model.resources import NODE, POD, STATEFUL_APP
from tests.core.app.samples import copied
from tests.core.lifecycle import life_checks as checks
from tests.core.lifecycle.race_module import REQUIREMENT, Killed, Process, context
from tests.core.lifecycle.replica_world import GI

CREATE, REPLACE, PATCH, APPLY, REMOVE, EVICT = "create", "replace", "patch", "apply", "delete", "evict"


class Wire:
    """The requests of one run, answered by the world. ``kill_at``: the write after which the run dies; 0: none."""

    def __init__(self, world, actor, kill_at=0):
        self._world, self._actor, self._kill_at = world, actor, kill_at
        self.written = 0

    def find(self, resource, name):
        found = self._world.get(resource, name)
        if resource == POD:
            self._actor.saw(name, found)
        if resource == STATEFUL_APP and isinstance(self._actor, Controller):
            self._actor.now = self._world.asked_of_app
        return found

    def list(self, resource, labels, fields):
        found = [one for one in self._world.all(resource) if _selected(one, labels, fields)]
        if resource == POD:
            self._actor.saw_all(found)
        return found

    def write(self, do, resource, body, subresource=None, dry_run=False, **options):
        """The answer; a refusal is an error of berth_core. Raises Killed after the last write of a run that dies."""
        world, name = self._world, body["metadata"]["name"]
        if do in (CREATE, APPLY) and dry_run:
            return (world.create if do == CREATE else world.apply)(resource, body, dry_run=True)
        if self._kill_at and self.written >= self._kill_at:
            raise Killed
        self.written += 1
        phase = (body.get("status") or {}).get("phase") or ""
        world.trace.append(
            " ".join([f"{self._actor.name}:", do, resource.kind, name, subresource or "", phase]).rstrip()
        )
        try:
            before = world.get(resource, name)
            answer = self._sent(do, resource, body, subresource, options)
            if (do, resource, subresource) == (APPLY, STATEFUL_APP, None):
                world.asked_of_app = self._actor.now
            checks.written(world, self._actor, (do, resource, subresource), before, world.get(resource, name), options)
        finally:
            if self.written == self._kill_at:
                raise Killed
        return answer

    def _sent(self, do, resource, body, subresource, options):
        world, name = self._world, body["metadata"]["name"]
        if do == CREATE and subresource == "eviction":
            return world.remove(resource, name, (body.get("deleteOptions") or {}).get("preconditions", {}).get("uid"))
        if do == CREATE:
            return world.create(resource, body)
        if do == REPLACE:
            return world.replace(resource, body, subresource)
        if do == PATCH:
            return world.patch(resource, name, body, subresource)
        if do == APPLY:
            return world.apply(resource, body, subresource)
        return world.remove(resource, name, **options)


def _selected(one, labels, fields):
    has = one["metadata"].get("labels") or {}
    asked = [(key, value or values) for key, value, values in REQUIREMENT.findall(labels or "")]
    if not all(has.get(key) in values.split(",") for key, values in asked):
        return False
    key, _equals, value = (fields or "").partition("=")
    if key == "metadata.name":
        return one["metadata"]["name"] == value
    return not fields or (one["spec"].get("claimRef") or {}).get("app") == value


class Client:
    """As the modules' ApiClient: it halts at each request, and its errors are those of the collection's own core."""

    def __init__(self, wire, halt):
        self._wire, self._halt, self.requests = wire, halt, Counter()

    @property
    def written(self):
        return self._wire.written

    def get(self, resource, name, namespace=None):
        found = self.find(resource, name, namespace)
        if found is None:
            raise errors.NotFoundError(f"{resource.kind} {name} is not there", 404, "NotFound")
        return found

    def find(self, resource, name, _namespace=None):
        self._begins("get")
        return self._wire.find(resource, name)

    def list(self, resource, _namespace=None, labels=None, fields=None):
        self._begins("list")
        return self._wire.list(resource, labels, fields)

    def list_with_version(self, resource, namespace=None, labels=None, fields=None):
        return self.list(resource, namespace, labels, fields), "1"

    def create(self, resource, body, dry_run=False, subresource=None):
        return self._write(CREATE, resource, body, subresource, dry_run=dry_run)

    def replace(self, resource, body, subresource=None, dry_run=False):
        return self._write(REPLACE, resource, body, subresource, dry_run=dry_run)

    def apply(self, resource, body, subresource=None, dry_run=False, manager=""):
        return self._write(APPLY, resource, body, subresource, dry_run=dry_run)

    def patch(self, resource, name, _namespace, body, subresource=None):
        return self._write(PATCH, resource, _named(body, name), subresource)

    def delete(self, resource, name, _namespace=None, uid=None, version=None, grace=None):
        return self._write(REMOVE, resource, _named({}, name), uid=uid, version=version, grace=grace)

    def _begins(self, verb):
        self.requests[verb] += 1
        self._halt()

    def _write(self, do, resource, body, subresource=None, **options):
        self._begins(do)
        try:
            return self._wire.write(do, resource, body, subresource, **options)
        except ApiError as exc:
            raise getattr(errors, type(exc).__name__)(exc.message, exc.status, exc.reason) from exc


def _named(body, name):
    return {**body, "metadata": {**body.get("metadata", {}), "name": name}}


class Run(Process):
    """Runs of one module, one after the other. ``asked``: life_moves.Asked, of the next run. ``outcome``: what the
    last one came to: its result, or its error; None where it died."""

    def __init__(self, world, name):
        super().__init__(world)
        self.name, self.asked, self.outcome, self.pods, self.wrote = name, None, None, {}, 0
        self._beside, self._kill_at, self._wire, self.waits = True, 0, None, True

    def saw(self, name, pod):
        self.pods[name] = pod
        if pod is None:
            del self.pods[name]

    def saw_all(self, pods):
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}

    def at_once(self, kill_at=0, waits=True):
        """One run without a halt; it dies after that write. ``waits``: for the pods, when all is done."""
        self.kill()
        self._beside, self._kill_at, self.waits = False, kill_at, waits
        try:
            self.run()
        except Killed:
            self.outcome = None
        except errors.InvalidError:
            raise
        except errors.BerthError:
            pass
        finally:
            self._beside, self._kill_at, self.waits = True, 0, True

    def run(self):
        self.outcome, self._wire = None, Wire(self._world, self, self._kill_at)
        made = context(self.module, Client(self._wire, self._pause), self.params())
        made.operation = self.module
        try:
            self.outcome = self.operate(made)
        except errors.BerthError as exc:
            self.outcome = exc
            raise
        finally:
            self.wrote = self._wire.written

    def _pause(self):
        if self._beside:
            self._halt()

    @property
    def under_way(self):
        return self._thread is not None


class Playbook(Run):
    """stateful_app. Nothing is waited for: what is not there yet is the next run's."""

    module = "stateful_app"

    def params(self):
        self.now = self.asked  # a run goes by the request that it began with
        return self.asked.params(self.waits)

    def operate(self, made):
        return stateful_app.run(made)


class Exchange(Run):
    """disk_replace of one disk for a new one of its node."""

    module = "disk_replace"

    def __init__(self, world, name="exchange"):
        super().__init__(world, name)
        self.old = ""

    def params(self):
        self.now = None
        new = f"{self.old}-new"
        return {
            "name": self.old,
            "new": {"name": new, "identity": {"serial": f"S-{new}", "size": str(GI)}},
            "until": "running",
            "mount_root": "/var/lib/berth/disks",
            "wait_timeout": 0,
        }

    def operate(self, made):
        return disk_replace.run(made)


@types.coroutine
def _halt():
    yield


class KubeClient:
    """As the controller's client: it halts at each request."""

    def __init__(self, wire):
        self.wire = wire

    async def find(self, resource, name, _namespace=None):
        await _halt()
        return self.wire.find(resource, name)

    async def get(self, resource, name, _namespace=None):
        found = await self.find(resource, name)
        if found is None:
            raise errors.NotFoundError(f"{resource.kind} {name} is not there", 404, "NotFound")
        return found

    async def list(self, resource, _namespace=None, labels=None, fields=None):
        await _halt()
        return SimpleNamespace(items=self.wire.list(resource, labels, fields))

    async def create(self, resource, body, dry_run=False, subresource=None):
        await _halt()
        return self.wire.write(CREATE, resource, body, subresource, dry_run=dry_run)

    async def replace(self, resource, body, subresource=None):
        await _halt()
        return self.wire.write(REPLACE, resource, body, subresource)

    async def apply(self, resource, body, dry_run=False, manager="", subresource=None):
        await _halt()
        return self.wire.write(APPLY, resource, body, subresource, dry_run=dry_run)

    async def patch(self, resource, name, _namespace, body, subresource=None):
        await _halt()
        return self.wire.write(PATCH, resource, _named(body, name), subresource)

    async def delete(self, resource, name, _namespace=None, uid=None, grace_seconds=None):
        await _halt()
        return self.wire.write(REMOVE, resource, _named({}, name), uid=uid, grace=grace_seconds)


class Controller:
    """Looks at the StatefulApp, one after the other. ``now``: what the one asked for that it looked at last."""

    name = "controller"

    def __init__(self, world):
        self._world, self._going, self.now, self.pods, self.wrote = world, None, None, {}, 0
        self._visits = None
        self.kill()

    def saw(self, name, pod):
        Run.saw(self, name, pod)

    def saw_all(self, pods):
        Run.saw_all(self, pods)

    def kill(self):
        """Another process begins, which knows nothing."""
        if self._going is not None:
            self._going.close()
        world, reports = self._world, SimpleNamespace(event=lambda *_told: None)
        self._going, self._client = None, KubeClient(None)
        self._visits = Visits(
            self._client,
            reports,
            lambda key: world.get(STATEFUL_APP, key.name),
            lambda name: world.get(NODE, name),
            "berth-system:berth-controller",
            "/var/lib/berth/disks",
            300.0,
        )

    @property
    def under_way(self):
        return self._going is not None

    def step(self):
        """One request."""
        if self._going is None:
            self._going = self._look(0)
        try:
            self._going.send(None)
        except StopIteration:
            self._going = None

    def at_once(self, kill_at=0):
        """One look; the process dies after that write."""
        if self._going is not None:
            self.kill()
        going = self._look(kill_at)
        try:
            while True:
                going.send(None)
        except StopIteration:
            pass
        except Killed:
            self.kill()

    async def _look(self, kill_at):
        self._client.wire = Wire(self._world, self, kill_at)
        try:
            await self._visits.reconcile(AppKey("default", "db"))
        except BerthError:
            pass  # its queue has it looked at again
        finally:
            self.wrote = self._client.wire.written


def defaults(**given):
    """The options of stateful_app as a task has them that gives these."""
    operation = stateful_app.OPERATION
    checked = ArgumentSpecValidator(operation.argument_spec(), **operation.rules()).validate(copied(given))
    assert not checked.error_messages, checked.error_messages
    return checked.validated_parameters
