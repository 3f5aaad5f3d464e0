"""Choice and locks: select -> Selected -> Reserved, against everybody else who does the same.

As in the module's run: write down, look at all berths again, lock, and record Reserved when all have their locks. A
choice that is lost is given up, and the next look makes another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from berth_core.app import choose, leaving, node_loss, rescheduling
from berth_core.app.choice_check import check_grown, check_world, without_discards
from berth_core.app.choose import Choice, World
from berth_core.app.observed import with_locks
from berth_core.app.observing import view_of
from berth_core.errors import ConflictError, UnschedulableError
from berth_core.lifecycle import states
from berth_core.lifecycle.driving import given_up, refuse, reserved, there
from berth_core.lifecycle.lost import keeps
from berth_core.lifecycle.step import Choose
from berth_core.lifecycle.view import View, recorded
from berth_core.model.resources import BERTH, LOCAL_DISK

from .observe import load_world
from .requests import Obj
from .run import SOON, Later, Run


async def select(run: Run) -> list[Choice]:
    """Choices for all ordinals that need one, or UnschedulableError; nothing is written."""
    grown = [ordinal for ordinal in run.plan.refresh if recorded(run.record(ordinal)) != states.SELECTED]
    if not run.plan.select and not waiting(run) and not grown:
        return []
    run.world = without_discards(await load_world(run.api, run.app), run.seen, run.plan)
    check_world(run.app, run.world)
    for ordinal in grown:
        check_grown(run.app, run.world, run.record(ordinal))
    return _choose(run, run.world) if run.plan.select else []


def _choose(run: Run, world: World) -> list[Choice]:
    """Never a node that is left; and whoever leaves later finds a place, too, before the first one goes."""
    rules, wanted = run.leaving.rules, run.plan.select
    fresh = [ordinal for ordinal in wanted if ordinal not in run.leaving.losses]
    try:
        run.behind = node_loss.left_behind(world.disks, world.nodes, run.leaving.lost.rules, run.seen, fresh)
        run.behind.update(leaving.left_data(run.app, world.disks, rules, run.seen, fresh))
        world = rescheduling.without_left(world, run.seen, run.leaving.losses, run.plan)
        behind = {disk["metadata"]["name"] for _loss, disks in run.behind.values() for disk in disks}
        lost = run.leaving.lost.losses.values()
        behind |= {disk["metadata"]["name"] for disk in world.disks if any(keeps(disk, loss) for loss in lost)}
        world = choose.without_disks(world, behind)  # else data is where its replica goes
        world = leaving.without_kept(world, run.seen, {*run.leaving.losses, *run.leaving.later, *run.behind})
        found = choose.choose(run.app, choose.without_nodes(world, rules.nodes), [*wanted, *run.leaving.later])
    except UnschedulableError as exc:
        raise leaving.nowhere(rules, exc) if rules.nodes else exc from None
    return [choice for choice in found if choice.ordinal in wanted]


def waiting(run: Run) -> list[int]:
    """Berths that are written down and not Reserved yet."""
    return [ordinal for ordinal, phase in (run.plan.advance or {}).items() if phase == states.SELECTED]


async def discard(run: Run, ordinals: Sequence[int]) -> None:
    """Give up choices that were never locked and no longer suit the request, and what was begun to be given up."""
    for ordinal in ordinals:
        loss = run.leaving.losses.get(ordinal)
        view = await run.complete(replace(run.views.pop(ordinal), owner=None, loss=loss))
        view, until = given_up(view, run.owner(ordinal))
        driven = await run.driver.drive(view, until)
        run.stopped(ordinal, driven.step)
        run.seen = with_locks(run.seen, driven.view.disks, driven.view.devices)
    gone = sorted(set(run.leaving.gone).intersection(ordinals))
    if gone:
        names = ", ".join(map(run.title, gone))
        raise Later("Moving", f"{names} has left its place: another one is next", SOON / 4)


class Reservation:
    """``_made``: ordinals whose berth was created by this look. ``_lost``: those whose choice is to be made again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._made: set[int] = set()
        self._lost: dict[int, str] = {}

    async def reserve(self, choices: Sequence[Choice]) -> None:
        """Every ordinal Reserved. Raises ConflictError where one was lost: the next look chooses again."""
        for choice in choices:
            await self._write_down(choice)
        pending = sorted({*waiting(self._run), *(choice.ordinal for choice in choices)})
        if pending:
            await self._settle(pending)
        if not self._lost:
            await self._record(pending)
        if self._lost:
            told = "; ".join(f"{self._run.title(ordinal)}: {why}" for ordinal, why in sorted(self._lost.items()))
            raise ConflictError(f"lost a race; choosing again: {told}", 409)

    async def _write_down(self, choice: Choice) -> None:
        """Create the Berth, or take the one that somebody has just created for this replica."""
        run, ordinal = self._run, choice.ordinal
        view = replace(view_of(run.seen, ordinal), berth=None, owner=run.owner(ordinal, chosen=choice))
        if ordinal in run.behind:
            loss, disks = run.behind[ordinal]
            view = replace(view, loss=loss)
            for disk in disks:
                view = view.having(LOCAL_DISK, disk)
        driven = await run.driver.drive(view, there)
        run.stopped(ordinal, driven.step)
        run.views[ordinal] = driven.view
        if driven.made:
            self._made.add(ordinal)

    async def _settle(self, pending: Sequence[int]) -> None:
        """Decide each berth that is written down: it has all its locks, or it is lost and forgotten."""
        run = self._run
        now = await run.api.list(BERTH)
        by_uid = {record["metadata"]["uid"]: record for record in now}
        strangers = self._strangers(by_uid)
        for ordinal in pending:
            view = run.views[ordinal]
            record = by_uid.get(view.berth["metadata"]["uid"]) if view.berth is not None else None
            if record is None:
                self._lost[ordinal] = "its berth was given up by somebody else"
                continue
            unsure = (strangers or ordinal not in self._made) and recorded(record) == states.SELECTED
            refused = self._refused(now, record) if unsure else ""
            view = replace(view, berth=record, owner=run.owner(ordinal, alone=False, refused=refused))
            await self._carry(ordinal, await run.complete(view))

    def _strangers(self, uids: Collection[str]) -> bool:
        """Whether there are berths that the choice did not know of."""
        known = {record["metadata"]["uid"] for record in (self._run.world.berths if self._run.world else ())}
        own = {view.berth["metadata"]["uid"] for view in self._run.views.values() if view.berth is not None}
        return bool(set(uids) - known - own)

    def _refused(self, now: list[Obj], record: Obj) -> str:
        if self._run.world is None:
            return ""
        outcome = choose.still_fits(self._run.app, replace(self._run.world, berths=now), record)
        return "" if outcome.placement is not None else outcome.diagnosis.message()

    async def _record(self, pending: Sequence[int]) -> None:
        """All have their locks: Reserved is recorded for each."""
        for ordinal in pending:
            await self._carry(ordinal, replace(self._run.views[ordinal], owner=self._run.owner(ordinal)))

    async def _carry(self, ordinal: int, view: View) -> None:
        """As far as it comes before volumes and claims; lost where its choice is to be made again."""
        driven = await self._run.driver.drive(view, reserved)
        if not driven.asked:
            refuse(self._run.title(ordinal), driven.step)
        if isinstance(driven.step, Choose):
            self._lost[ordinal] = driven.why
        else:
            self._run.views[ordinal] = driven.view
