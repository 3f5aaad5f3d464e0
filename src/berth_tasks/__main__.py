"""berth-tasks: runs Tasks to completion. The composition root: `berth-tasks --help`.

Two clients: the election's own, and one whose writes are each preceded by the question whether this process still
leads. Caches are filled by whoever leads: what a predecessor wrote last is in the lists that are asked for then.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Sequence

from berth_core.app.task_backend_settings import Settings
from berth_kube import config, fast
from berth_kube.client import KubeClient
from berth_kube.lease import LeaderElection, identity
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.serve import caches_server
from berth_kube.stopping import command, together, until_stopped

from .daemon import Daemon
from .only_one import refuse_second
from .pod_cleanup import AT_ONCE
from .settings import parse

_log = logging.getLogger(__name__)

NAME = "berth-tasks"
#: Connections beside those of workers and of the cleanup: lists, and the states of queues and batches.
OTHERS = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 asked to stop; 1 the lease was lost, or the API refused; 2 wrong settings."""
    return command(NAME, argv, parse, run, fast.run)


async def run(settings: Settings) -> int:
    """Until a signal, or until this process may not lead any more."""
    return await until_stopped(_serve(settings), _log)


async def _serve(settings: Settings) -> None:
    me = settings.identity or identity(socket.gethostname())
    requests = RequestMetrics()
    who = config.load(settings.kubeconfig or None)
    connections = settings.workers + AT_ONCE + OTHERS
    async with (
        KubeClient(
            who,
            user_agent=NAME,
            field_manager=NAME,
            observe=requests.requests(),
            connections=connections,
            **fast.client_options(),
        ) as client,
        KubeClient(who, user_agent=f"{NAME}/leader", connections=2) as electing,
    ):
        election = LeaderElection(electing, settings.namespace, NAME, me) if settings.leader_elect else None
        requests.leading(lambda: election is None or election.leading)
        daemon = Daemon(client, requests, settings)

        async def work() -> None:
            await refuse_second(electing, NAME, settings.namespace if election is not None else None)
            await daemon.run(lambda: _log.info("%s works as %s", NAME, me))

        if election is not None:
            client.guard_writes(election.check)
        tls = settings.tls_certificate, settings.tls_key

        def ready() -> bool:
            """Who waits for the lease is ready, too: it has nothing to fill before."""
            return daemon.synced or (election is not None and not election.leading)

        server = caches_server(settings.port, settings.address, ready, *tls, requests.refused("metrics"))
        await together(server, election.run(work) if election is not None else work())


if __name__ == "__main__":
    sys.exit(main())
