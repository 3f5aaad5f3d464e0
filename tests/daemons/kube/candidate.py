"""A process that wants to lead: test_lease.py starts, stops and kills it.

    candidate.py KUBECONFIG NAMESPACE NAME LOG

While it leads it counts up a ConfigMap's `n` as often as it can, each write guarded by `check`, and notes in LOG, with
the wall clock, what it tried.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from berth_core.errors import BerthError, StateError
from berth_core.model.resources import CONFIG_MAP
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.lease import LeaderElection, Periods

PERIODS = Periods(lease=6.0, renew=4.0, retry=1.0)


async def main(kubeconfig: str, namespace: str, name: str, log: str) -> None:
    identity = config.load(kubeconfig)
    with open(log, "a", buffering=1, encoding="utf-8") as file:

        def note(what: str) -> None:
            file.write(f"{time.time():.3f} {what}\n")

        async with KubeClient(identity) as own, KubeClient(identity, user_agent=name) as client:
            election = LeaderElection(own, namespace, "lead", name, periods=PERIODS, on_lost=lambda _why: note("lost"))
            client.guard_writes(election.check)

            async def work() -> None:
                note("leads")
                while True:
                    try:
                        await client.apply(
                            CONFIG_MAP,
                            {"metadata": {"name": "count", "namespace": namespace}, "data": {"by": name}},
                            timeout=1,
                        )
                        note("wrote")
                    except StateError:
                        note("refused")
                    except BerthError as exc:
                        note(f"failed {type(exc).__name__}")
                    await asyncio.sleep(0.05)

            note("begins")
            leading = asyncio.ensure_future(election.run(work))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leading.cancel)
            try:
                await leading
            except (StateError, asyncio.CancelledError) as exc:
                note(f"ends {type(exc).__name__}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
