"""FillerAdmission: which of the filler tasks start, and on which nodes their pods can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from berth_core.model.pod import PodInfo
from berth_core.tasks import offers
from berth_core.tasks.account import Charge
from berth_core.tasks.admission import Ledger, Verdict, admit
from berth_core.tasks.filler import NOT_FILLER, unfit
from berth_core.tasks.filler_room import Filler, Node
from berth_core.tasks.policies import Policies
from berth_core.tasks.task import Task

from .nodes import Nodes
from .usage import Usage


class FillerAdmission:
    """Asked in each round, when all other tasks have had their turn."""

    def __init__(self, nodes: Nodes, usage: Usage, policies: Policies) -> None:
        self._nodes, self._usage, self._policies = nodes, usage, policies
        #: Nodes on which nobody has placed a filler task's pod, by its uid.
        self._avoided: dict[str, set[str]] = {}

    def admit(
        self,
        wanted: Sequence[offers.Wants],
        ledger: Ledger,
        nodes: Mapping[str, Node],
        fillers: Sequence[Filler],
        most: int,
    ) -> Verdict:
        """Which of them start: at most ``most``."""
        why = {one.key: unfit(one) for one in wanted}
        fitting = [one for one in wanted if not why[one.key]]
        room, whole = self._usage.offers(nodes, fillers), self._usage.whole(nodes)
        verdict = admit(fitting, ledger, whole, room, self._policies, ways=self._ways(), most=most)
        verdict.waiting.update((key, (NOT_FILLER, words)) for key, words in why.items() if words)
        return verdict

    def _ways(self) -> Callable[[offers.Wants], Collection[str]]:
        """On which nodes a task's pod can be; worked out once for each template."""
        known: dict[str, frozenset[str]] = {}

        def ways(task: offers.Wants) -> Collection[str]:
            if not isinstance(task, Task):
                return ()
            if task.content not in known:
                meta = {"name": "task", "namespace": task.namespace}
                pod = PodInfo.from_manifest({"metadata": meta, "spec": task.template["spec"]})
                known[task.content] = self._nodes.ways(pod)
            found = known[task.content]
            return found - self._avoided.get(task.uid, set()) or found

        return ways

    def avoid(self, charge: Charge, node: str) -> None:
        """Nobody has placed this filler task's pod on that node: the next one is sent elsewhere, where it can be."""
        self._avoided.setdefault(charge[0], set()).add(node)

    def forget(self, uid: str) -> None:
        """The task is gone."""
        self._avoided.pop(uid, None)
