"""Opens the readiness gate of pods that have berth's (berth_core.app.in_service), as soon as nothing speaks against it.

What is shut for an update is opened by the update's own steps (rolling), or here, where none is under way any more.
"""

from __future__ import annotations

from berth_core.app import in_service
from berth_core.errors import ConflictError, NotFoundError
from berth_core.model.resources import POD
from berth_kube.clocks import utc_now

from .run import SOON, Later, Run


async def open_gates(run: Run) -> None:
    """Bring into their Services the new pods, and those that an update has left outside.

    Raises Later where a pod has changed meanwhile, and ForbiddenError.
    """
    under_way = run.app.update is not None and bool(run.plan.update)
    for pod in [*in_service.to_open(run.seen.pods, under_way)]:
        meta, body = pod["metadata"], in_service.gate_body(pod, True, utc_now())
        try:
            await run.api.patch(POD, meta["name"], meta["namespace"], body, "status")
        except (ConflictError, NotFoundError) as exc:
            raise Later("WaitsForPods", exc.message, SOON / 4) from exc
