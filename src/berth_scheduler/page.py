"""The report's page, live: what the module report writes, made of the caches that the scheduler has anyway.

Started by `__main__` for --page-port. The page tells much about the cluster and asks nobody who he is: it is served on
the loopback alone, and only to who asks by that name, so that no site in an operator's browser reads it by a name of
its own for this address. It sends no request, and is made anew at most every few seconds, when somebody looks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

import h11

from berth_core.app.cluster_drift import KINDS, cluster_drift
from berth_core.app.history import history
from berth_core.app.html_report import render
from berth_core.app.orphans import BERTH_WITHOUT_APP
from berth_core.app.overview import shown
from berth_core.app.resource_list import resource_list
from berth_core.cluster.snapshot import Place
from berth_core.model.resources import BERTH, NODE
from berth_kube.clocks import utc_now
from berth_kube.serve import LIMITS, TEXT, Answer, Server

from .cluster import Cluster

LOOPBACK = "127.0.0.1"
_NAMES = ("localhost", LOOPBACK)
#: A page serves everybody who asks for so long.
SECONDS = 10.0
#: A cluster of 5,000 nodes with four disks each takes 5 MB.
MOST = 50_000_000
_SAFE = (
    ("content-security-policy", "frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
)
#: Not told: a pod that has ended keeps its Berth, and a scheduler does not know it any more.
_UNSURE = BERTH_WITHOUT_APP


class Page(Server):
    """One port with one page. Made and used inside a running loop."""

    def __init__(
        self,
        port: int,
        cluster: Cluster,
        now: Callable[[], datetime] = utc_now,
        refused: Callable[[str], None] | None = None,
    ) -> None:
        # All who may ask have one address.
        super().__init__(port, LOOPBACK, refused=refused, limits=LIMITS._replace(per_address=LIMITS.places))
        self._cluster, self._now = cluster, now
        self._made: tuple[float, Answer] | None = None
        self._making = asyncio.Lock()
        #: how many were made
        self.made = 0

    async def run(self) -> None:
        """Serve until cancelled. Raises InputError when the port cannot be had."""
        await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await self.stop()

    async def respond(self, request: h11.Request) -> Answer:
        """The page at /."""
        host = dict(request.headers).get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
        if host.lower() not in _NAMES:
            return Answer(403, TEXT, f"the page is for who asks http://{LOOPBACK}:{self.port}/ himself\n".encode())
        if request.method not in (b"GET", b"HEAD"):
            return Answer(405, TEXT, b"only GET\n")
        if request.target.split(b"?", 1)[0] != b"/":
            return Answer(404, TEXT, b"/\n")
        if not self._cluster.synced:
            return Answer(503, TEXT, b"not every kind was listed yet\n")
        async with self._making:
            clock = asyncio.get_running_loop().time
            if self._made is None or clock() - self._made[0] >= SECONDS:
                answer = await self._make()
                self._made = clock(), answer
            return self._made[1]

    async def _make(self) -> Answer:
        """What changes is taken in one step of the loop; the text is made beside it."""
        self.made += 1
        snapshot = self._cluster.snapshot
        found, unreadable = resource_list(snapshot), dict(snapshot.unreadable)
        lists = {kind.kind: self._cluster.all(kind) for kind in KINDS}
        text = await asyncio.to_thread(_text, found, lists, unreadable, self._now().strftime("%Y-%m-%d %H:%M:%S UTC"))
        if len(text) > MOST:
            said = (
                f"the page would have {len(text)} bytes, more than the {MOST} that are served: use the module report\n"
            )
            return Answer(503, TEXT, said.encode())
        return Answer(200, "text/html; charset=utf-8", text, _SAFE)


def _text(
    found: dict[str, Any], lists: dict[str, list[dict[str, Any]]], unreadable: dict[Place, str], made: str
) -> bytes:
    findings = [one for one in cluster_drift(lists, unreadable=unreadable) if one["kind"] != _UNSURE]
    overview = shown(found, lists[NODE.kind], lists[BERTH.kind])
    return render(overview, findings, history(lists), "berth", made).encode()
