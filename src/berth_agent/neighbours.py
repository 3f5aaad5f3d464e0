"""Whether another node sees a disk of this one, or has one that was here. Asked by `publish` and the life of disks.

Who shows a disk's world wide name first in a LocalDisk's status and then lists everybody that shows it finds the other,
or is found. Who finds one names its node in its own status, and that node's agent watches for its name: nobody reads
all disks of the cluster, and at rest nobody asks anything. What is decided is decided in berth_core.app.sharing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from berth_core.app.sharing import ALONE, Neighbour, check_alone, disk_id, neighbour_of
from berth_core.errors import ApiError, StateError
from berth_core.model.resources import LOCAL_DISK
from berth_kube.client import KubeClient
from berth_kube.informer import Informer

from .report import COMPARED, Report
from .seams import Object, Record

LOG = logging.getLogger("berth_agent.neighbours")
#: How long an answer counts: who shares a disk is asked again soon, for its node may not watch for this one.
_SHARED_SECONDS, _MOVED_SECONDS = 10.0, 300.0
_BAD_REQUEST = 400


class _Answer(NamedTuple):
    """``is_here``: whether the disk was in this node; ``until``: of the monotonic clock."""

    identity: str
    is_here: bool
    until: float
    neighbour: Neighbour


class Neighbours:
    """One node's. ``changed`` is called when an answer may be another one now."""

    def __init__(self, client: KubeClient, node: str, report: Report, changed: Callable[[], None]) -> None:
        self._client, self._report, self._changed = client, report, changed
        self._answers: dict[str, _Answer] = {}
        self._is_served = True
        self._informer = Informer(
            client, LOCAL_DISK, fields=f"status.observed.sharedWith={node}", transform=_identity_alone
        )

    async def run(self) -> None:
        """Until cancelled."""
        self._informer.on(add=self._told, update=lambda _old, new: self._told(new), delete=self._told)
        await self._informer.run()

    def is_new(self, disk: Object, device: Record | None) -> bool:
        """Whether the device's name is not in the LocalDisk's status yet, where the others find it."""
        identity = disk_id(device) if device is not None and self._is_served else ""
        return bool(identity) and identity != _shown(disk)

    async def find(self, disk: Object, device: Record | None) -> Neighbour:
        """The LocalDisk of another node that shows the same disk. Raises ApiError."""
        name, is_here = str(disk["metadata"]["name"]), device is not None
        identity = disk_id(device) if device is not None else _shown(disk)
        known = self._answers.get(name)
        if known is not None and known[:2] == (identity, is_here) and time.monotonic() < known.until:
            return known.neighbour
        found = await self._look(disk, identity)
        seconds = _SHARED_SECONDS if found.sees_it and is_here else _MOVED_SECONDS
        if found == ALONE and (is_here or not identity):
            seconds = float("inf")  # who comes to see it will say so
        else:
            asyncio.get_running_loop().call_later(seconds, self._changed)
        self._answers[name] = _Answer(identity, is_here, time.monotonic() + seconds, found)
        return found

    async def check(self, disk: Object, device: Record | None) -> None:
        """Nobody else sees it, asked for right now. Raises DataError where somebody does, StateError, ApiError."""
        if self.is_new(disk, device):
            name, identity = disk["metadata"]["name"], disk_id(device or {})
            raise StateError(f"LocalDisk {name}: its status does not show {identity} yet, by which other nodes find it")
        identity = _shown(disk)
        check_alone(disk, await self._look(disk, identity), identity)

    async def _look(self, disk: Object, identity: str) -> Neighbour:
        if not identity:
            return ALONE
        try:
            found = (await self._client.list(LOCAL_DISK, fields=f"status.observed.diskID={identity}")).items
        except ApiError as exc:
            if exc.status != _BAD_REQUEST:
                raise
            self._is_served = False
            words = "the LocalDisks of the API server are of an older release, and cannot be asked for a disk: run crds"
            if self._report.set(COMPARED, "False", "NotServed", words):
                LOG.warning("%s", words)
            return ALONE
        self._report.set(COMPARED, "True", "Compared")
        return neighbour_of(disk, found)

    def _told(self, other: Object) -> None:
        """Another node says that it sees a disk of this one, or says so no more."""
        for name, answer in list(self._answers.items()):
            if answer.identity == _shown(other):
                del self._answers[name]
        self._changed()


def _shown(disk: Object) -> str:
    """The world wide name in a LocalDisk's status."""
    return str(((disk.get("status") or {}).get("observed") or {}).get("diskID") or "")


def _identity_alone(disk: dict[str, Any]) -> dict[str, Any]:
    meta = {key: disk["metadata"][key] for key in ("name", "uid", "resourceVersion")}
    return {"metadata": meta, "status": {"observed": {"diskID": _shown(disk)}}}
