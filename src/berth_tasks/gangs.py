"""Who of a gang does not wait: what is known of the members of Tasks' gangs and of batches, counted for each round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from berth_core.tasks.gangs import Members
from berth_core.tasks.reclaim import Held
from berth_core.tasks.task import Task


class Gangs:
    """Told of each Task by ``know`` and of each batch by ``know_batch``, as the backend is."""

    def __init__(self) -> None:
        self._key_of: dict[str, str] = {}
        #: When the members of a gang ended that have, by their uids.
        self._ends: dict[str, dict[str, str]] = {}
        self._ended_of: dict[str, Callable[[], int]] = {}

    def know(self, task: Task) -> None:
        """A Task as it is now."""
        if self._key_of.get(task.uid, "") != task.gang_key:
            self.forget(task.uid)
        if task.gang is not None:
            self._key_of[task.uid] = task.gang_key
            if task.status.final:
                self._ends.setdefault(task.gang_key, {})[task.uid] = task.status.finished

    def know_batch(self, uid: str, ended: Callable[[], int]) -> None:
        """A batch, and how many of its elements have ended."""
        self._ended_of[uid] = ended

    def forget(self, uid: str) -> None:
        """The Task or batch is gone."""
        self._ended_of.pop(uid, None)
        ends = self._ends.get(self._key_of.pop(uid, ""), {})
        ends.pop(uid, None)

    def members(self, waiting: Iterable[Task], held: Iterable[Held]) -> dict[str, Members]:
        """Of each gang with members that wait: those that do not.

        Of Tasks those count as ended that did so since the first of the waiting ones was made: a gang of the same name
        may have run long before.
        """
        oldest: dict[str, str] = {}
        for task in waiting:
            if task.gang is not None:
                oldest[task.gang_key] = min(task.created, oldest.get(task.gang_key, task.created))
        if not oldest:
            return {}
        placed: dict[str, set[str]] = {}
        pending: dict[str, set[str]] = {}
        for one in held:
            uid = one.charge[0]
            key = self._key_of.get(uid) or uid.rpartition(".")[0]
            if key in oldest:
                (placed if one.placed else pending).setdefault(key, set()).add(uid)
        return {
            key: Members(
                len(placed.get(key, ())),
                len(pending.get(key, set()) - placed.get(key, set())),
                self._ended(key, since),
            )
            for key, since in oldest.items()
        }

    def _ended(self, key: str, since: str) -> int:
        ended = self._ended_of.get(key)
        return ended() if ended is not None else sum(at >= since for at in self._ends.get(key, {}).values())
