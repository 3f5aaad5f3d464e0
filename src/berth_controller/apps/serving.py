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
    pods = [*in_service.never_opened(run.seen.pods)]
    if run.app.update is None or not run.plan.update:
        pods += in_service.left_shut(run.seen.pods)
    for pod in pods:
        meta = pod["metadata"]
        seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {**in_service.gate_body(pod, True, utc_now()), "metadata": seen}
        try:
            await run.api.patch(POD, meta["name"], meta["namespace"], body, "status")
        except (ConflictError, NotFoundError) as exc:
            raise Later("WaitsForPods", exc.message, SOON / 4) from exc
