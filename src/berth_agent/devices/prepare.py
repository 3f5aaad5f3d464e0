"""Prepare and unprepare ResourceClaims for the kubelet: locks checked against the API server, then CDI.

Called by `kubelet`. A claim gets its devices only when each is locked for the berth of its pod, as the API server says
at that moment. All of it can be asked again at any time and gives the same answer: a kubelet repeats itself, and so
does a new one. Never writes to the API, and never takes a device from a running container.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Callable
from weakref import WeakValueDictionary

from berth_core.app.device_claim import CLAIM_LABEL, Grant, consumers, granted
from berth_core.errors import BerthError, StateError
from berth_core.model.resources import BERTH, LOCAL_DEVICE, RESOURCE_CLAIM

from ..seams import Tools
from . import cdi
from .cdi import Claimed
from .checkpoint import Checkpoint
from .device import Device

log = logging.getLogger(__name__)
#: A claim in the kubelet's words: namespace, name, uid.
Asked = Mapping[str, str]
Answer = dict[str, Any]
#: the device of a class and uuid as it is now, None when the host does not have it
Find = Callable[[str, str], Awaitable["Device | None"]]


class Preparer:
    """The claims of one node."""

    def __init__(self, tools: Tools, find: Find) -> None:
        self._tools = tools
        self._find = find
        self._checkpoint = Checkpoint(tools.machine.path(tools.settings().state_directory))
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def prepared(self) -> Mapping[str, Mapping[str, Any]]:
        """What is handed over at the moment, by the claim's uid."""
        return self._checkpoint.claims

    async def prepare(self, claims: Sequence[Asked]) -> dict[str, Answer]:
        """An answer for each claim: its devices, or why not."""
        return {claim["uid"]: await self._one(claim, self._prepare) for claim in claims}

    async def unprepare(self, claims: Sequence[Asked]) -> dict[str, Answer]:
        """An answer for each claim: empty, or why it could not be undone."""
        return {claim["uid"]: await self._one(claim, self._unprepare) for claim in claims}

    async def _one(self, asked: Asked, act: Callable[[Asked], Awaitable[Answer]]) -> Answer:
        try:
            cdi.path_of("", asked["uid"])  # before it becomes part of anything
            async with self._busy.setdefault(asked["uid"], asyncio.Lock()):
                return await act(asked)
        except (BerthError, OSError, ValueError) as exc:
            why = exc.message if isinstance(exc, BerthError) else str(exc)
            log.warning("claim %s/%s: %s", asked["namespace"], asked["name"], why)
            return {"error": why}

    async def _prepare(self, asked: Asked) -> Answer:
        self._tools.check()
        claimed, grants = await self._granted(asked)
        given = [(grant, await self._device(grant)) for grant in grants]
        document = cdi.specification(claimed, given)
        answer = [_answer(claimed, grant) for grant in grants]
        # The file first: what the checkpoint and the kubelet know of can be used.
        cdi.write(self._root, claimed.uid, document)
        self._checkpoint.put(
            claimed.uid,
            {"namespace": claimed.namespace, "name": claimed.name, "cdi": document, "devices": answer},
        )
        names = ", ".join(f"{grant.local_device} ({grant.shares} of {grant.total} shares)" for grant in grants)
        log.info("claim %s/%s gets %s", claimed.namespace, claimed.name, names)
        return {"devices": answer}

    async def _granted(self, asked: Asked) -> tuple[Claimed, list[Grant]]:
        client, node, namespace = self._tools.client, self._tools.node, asked["namespace"]
        claim = await client.get(RESOURCE_CLAIM, asked["name"], namespace)
        if claim["metadata"]["uid"] != asked["uid"]:
            raise StateError(
                f"ResourceClaim {namespace}/{asked['name']} was deleted and made anew (uid {claim['metadata']['uid']}, "
                f"the kubelet asks for {asked['uid']}): the pod of the old one has to go first"
            )
        pods = consumers(claim)
        berth = await client.find(BERTH, pods[0], namespace) if len(pods) == 1 else None
        devices = await client.list(LOCAL_DEVICE, fields=f"spec.nodeName={node}")
        grants = granted(claim, node, devices.items, berth)
        label = claim["metadata"]["labels"][CLAIM_LABEL]
        return Claimed(namespace, asked["name"], asked["uid"], label), grants

    async def _device(self, grant: Grant) -> Device:
        device = await self._find(grant.device_class, grant.uuid)
        nodes = device.nodes if device else ()
        gone = [node.host_path for node in nodes if not self._tools.machine.exists(node.host_path)]
        if device is None or gone:
            what = f"its device node {gone[0]} is missing" if gone else "no source of this host finds it"
            raise StateError(
                f"LocalDevice {grant.local_device} (uuid {grant.uuid}) is not on node {self._tools.node}: {what}"
            )
        return device

    async def _unprepare(self, asked: Asked) -> Answer:
        """What is not prepared is undone already. The file first: the checkpoint says what may still be there."""
        cdi.remove(self._root, asked["uid"])
        self._checkpoint.drop(asked["uid"])
        return {}

    @property
    def _root(self) -> str:
        return self._tools.machine.path(self._tools.settings().cdi_root)

    def recover(self) -> None:
        """After a start: every prepared claim has its file again, as after a reboot that emptied /run."""
        for uid, claim in self._checkpoint.claims.items():
            cdi.write(self._root, uid, claim["cdi"])

    async def tidy(self) -> None:
        """Forget claims that are gone from the API server and that no kubelet will ever ask to undo.

        CDI files that no checkpoint knows (it was lost) are judged likewise, and else kept: a container that starts
        again needs them.
        """
        unknown = set(cdi.there(self._root)) - set(self._checkpoint.claims)
        listed = [(uid, claim["namespace"], claim["name"]) for uid, claim in self._checkpoint.claims.items()]
        listed += [(uid, *cdi.claim_of(self._root, uid)) for uid in sorted(unknown)]
        for uid, namespace, name in listed:
            if not name:  # half of a file, or somebody else's
                continue
            claim = await self._tools.client.find(RESOURCE_CLAIM, name, namespace)
            if claim is None or claim["metadata"]["uid"] != uid:
                log.info("claim %s/%s (uid %s) is gone: what it was given is taken back", namespace, name, uid)
                await self.unprepare([{"namespace": namespace, "name": name, "uid": uid}])


def _answer(claimed: Claimed, grant: Grant) -> dict[str, Any]:
    return {
        "request_names": [grant.request],
        "pool_name": grant.pool,
        "device_name": grant.device,
        "cdi_device_ids": [cdi.cdi_id(claimed, grant)],
        "share_id": grant.share_id,
    }
