"""Tries on the API server, without writing (dryRun=All), what a look is going to create, and holds it against quotas.

What is tried and what a refusal means is decided in berth_core.app.trial.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from berth_core.app import handed, manifests, quota, trial
from berth_core.app.choose import Choice
from berth_core.app.limit_range import with_defaults
from berth_core.errors import (
    AdmissionError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InputError,
    UnauthorizedError,
    UnavailableError,
)
from berth_core.model.resources import LIMIT_RANGE, POD, RESOURCE_QUOTA, Resource

from .requests import Obj
from .run import SOON, Later, Run


class Trial:
    """``_full``: refusals by a quota, which is held against everything at once when that is known."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._full: list[tuple[Resource, ApiError]] = []

    async def objects(self) -> None:
        """Try them, and take into the run what admission makes of a pod. Raises InputError for the first refusal."""
        run = self._run
        if run.plan.empty:
            return
        for resource, name in handed.needed(run.app):
            if await run.api.find(resource, name) is None:
                raise handed.missing(run.app, resource, name)
        if trial.needs_pod(run.plan):
            run.app = replace(run.app, admitted=await self._admitted())
        for resource, body in trial.workload(run.app, run.seen):
            await self._try(resource, body, apply=True)
        for resource, body in trial.storage(run.app, run.seen):
            with contextlib.suppress(ConflictError):  # it is there: whose it is, the lifecycle finds out
                await self._try(resource, body)

    async def quotas(self, choices: Sequence[Choice]) -> None:
        """Hold everything that will be created against the quotas of the namespace. Raises InputError."""
        run = self._run
        if run.plan.empty:
            return
        class_of = trial.Classes(run.seen, choices, run.world)
        wanted = [one for one in trial.demands(run.app, run.seen, run.plan, class_of) if one.count > 0]
        if not wanted:
            return  # what is only replaced makes its own room
        lines = quota.refusals(await run.api.list(RESOURCE_QUOTA, run.app.namespace), wanted)
        if lines:
            raise InputError(trial.exceeded(run.app, lines))
        for resource, refused in self._full:
            raise trial.refusal(run.app, resource, refused) from refused

    async def _try(self, resource: Resource, body: Mapping[str, Any], apply: bool = False) -> Obj | None:
        """The object as it would be; None where only a quota says no. Raises ConflictError."""
        api = self._run.api
        try:
            return await (api.apply if apply else api.create)(resource, body, dry_run=True)
        except (ConflictError, UnauthorizedError, UnavailableError):
            raise
        except ApiError as exc:
            if trial.is_quota(exc):
                self._full.append((resource, exc))
                return None
            if isinstance(exc, ForbiddenError) and not isinstance(exc, AdmissionError):
                raise
            raise trial.refusal(self._run.app, resource, exc) from exc

    async def _admitted(self) -> Obj:
        """A pod of the app as admission returns it, or, where a quota has no room, with the defaults of LimitRanges."""
        run = self._run
        try:
            found = await self._try(POD, trial.trial_pod(run.app, run.seen))
        except ConflictError:  # somebody else's pod, or a new one: another name tells as much
            found = await self._try(POD, trial.trial_pod(run.app, run.seen, aside=True))
        except InputError as exc:
            if trial.is_new_namespace(exc):
                raise Later("NewNamespace", exc.message, SOON) from exc
            raise
        if found is None:
            ranges = await run.api.list(LIMIT_RANGE, run.app.namespace)
            found = with_defaults(manifests.untied_pod(run.app, 0), ranges)
        return found
