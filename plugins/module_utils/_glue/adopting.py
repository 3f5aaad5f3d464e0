# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""state: adopted of stateful_app_adoption: a StatefulSet over local volumes comes under berth, and no pod is restarted.

Called by adoption. What is refused is decided in berth_core.app.adopting, what is written in adopting_writes and, berth
by berth, in berth_core.lifecycle. The order: the data is put on record in its replica's name, so that no disk is ever
nobody's; then Berths, locks and marks; then the labels by which stateful_app finds StatefulSet and pods; at last the
Berths say that their pods run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Callable

from ..berth_core.app import adoptable, adopting_writes, manifests
from ..berth_core.app.adoptable import Part
from ..berth_core.app.adopting import Replica, Seen, check_set, judged, manifest_of, runs
from ..berth_core.app.given_beside import BESIDE
from ..berth_core.app.revisions import of_set, template_of
from ..berth_core.app.wanted import APP_LABEL, AppWanted, parse_app
from ..berth_core.app.wanted import STATEFUL_SET as STATEFUL_SET_WORKLOAD
from ..berth_core.errors import ConflictError, InputError, NotFoundError, StateError
from ..berth_core.lifecycle import states
from ..berth_core.lifecycle.driving import refuse
from ..berth_core.lifecycle.replica import ReplicaOwner
from ..berth_core.lifecycle.step import Step
from ..berth_core.lifecycle.view import View, disks_of, recorded
from ..berth_core.model import resources as kinds
from ..berth_core.model.resources import Resource
from ..berth_core.model.tenant import Tenant
from .app.driver import Driver
from .app.release import SWAPS
from .app.revisions import seen_by_its_controller
from .app.sources import load_template
from .base import Context
from .client import ApiClient
from .objects import diff_entry

Object = Mapping[str, Any]
Patch = Callable[[Object], "dict[str, Any] | None"]


def asked(params: Mapping[str, Any]) -> AppWanted | None:
    """What stateful_app would be given; None: what runs. Raises InputError before anything is read."""
    given = load_template(params["template"], params["src"])
    return None if given is None else _app(params, given)


def run(context: Context, given: AppWanted | None) -> dict[str, Any]:
    """The module's result."""
    seen = _look(context, given)
    replicas = judged(seen)
    changes = list(adopting_writes.changes(seen, replicas))
    work = _Work(context, seen, replicas)
    work.try_first()
    for text in adopting_writes.warnings(replicas):
        context.warn(text)
    diff = []
    for change in changes:
        meta = change.thing["metadata"]
        diff.append(diff_entry(change.resource, meta["name"], change.before, change.after, meta.get("namespace")))
    if diff and not context.check_mode:
        work.carry_out()
    return {"changed": bool(diff), "diff": diff, "replicas": adopting_writes.rows(seen, replicas)}


def _look(context: Context, given: AppWanted | None) -> Seen:
    """Locks are read before berths, as everywhere."""
    params, client = context.params, context.client
    name, namespace = params["name"], params["namespace"]
    live = check_set(client.find(kinds.STATEFUL_SET, name, namespace), f"{namespace}/{name}", name)
    app = given if given is not None else _app(params, manifest_of(live))
    disks = client.list(kinds.LOCAL_DISK)
    berths = client.list(kinds.BERTH, namespace, labels=f"{APP_LABEL}={name}")
    return Seen(
        app,
        given is not None,
        live,
        pods=_by_name(client.list(kinds.POD, namespace)),
        claims=_by_name(client.list(kinds.PVC, namespace)),
        volumes=_by_name(client.list(kinds.PV)),
        disks=_by_name(disks),
        hostnames={manifests.hostname_of(node): node["metadata"]["name"] for node in client.list(kinds.NODE)},
        berths={record["spec"]["ordinal"]: record for record in berths if record["spec"]["app"] == name},
        tenant=Tenant.in_namespace(client.find(kinds.NAMESPACE, namespace)),
        named=_named(params["local_disks"] or (), app),
        beside=tuple(_beside(client, app)),
        templates=_templates(client, live),
    )


def _app(params: Mapping[str, Any], manifest: Any) -> AppWanted:
    """What stateful_app makes of the manifest. Raises InputError for what it would refuse, too."""
    none = dict.fromkeys(("replicas", "disks", "devices", "service", "pod_management_policy"))
    names = {key: params[key] for key in ("name", "namespace", "mount_root")}
    # Nobody is updated here: what a manifest that is OnDelete waits for is stateful_app's to be told.
    return parse_app({**none, **names, "workload": STATEFUL_SET_WORKLOAD, "template": manifest, "paused": True})


