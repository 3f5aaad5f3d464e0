"""Looks for orphans every so often: reported first, repaired only by the rules of docs/guides/orphans.md.

What is an orphan is decided in berth_core.app.orphans, from the caches. The caches may be behind, so a finding counts
only when it stays, and before a repair everything that it rests on is read anew, the lock before the berth.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from berth_core.app import orphans
from berth_core.app.controller_settings import Settings
from berth_core.app.manifests import volume_of_lock
from berth_core.app.orphans import Finding, Holdings
from berth_core.errors import BerthError
from berth_core.lifecycle.locks import unlock_disk
from berth_core.model.over_disk import disk_of
from berth_core.model.resources import BERTH, LOCAL_DISK, PV
from berth_kube.client import KubeClient

from .caches import Caches, Obj
from .reports import ORPHANED, Reports, condition_of, name_of

_log = logging.getLogger(__name__)

#: Kinds whose status is berth's to put a condition in.
_WITH_CONDITION = (LOCAL_DISK, BERTH)


class OrphanWatch:
    """``settings``: how long an orphan must stay one before it is reported, and repaired."""

    def __init__(self, client: KubeClient, caches: Caches, reports: Reports, settings: Settings) -> None:
        self._client, self._caches, self._reports, self._settings = client, caches, reports, settings
        self._loop = asyncio.get_running_loop()
        self._since: dict[tuple[str, str, str], float] = {}
        self._told: set[tuple[str, str, str]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except BerthError as exc:
                _log.warning("orphans: %s; looking again later", exc.message)
            await asyncio.sleep(self._settings.orphan_interval)

    async def look(self) -> None:
        """Once: report what has been an orphan for long enough, repair what may be repaired."""
        now = self._loop.time()
        found = {finding.key: finding for finding in orphans.find(self._holdings())}
        self._since = {key: self._since.get(key, now) for key in found}
        reported = [one for key, one in found.items() if now - self._since[key] >= self._settings.orphan_report_after]
        await self._report(reported)
        after = self._settings.orphan_repair_after
        for finding in reported:
            if finding.repair and after and now - self._since[finding.key] >= after:
                await self._repair(finding)

    def _holdings(self) -> Holdings:
        caches = self._caches
        return Holdings(
            disks=caches.disks.all(),
            devices=caches.devices.all(),
            volumes=caches.volumes.all(),
            berths=caches.berths.all(),
            workloads=frozenset(_place(one) for one in caches.sets.all()),
            pods=frozenset(_place(one) for one in caches.app_pods.all()),
        )

    # -- telling ---------------------------------------------------------------------------------------------------

    async def _report(self, findings: list[Finding]) -> None:
        counts = Counter(finding.reason for finding in findings)
        for reason in orphans.REASONS:
            self._reports.metrics.orphans.labels(reason).set(counts[reason])
        for finding in findings:
            if finding.key not in self._told:
                _log.warning("orphan: %s %s: %s", finding.resource.kind, name_of(finding.about), finding.message)
                self._reports.event(dict(finding.about), "Warning", finding.reason, finding.message, "Report")
            if finding.resource in _WITH_CONDITION:
                await self._reports.condition(
                    finding.resource, finding.about, ORPHANED, finding.reason, finding.message
                )
        self._told = {finding.key for finding in findings}
        await self._clear({finding.about["metadata"]["uid"] for finding in findings})

    async def _clear(self, orphaned: set[str]) -> None:
        """Take the condition back where the orphan is none any more."""
        for resource, informer in ((LOCAL_DISK, self._caches.disks), (BERTH, self._caches.berths)):
            for item in informer.all():
                if item["metadata"]["uid"] not in orphaned and condition_of(item, ORPHANED) is not None:
                    await self._reports.condition(resource, item, ORPHANED, "", "")

    # -- repairing -------------------------------------------------------------------------------------------------

    async def _repair(self, finding: Finding) -> None:
        done = await (self._retain(finding) if finding.repair == orphans.RETAIN else self._delete_volume(finding))
        if done:
            self._reports.metrics.repairs.labels(finding.reason).inc()
            _log.warning("orphan repaired: %s %s: %s", finding.resource.kind, name_of(finding.about), finding.repair)
            text = f"{finding.message}; repaired: {_WORDS[finding.repair]}"
            self._reports.event(dict(finding.about), "Normal", "OrphanRepaired", text, "Repair")

    async def _retain(self, finding: Finding) -> bool:
        """The lock of a berth that is gone becomes retained data of the same replica, in one compare-and-swap."""
        name = finding.about["metadata"]["name"]
        disk = await self._client.get(LOCAL_DISK, name)
        ref = disk["spec"].get("claimRef")
        if not ref or ref["uid"] != finding.about["spec"]["claimRef"]["uid"]:
            return False
        berth = await self._client.find(BERTH, ref["name"], ref["namespace"])
        if berth is not None and berth["metadata"]["uid"] == ref["uid"]:
            return False
        if await self._client.find(PV, volume_of_lock(disk)) is not None:
            return False
        freed = unlock_disk(disk, ref["uid"], keep_data=True)
        if freed is None:
            return False
        await self._client.replace(LOCAL_DISK, freed)
        return True

    async def _delete_volume(self, finding: Finding) -> bool:
        """The PersistentVolume object of a claim, a berth and a lock that are gone. It has no data in itself."""
        again = [one for one in await self._live(finding) if one.repair == orphans.DELETE_VOLUME]
        if not again:
            return False
        meta = again[0].about["metadata"]
        return await self._client.delete(PV, meta["name"], uid=meta["uid"], version=meta["resourceVersion"])

    async def _live(self, finding: Finding) -> list[Finding]:
        volume = await self._client.find(PV, finding.about["metadata"]["name"])
        if volume is None:
            return []
        disk = await self._client.find(LOCAL_DISK, disk_of(volume))
        berths = (await self._client.list(BERTH)).items
        return orphans.find(Holdings([disk] if disk else [], [], [volume], berths))


_WORDS = {
    orphans.RETAIN: "the lock was given up, and the disk keeps its data for the same replica",
    orphans.DELETE_VOLUME: "the PersistentVolume object was deleted, and the disk was not touched",
}


def _place(item: Obj) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]
