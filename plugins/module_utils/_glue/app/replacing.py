# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A replica gets another disk: reads what there is, and carries out what berth_core.lifecycle says.

Called by disk_replace. Never wipes, never unlocks under a living pod, and touches no other replica and no other disk of
this one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ...berth_core.app import manifests
from ...berth_core.app.observed import ready
from ...berth_core.app.replace_plan import Replica, of_claim, owner_of
from ...berth_core.app.wanted import APP_LABEL, OURS, STATEFUL_SET, AppWanted, DiskWanted
from ...berth_core.lifecycle.driving import refuse
from ...berth_core.lifecycle.replacing import PARTS, Exchange, part_of
from ...berth_core.lifecycle.replica import ReplicaOwner
from ...berth_core.lifecycle.step import Ref, Step, Wait
from ...berth_core.lifecycle.view import View, claim_name, devices_of, disks_of
from ...berth_core.model import resources as kinds
from ..base import Context
from . import wait
from .driver import Driver
from .replacing_claim import exchange_of_claim, look_at_claim


class Replacement:
    """One disk for another. ``old``: the LocalDisk. ``declared``: that of the new one. ``replica``: whose it is."""

    def __init__(
        self, context: Context, old: Mapping[str, Any], declared: Mapping[str, Any], replica: Replica | None
    ) -> None:
        self._client, self._progress = context.client, context.progress
        self._replica, owner = replica, owner_of(old)
        if replica is not None and owner is not None and of_claim(owner):
            self._exchange = exchange_of_claim(self._client, replica, old, declared, context.params["mount_root"])
        else:
            self._exchange = Exchange(replica.claim if replica else "", old["metadata"]["name"], declared)
        self._timeout, self._mount_root = context.params["wait_timeout"], context.params["mount_root"]
        self._driver = Driver(context, self._told, self._timeout)

    def look(self) -> View:
        """Everything that next_step asks for, read now."""
        one, client, exchange = self._replica, self._client, self._exchange
        whose = exchange.of.name if exchange.of is not None else one.berth if one else ""
        view = View(f"{one.namespace}/{whose}" if one else exchange.old, None, exchange=exchange)
        view = view.having(kinds.LOCAL_DISK, client.get(kinds.LOCAL_DISK, exchange.old))
        view = self._driver.look(view, Ref(kinds.LOCAL_DISK, exchange.new))
        # Whoever they were made for: one may be over the new disk.
        view = replace(view, volumes={one["metadata"]["name"]: one for one in client.list(kinds.PV, labels=OURS)})
        if exchange.of is not None:
            return look_at_claim(client, self._driver, view, exchange, exchange.of)
        berth = client.find(kinds.BERTH, one.berth, one.namespace) if one else None
        if one is None or berth is None:
            return view
        view = view.having(kinds.BERTH, berth)
        for entry in disks_of(berth):
            if entry["name"] not in view.disks:
                view = self._driver.look(view, Ref(kinds.LOCAL_DISK, entry["name"]))
        for entry in devices_of(berth):
            view = self._driver.look(view, Ref(kinds.LOCAL_DEVICE, entry["name"]))
        for entry in disks_of(berth):
            view = self._driver.look(view, Ref(kinds.PVC, claim_name(berth, entry["claim"]), one.namespace))
        view = self._driver.look(view, Ref(kinds.POD, one.berth, one.namespace))
        hostname = manifests.hostname_of(client.get(kinds.NODE, berth["spec"]["nodeName"]))
        return self._with_pod(replace(view, hostname=hostname, owner=ReplicaOwner(self._app(berth), one.ordinal)))

    def carry_out(self, view: View, allowed: Collection[str]) -> list[str]:
        """Every part that is left and allowed; those that were done."""
        done: list[str] = []

        def beyond(_view: View, step: Step) -> bool:
            return part_of(step) not in allowed

        while True:
            driven = self._driver.drive(view, beyond)
            done += [part_of(write) for write in driven.done]
            view, step = driven.view, driven.step
            if beyond(view, step):
                break
            if isinstance(step, Wait) and step.reason in ("Workload", "Pod"):
                self._wait_for_pod()
                done.append("run")
                view = self._with_pod(self._driver.look(view, Ref(kinds.POD, self._pod, self._namespace)))
                continue
            refuse(view.key, step)
            break
        return [part for part in PARTS if part in done]

    def _told(self, message: str) -> None:
        self._progress(f"replacing a disk: {message}")

    def _with_pod(self, view: View) -> View:
        """The owner, with what its pod says."""
        is_ready = ready(view.pods.get(self._pod))
        owner = view.owner
        if not isinstance(owner, ReplicaOwner):
            return view
        return replace(view, owner=replace(owner, told=is_ready, ready=is_ready))

    def _wait_for_pod(self) -> None:
        labels = f"{APP_LABEL}={self._replica.app}" if self._replica and self._exchange.of is None else None
        goal, missing = f"pod {self._pod} to be Ready on the new disk", wait.pods_ready([self._pod])
        wait.until(self._client, kinds.POD, self._namespace, labels, self._timeout, missing, goal, self._progress)

    @property
    def _pod(self) -> str:
        return self._replica.berth if self._replica else ""

    @property
    def _namespace(self) -> str:
        return self._replica.namespace if self._replica else ""

    def _app(self, berth: Mapping[str, Any]) -> AppWanted:
        """As much of the app as volumes and claims are made from: sizes from the berth, classes from the workload."""
        one = self._replica
        if one is None:
            raise AssertionError("a berth has a replica")
        workload = self._client.find(kinds.STATEFUL_SET, one.app, one.namespace)
        templates = (workload or {}).get("spec", {}).get("volumeClaimTemplates") or ()
        classes = {each["metadata"]["name"]: each["spec"].get("storageClassName") for each in templates}
        spec = self._exchange.declared["spec"]
        disks = tuple(
            DiskWanted(
                entry["claim"],
                entry["size"],
                classes.get(entry["claim"], spec.get("storageClassName")),
                spec.get("volumeMode", "Filesystem"),
                None,
                None,
                (),
            )
            for entry in disks_of(berth)
        )
        return AppWanted(
            one.app, one.namespace, 1, STATEFUL_SET, {"spec": {}}, None, disks, (), "OrderedReady", self._mount_root
        )