def _named(given: Sequence[Mapping[str, Any]], app: AppWanted) -> dict[tuple[int, str], str]:
    claims = [disk.name for disk in app.disks]
    found: dict[tuple[int, str], str] = {}
    for index, one in enumerate(given):
        claim = one.get("claim") or (claims[0] if len(claims) == 1 else None)
        if claim not in claims or not 0 <= one["ordinal"] < app.replicas:
            raise InputError(
                f"local_disks[{index}] names claim {claim} of ordinal {one['ordinal']}: expected {', '.join(claims)}, "
                f"and 0 to {app.replicas - 1}"
            )
        if found.setdefault((one["ordinal"], claim), one["name"]) != one["name"]:
            raise InputError(f"local_disks[{index}]: claim {claim} of ordinal {one['ordinal']} is named twice")
    return found


def _beside(client: ApiClient, app: AppWanted) -> list[tuple[Resource, Object, Object]]:
    """What stateful_app would apply beside the StatefulSet, as far as it is there."""
    wanted = [(kinds.SERVICE, app.service)] if app.service is not None else []
    wanted += [(BESIDE[one["kind"]], one) for one in app.beside]
    found = [(kind, one, client.find(kind, one["metadata"]["name"], app.namespace)) for kind, one in wanted]
    return [(kind, one, live) for kind, one, live in found if live is not None]


def _templates(client: ApiClient, live: Object) -> dict[str, Any]:
    kept = of_set(client.list(kinds.CONTROLLER_REVISION, live["metadata"]["namespace"]), live)
    return {one["metadata"]["name"]: template_of(one) for one in kept}


def _by_name(items: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in items}


