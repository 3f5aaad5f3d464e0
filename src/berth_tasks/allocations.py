"""Allocations: what was given to tasks, on which nodes it is, and what is free beside it.

An amount is taken in the moment in which it is given, before the pod is made; the account gives it back when the pod is
over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from berth_core.model import times
from berth_core.model.pod import Amounts
from berth_core.tasks import offers
from berth_core.tasks.account import Account, ByCharge, Charge
from berth_core.tasks.admission import Verdict
from berth_core.tasks.filler_room import Filler, Node
from berth_core.tasks.offers import Offer
from berth_core.tasks.pods import PENDING, PodState
from berth_core.tasks.reclaim import Held
from berth_core.tasks.snapshot import Difference
from berth_kube.clocks import boot_clock, utc_now

from .evictions import Evictions
from .nodes import ARRIVES, Nodes
from .placed import Placed
from .usage import Usage


class Allocations:
    """``queue_of``: the queue of a task, by its uid."""

    def __init__(self, nodes: Nodes, usage: Usage, evictions: Evictions, queue_of: Callable[[str], str]) -> None:
        self._nodes, self._usage, self._evictions, self._queue_of = nodes, usage, evictions, queue_of
        self.account = Account()
        self._taken = Placed(self._place_of)
        self.account.changed = self._taken.look
        #: Tasks whose first pod this process makes: True until it has run.
        self._awaited: dict[str, bool] = {}
        #: The node of what is held, and of what has taken the place of that; a pod's own counts more.
        self._placed: dict[Charge, str] = {}
        #: The pods of what was given, where they are known.
        self._pods: ByCharge[PodState] = ByCharge()
        #: When what their pods use is measured, on a clock that nobody can set: of those that began a moment ago.
        self._measured: ByCharge[float] = ByCharge()
        self._swept = boot_clock()
        #: Called when there is a pod that is not over, and when the first one of a task runs.
        self.has_pod: Callable[[PodState], None] = lambda _pod: None
        self.ran: Callable[[PodState], None] = lambda _pod: None
        #: Called when a pod that is no filler's has come, and when a filler's that ran has had to go, and why.
        self.arrived: Callable[[], None] = lambda: None
        self.gave_way: Callable[[PodState, str], None] = lambda _pod, _why: None

    # -- what is given ---------------------------------------------------------------------------------------------

    def place(self, charge: Charge, node: str) -> None:
        """What is given is on that node, until a pod says where it is itself."""
        self._placed[charge] = node
        self._taken.look(charge)

    def displace(self, charge: Charge) -> None:
        """It is on no node any more."""
        self._placed.pop(charge, None)
        self._taken.look(charge)

    def expect(self, uid: str) -> None:
        """The first pod of a task is about to be made."""
        self._awaited.setdefault(uid, True)

    def forget(self, uid: str) -> None:
        """The task is gone."""
        self._awaited.pop(uid, None)

    def pod(self, charge: Charge) -> PodState | None:
        """The pod of what was given; None where it is not known."""
        return self._pods.get(charge)

    def follow(self, changes: Sequence[Difference]) -> None:
        """For the store: what became of pods is in the account at once."""
        self.account.follow(changes, self._queue_of)
        self._sweep()
        for old, new in changes:
            if new is not None and new.phase != PENDING and self._awaited.get(new.task_uid):
                self._awaited[new.task_uid] = False
                self.ran(new)
            if new is not None and not new.over:
                self._here(new)
            elif old is not None or new is not None:
                charge = (new or old).charge  # type: ignore[union-attr]
                gone = self._pods.pop(charge, None)
                self._placed.pop(charge, None)
                self._measured.pop(charge, None)
                self._taken.look(charge)
                if gone is not None:
                    self._left(gone, new)
                    self._evictions.forget(gone)

    def _here(self, pod: PodState) -> None:
        old = self._pods.get(pod.charge)
        self._pods[pod.charge] = pod
        self._taken.look(pod.charge)
        if pod.started and (old is None or not old.started):
            age = max(0.0, times.age(pod.started, utc_now()) or 0.0)
            if age < ARRIVES:
                self._measured[pod.charge] = boot_clock() + ARRIVES - age
        self.has_pod(pod)
        if not pod.filler:
            self.arrived()

    def _sweep(self) -> None:
        """Forget now and then which pods were new: most of those that are there run for long."""
        now = boot_clock()
        if now >= self._swept + ARRIVES:
            self._swept = now
            before, self._measured = self._measured, ByCharge()
            self._measured.update({charge: until for charge, until in before.items() if now < until})

    def _is_new(self, charge: Charge, now: float) -> bool:
        """Whether what its pod uses is not measured yet."""
        pod = self._pods.get(charge)
        return pod is None or not pod.started or now < self._measured.get(charge, now)

    def _left(self, gone: PodState, end: PodState | None) -> None:
        """A pod has ended, or is there no more: whether it is a filler's that ran and has had to go."""
        evicted = gone in self._evictions
        if gone.filler and gone.started and (evicted or (end is not None and end.details.disrupted)):
            self._usage.left(gone.node)
            self.gave_way(gone, "NoRoom" if evicted or end is None else end.details.reason or "Disrupted")

    # -- what is free beside it ------------------------------------------------------------------------------------

    def offers(self) -> list[Offer]:
        """What is free on each node now, less what was given to tasks: as `revive_offers` says it, without the list."""
        found = [Offer(name, left) for name, left in sorted(self._nodes.free().items())]
        self._taken.subtract(found)
        return found

    def _place_of(self, key: Charge) -> tuple[str, Amounts] | None:
        """The node of what was given, empty where that is not known; None where no node reserves it."""
        entry = self.account.entry(key)
        if entry is None or entry.filler:
            return None
        pod, node, _going = self._where(key)
        return node or (pod.details.nominated if pod is not None else ""), entry.requests

    def revive_offers(self) -> tuple[list[Offer], list[Held]]:
        """What is free on each node now, less what was given to tasks; and that."""
        free = self._nodes.free()
        found = [Offer(name, left) for name, left in sorted(free.items())]
        held: list[Held] = []
        unplaced: list[Held] = []
        for key, entry in self.account.entries().items():
            if entry.filler:
                continue
            pod, node, going = self._where(key)
            at, started = (node or pod.details.nominated, pod.started) if pod is not None else (node, "")
            one = Held(key, entry.queue, entry.requests, at, started, going, bool(node))
            if at in free:
                offers.take(free[at], entry.requests)
            elif not at:
                unplaced.append(one)
                continue
            held.append(one)
        # Where a pod without a node will be nobody knows: it counts where there is room for it.
        held += [one._replace(node=offers.subtract(found, one.requests)) for one in unplaced]
        return found, held

    def _where(self, key: Charge) -> tuple[PodState | None, str, bool]:
        """The pod of what was given, its node where that is known, and whether it is on its way out."""
        pod = self._pods.get(key)
        node = (pod.node if pod is not None else "") or self._placed.get(key, "")
        return pod, node, pod is not None and (pod.going or pod in self._evictions)

    def fillers(self) -> list[Filler]:
        """What was given of the room that others do not use."""
        found = []
        for key, entry in self.account.entries().items():
            if entry.filler:
                pod, node, going = self._where(key)
                name, started = ((pod.namespace, pod.name), pod.started) if pod is not None else (("", ""), "")
                found.append(Filler(key, name, node, entry.requests, started, going))
        return found

    def filled(self, held: Iterable[Held] | None = None, verdict: Verdict | None = None) -> dict[str, Node]:
        """What filler tasks have to know of nodes. Other tasks, those that start now among them, are others there."""
        found, now = self._nodes.filled(), boot_clock()
        others = [
            (one.node, one.requests, self._is_new(one.charge, now))
            for one in (self.revive_offers()[1] if held is None else held)
        ]
        if verdict is not None:
            begun = (one for one in verdict.admitted if one.key in verdict.nodes)
            others += [(verdict.nodes[one.key], one.requests, True) for one in begun]
        for name, requests, new in others:
            node = found.get(name)
            if node is not None:
                sums = dict(node.arriving)
                for each, value in requests if new else ():
                    sums[each] = sums.get(each, 0) + value
                found[name] = node._replace(pods=node.pods + 1, arriving=sums)
        return found
