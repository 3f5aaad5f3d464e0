"""berth-controller: binds claims to local disks. The composition root: `berth-controller --help`.

Two clients: the election's own, and one whose writes are each preceded by the question whether this process still
leads. Caches are filled before it leads, so that the next leader begins at once. Who loses the lease ends, and is
started anew.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
from collections.abc import Sequence

from berth_core.app.controller_settings import Settings
from berth_core.errors import BerthError
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.events import Recorder
from berth_kube.lease import LeaderElection, identity
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.serve import caches_server
from berth_kube.stopping import command, together, until_stopped

from .caches import Caches
from .controller import Controller
from .reports import Metrics, Reports
from .settings import parse

_log = logging.getLogger(__name__)

NAME = "berth-controller"
#: Events of a hundred claims that find no disk are all told, within seconds.
EVENT_RATE, EVENT_BURST = 20.0, 200


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 asked to stop; 1 the lease was lost, or the API refused; 2 wrong settings."""
    return command(NAME, argv, parse, run)


async def run(settings: Settings) -> int:
    """Until a signal, or until this process may not lead any more."""
    return await until_stopped(_serve(settings), _log)


async def _serve(settings: Settings) -> None:
    me = settings.identity or identity(socket.gethostname())
    requests = RequestMetrics()
    who = config.load(settings.kubeconfig or None)
    async with (
        KubeClient(who, user_agent=NAME, field_manager=NAME, observe=requests.requests(), connections=16) as client,
        KubeClient(who, user_agent=f"{NAME}/leader", connections=2) as electing,
    ):
        recorder = Recorder(client, "berth.dev/controller", me, rate=EVENT_RATE, burst=EVENT_BURST)
        reports = Reports(client, recorder, Metrics())
        caches = Caches(client, settings.namespace)
        election = LeaderElection(electing, settings.namespace, NAME, me) if settings.leader_elect else None
        requests.leading(lambda: election is None or election.leading)

        async def work() -> None:
            await caches.wait_synced()
            _log.info("%s works as %s", NAME, me)
            await Controller(client, caches, reports, requests, settings).run()

        if election is not None:
            client.guard_writes(election.check)
        tls = settings.tls_certificate, settings.tls_key
        server = caches_server(
            settings.port, settings.address, lambda: caches.synced, *tls, requests.refused("metrics")
        )
        working = election.run(work) if election is not None else work()
        try:
            await together(server, working, caches.run(), recorder.run())
        finally:
            with contextlib.suppress(BerthError):
                await recorder.flush()


if __name__ == "__main__":
    sys.exit(main())