class _Work:
    """Each write may be the last one: the next run goes on with what is left."""

    def __init__(self, context: Context, seen: Seen, replicas: Sequence[Replica]) -> None:
        self._context, self._client, self._seen, self._replicas = context, context.client, seen, replicas
        self._driver = Driver(context, context.progress, context.params["wait_timeout"])

    def try_first(self) -> None:
        """Raises ForbiddenError where a right is missing: half of the way in would help nobody.

        One write of each kind; rights are alike for all replicas.
        """
        client, seen = self._client, self._seen
        patches: dict[Resource, tuple[Object, dict[str, Any]]] = {}
        for replica in self._replicas:
            for part in replica.parts:
                if not adopting_writes.is_on_record(part.disk):
                    body = adopting_writes.recorded_disk(part, part.disk)
                    with contextlib.suppress(ConflictError):  # written by its agent just now: read anew in its turn
                        client.replace(kinds.LOCAL_DISK, body, dry_run=True)
                for resource, thing in ((kinds.PV, part.volume), (kinds.PVC, part.claim)):
                    patches[resource] = (thing, adopting_writes.sample_mark(thing))
            pod = seen.pods.get(seen.app.berth_name(replica.ordinal))
            if pod is not None:
                patches[kinds.POD] = (pod, adopting_writes.pod_patch(seen, pod, seen.live) or {})
            if replica.ordinal not in seen.berths:
                body = manifests.berth(seen.app, replica.ordinal, replica.node, replica.disks, (), replica.volumes)
                with contextlib.suppress(ConflictError):
                    client.create(kinds.BERTH, body, dry_run=True)
        patches[kinds.STATEFUL_SET] = (seen.live, adopting_writes.set_patch(seen, seen.live) or {})
        for resource, wanted, live in seen.beside:
            patches[resource] = (live, adopting_writes.label_patch(wanted, live, seen.app) or {})
        for resource, (thing, body) in patches.items():
            if body:
                meta = thing["metadata"]
                with contextlib.suppress(ConflictError, NotFoundError):
                    client.patch(resource, meta["name"], meta.get("namespace"), body, dry_run=True)

    def carry_out(self) -> None:
        seen = self._seen
        for replica in self._replicas:
            for part in replica.parts:
                self._put_on_record(part)
        views = {}
        for replica in self._replicas:
            if not runs(seen.berths.get(replica.ordinal)):
                self._context.progress(f"adopting {seen.title}-{replica.ordinal}")
                views[replica.ordinal] = self._bring(replica)
        self._label()
        for ordinal, view in views.items():
            owner = ReplicaOwner(seen.app, ordinal, told=True, ready=True)
            refuse(f"{seen.title}-{ordinal}", self._driver.drive(replace(view, owner=owner)).step)

    def _put_on_record(self, part: Part) -> None:
        """A compare-and-swap, tried again where only others have written, and judged anew each time."""
        disk: Object = part.disk
        for _attempt in range(SWAPS):
            if adopting_writes.is_on_record(disk):
                return
            try:
                self._client.replace(kinds.LOCAL_DISK, adopting_writes.recorded_disk(part, disk))
                return
            except ConflictError:
                disk = self._client.get(kinds.LOCAL_DISK, part.disk_name)
                adoptable.put_on_record(disk, part.volume, part.whose, 0)  # refuses what is somebody's by now
        raise _busy(f"LocalDisk {part.disk_name} changed before the write {SWAPS} times in a row: run again")

    def _bring(self, replica: Replica) -> View:
        """Berth, locks, Reserved, marks, Bound: the lifecycle's own way forward."""
        seen, record = self._seen, self._seen.berths.get(replica.ordinal)
        title = f"{seen.title}-{replica.ordinal}"
        view = View(title, ReplicaOwner(seen.app, replica.ordinal, replica), record)
        names = dict.fromkeys(replica.disks.values())
        names.update({str(each["name"]): None for each in disks_of(record)} if record is not None else {})
        for name in names:
            found = self._client.find(kinds.LOCAL_DISK, name)
            view = view if found is None else view.having(kinds.LOCAL_DISK, found)
        for part in replica.parts:
            view = view.having(kinds.PV, dict(part.volume)).having(kinds.PVC, dict(part.claim))
        if record is None or replica.parts:
            return self._on(view, title)
        for each in disks_of(record):
            volume, claim = manifests.volume_of(record, each), seen.app.claim_name(each["claim"], replica.ordinal)
            for resource, thing in ((kinds.PV, seen.volumes.get(volume)), (kinds.PVC, seen.claims.get(claim))):
                view = view if thing is None else view.having(resource, dict(thing))
        return self._on(view, title)

    def _on(self, view: View, title: str) -> View:
        if view.berth is not None and recorded(view.berth) == states.RELEASING:  # an earlier run could not go on
            view = replace(self._driver.drive(replace(view, owner=None)).view, owner=view.owner)
        driven = self._driver.drive(view, _lost)
        if driven.asked:
            raise StateError(f"berth {title} could not lock what it is to have: {driven.why}; look, and run again")
        refuse(title, driven.step)
        return driven.view

    def _label(self) -> None:
        """The StatefulSet's own objects, the StatefulSet, and, once its controller has seen it, the pods."""
        seen, app = self._seen, self._seen.app
        for resource, wanted, live in seen.beside:
            self._patch(resource, live, partial(adopting_writes.label_patch, wanted, app=app))
        self._patch(kinds.STATEFUL_SET, seen.live, lambda one: adopting_writes.set_patch(seen, one), generation=True)
        live = seen_by_its_controller(self._client, app.name, app.namespace, self._context.params["wait_timeout"])
        now = replace(seen, templates=_templates(self._client, live))
        for replica in self._replicas:
            pod = self._client.find(kinds.POD, app.berth_name(replica.ordinal), app.namespace)
            if pod is not None:
                self._patch(kinds.POD, pod, lambda one: adopting_writes.pod_patch(now, one, live))

    def _patch(self, resource: Resource, live: Object, patch: Patch, generation: bool = False) -> None:
        """Over what was read, or what is there now where its status alone has changed since. ``generation``: what is
        asked for in it has to be what was judged. An object that is gone or was made anew is its controller's."""
        meta = live["metadata"]
        for _attempt in range(SWAPS):
            body = patch(live)
            if body is None:
                return
            try:
                self._client.patch(resource, meta["name"], meta.get("namespace"), body)
                return
            except (ConflictError, NotFoundError):
                found = self._client.find(resource, meta["name"], meta.get("namespace"))
            if found is None or found["metadata"]["uid"] != meta["uid"]:
                return
            if generation and found["metadata"].get("generation") != meta.get("generation"):
                title = resource.describe(meta["name"], meta.get("namespace"))
                raise _busy(f"{title} was changed meanwhile: look what was changed, and run again")
            live = found
        title = resource.describe(meta["name"], meta.get("namespace"))
        raise _busy(f"{title} changed before the write {SWAPS} times in a row: run again")


def _busy(message: str) -> ConflictError:
    return ConflictError(message, 409, "Conflict")


def _lost(view: View, _step: Step) -> bool:
    """Until: a lock was not to be had, and the berth is given up."""
    return view.berth is not None and recorded(view.berth) == states.RELEASING
