"""Writes in the Berth of a replica that its update has failed, and that this is over.

What that means says berth_core.app.update_failure. Called by rolling.py and visit.py.
"""

from __future__ import annotations

from berth_core.app.update_failure import noted, with_failure, words
from berth_core.app.update_rules import Failure
from berth_core.errors import ConflictError
from berth_kube.clocks import utc_now

from .run import SOON, Later, Run


async def pause(run: Run, ordinal: int, why: str) -> None:
    """The next look goes by it. Raises Later where somebody has changed the Berth meanwhile."""
    await _record(run, ordinal, noted(run.app, ordinal, why, utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")))


async def settle(run: Run) -> None:
    """Take back what is written of failures that are over."""
    for ordinal in run.plan.settled:
        await _record(run, ordinal, None)


async def _record(run: Run, ordinal: int, failure: Failure | None) -> None:
    try:
        await run.replace_berth(ordinal, with_failure(run.record(ordinal), failure))
    except ConflictError as exc:
        raise Later("Updating", exc.message, SOON) from exc


def told(run: Run) -> str:
    """What is said of an update that is paused for a failure; empty where none is."""
    rules = run.app.update
    if rules is None or rules.failure is None:
        return ""
    left = [ordinal for ordinal in run.plan.outdated if not rules.keeps(ordinal)]
    return words(run.app, rules.failure, left) if left or run.plan.update else ""
