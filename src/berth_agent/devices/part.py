"""The devices of a node, all the time: scan, declare, publish, serve the kubelet. Made by `make` in __init__.

One loop writes: it wakes when a source's interval is over, the settings changed, the kubelet registered the agent, or
somebody wrote a LocalDevice or a ResourceSlice of this node (a kubelet that starts removes all slices of its node). At
rest it writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any

from berth_core.app.device_claim import DRIVER, slice_device_name
from berth_core.errors import ApiError, BerthError, ConflictError, GoneError
from berth_core.model.resources import LOCAL_DEVICE, NODE, RESOURCE_SLICE, Resource

from ..report import Report
from ..seams import Tools
from ..waiting import wait_for
from . import publish, slices
from .device import Device
from .kubelet import DraService, Health, Sockets
from .prepare import Preparer
from .sources import Found, Sources

log = logging.getLogger(__name__)
MANAGER = "berth-agent-devices"
#: the agent's condition: whether every source could be read
FOUND = "DevicesFound"
#: a pass that failed is tried again after this, doubled up to the second
RETRY, RETRY_MOST = 1.0, 60.0
WATCH_SECONDS = 300.0


class DevicePart:
    """The Part that the frame runs."""

    def __init__(self, tools: Tools, report: Report) -> None:
        self._tools = tools
        self._report = report
        self._sources = Sources(tools.machine)
        self._found = Found()
        self._said: tuple[str, ...] = ()
        self._wake = asyncio.Event()
        self._scanning = asyncio.Lock()
        self._registered = False
        self._stale = True
        self._health = Health()
        self._healths: dict[str, str] = {}
        self._preparer = Preparer(tools, self._find)

    def wake(self) -> None:
        """Scan and publish soon."""
        self._stale = True
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._preparer.recover()
        tasks = [
            asyncio.ensure_future(work)
            for work in (
                self._publish(),
                self._serve(),
                self._watch(LOCAL_DEVICE, f"spec.nodeName={self._tools.node}"),
                self._watch(RESOURCE_SLICE, f"spec.nodeName={self._tools.node},spec.driver={DRIVER}"),
            )
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- the kubelet ------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        service, said = DraService(self._preparer.prepare, self._preparer.unprepare, self._health), ""
        while True:
            if self._wanted():
                root = self._root()
                try:
                    await Sockets(root, service, self._told).run(partial(self._wanted_in, root))
                    said = ""
                except OSError as exc:
                    if said != str(exc):
                        log.warning("the kubelet's folder %s cannot be used: %s", root, exc)
                    said = str(exc)
                self._registered = False
            await asyncio.sleep(RETRY)

    def _root(self) -> str:
        """The kubelet's folder."""
        return self._tools.machine.path(self._tools.settings().kubelet.root)

    def _wanted_in(self, root: str) -> bool:
        return self._wanted() and self._root() == root

    def _wanted(self) -> bool:
        return self._tools.settings().policies.devices

    def _told(self, registered: bool, error: str) -> None:
        """The kubelet's word on the registration."""
        if error:
            log.warning("the kubelet does not take DRA driver %s: %s", DRIVER, error)
        self._registered = registered
        self.wake()

    async def _find(self, device_class: str, uuid: str) -> Device | None:
        """A device of the last scan; scanned anew when it is not there, for it may have come since."""
        for _attempt in range(2):
            for device in self._found.devices:
                if device.key == (device_class, uuid):
                    return device
            await self._scan()
        return None

    # -- the API server ---------------------------------------------------------------------------------------------

    async def _watch(self, resource: Resource, fields: str) -> None:
        """Wake the loop at each change of these objects. What changed it reads itself."""
        version, pause = "", RETRY
        while True:
            try:
                if not version:
                    version = (await self._tools.client.page(resource, fields=fields, limit=1)).version
                    self.wake()
                async with self._tools.client.watch(resource, version, seconds=WATCH_SECONDS, fields=fields) as events:
                    async for event in events:
                        version, pause = event.version or version, RETRY
                        if event.type != "BOOKMARK":
                            self.wake()
            except GoneError:
                version = ""
            except ApiError as exc:
                log.info("watch of %s is interrupted: %s", resource.plural, exc.message)
                version, pause = "", min(pause * 2, RETRY_MOST)
            await asyncio.sleep(pause)

    async def _publish(self) -> None:
        pause = RETRY
        while True:
            self._wake.clear()
            try:
                await self._pass()
                pause = RETRY
                wait = self._tools.settings().intervals.devices
            except BerthError as exc:
                log.warning("devices are not published: %s", exc.message)
                self._stale, wait, pause = True, pause, min(pause * 2, RETRY_MOST)
            with contextlib.suppress(asyncio.TimeoutError):
                await wait_for(self._wake.wait(), wait)
            await asyncio.sleep(self._tools.settings().intervals.debounce)

    async def _scan(self) -> bool:
        """Whether something changed."""
        async with self._scanning:
            found = await asyncio.get_running_loop().run_in_executor(None, self._sources.scan, self._tools.settings())
            changed, self._found = found != self._found, found
        for problem in found.problems:
            if problem not in self._said:
                log.warning("%s", problem)
        self._said = found.problems
        if found.problems:
            self._report.set(FOUND, "False", "Problems", "; ".join(found.problems))
        else:
            self._report.set(FOUND, "True", "Found", f"{len(found.devices)} devices")
        return changed

    async def _pass(self) -> None:
        if not self._wanted():
            return
        if not await self._scan() and not self._stale:
            self._refresh_health()
            return
        self._tools.check()
        self._stale = False
        there = await self._declared()
        seen = publish.see(self._found.devices, there)
        good = [(one.device, one.local) for one in seen if one.device is not None and not one.problem]
        await self._write_slices([slices.slice_device(device, local) for device, local in good])
        for one in seen:
            await self._record(one)
        self._healths = {slice_device_name(one.local["spec"]): one.problem for one in seen}
        self._refresh_health()
        await self._preparer.tidy()

    def _refresh_health(self) -> None:
        """Tell the kubelet; what it heard lasts for three scans."""
        self._health.set(self._tools.node, self._healths, 3 * self._tools.settings().intervals.devices)

    async def _declared(self) -> list[dict[str, Any]]:
        """The LocalDevices of this node, those of new devices made."""
        client, fields = self._tools.client, f"spec.nodeName={self._tools.node}"
        there = (await client.list(LOCAL_DEVICE, fields=fields)).items
        for body in publish.undeclared(self._tools.node, self._found.devices, there):
            self._tools.check()
            try:
                there.append(await client.create(LOCAL_DEVICE, body))
                log.info("declared LocalDevice %s", body["metadata"]["name"])
            except ConflictError:
                self.wake()  # somebody has just made it: the next pass sees it
        return there

    async def _record(self, one: publish.Seen) -> None:
        """Write its status, if that has changed."""
        wanted = publish.status(one, self._registered, self._tools.now())
        if not publish.says(one.local, wanted):
            self._tools.check()
            body = {"metadata": {"name": one.local["metadata"]["name"]}, "status": wanted}
            await self._tools.client.apply(LOCAL_DEVICE, body, subresource="status", manager=MANAGER)

    async def _write_slices(self, devices: list[dict[str, Any]]) -> None:
        """Slices are published for a kubelet that can prepare them; without one, pods would wait here for nothing."""
        client, node = self._tools.client, await self._tools.client.find(NODE, self._tools.node)
        if node is None or not self._registered:
            return
        fields = f"spec.nodeName={self._tools.node},spec.driver={DRIVER}"
        there = (await client.list(RESOURCE_SLICE, fields=fields)).items
        plan = slices.plan_slices(node, devices, there)
        if plan.empty:
            return
        self._tools.check()
        for new in plan.create:
            await client.create(RESOURCE_SLICE, new)
        for changed in plan.replace:
            await client.replace(RESOURCE_SLICE, changed)
        for gone in plan.delete:
            meta = gone["metadata"]
            await client.delete(RESOURCE_SLICE, meta["name"], uid=meta["uid"])
        log.info("published %d devices in ResourceSlices", len(devices))
