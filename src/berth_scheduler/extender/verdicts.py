"""What the extender says of nodes: which have the disks and devices that a pod asks for, and how well they fit.

Called by command.py for filter, prioritize and preempt. Only what a stock kube-scheduler cannot know is judged
(LocalDiskFit, LocalDeviceFit, the node of the pod's own Berth). A pod that asks for none of it passes untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth_core.app.asking import Ask, ask
from berth_core.errors import BerthError, StateError
from berth_core.framework.cycle import Outcome, place
from berth_core.framework.extended import HIGHEST
from berth_core.framework.profile import Profile
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import make_profile

from ..cluster import Cluster
from ..evaluations import Evaluations
from .holds import Holds
from .messages import Asked, Obj, Preempting, filtered, preempted, prioritized

#: Everything else kube-scheduler decides itself.
PROFILE = make_profile("extender", weights=(("LocalDiskFit", 1), ("LocalDeviceFit", 1)))
UNKNOWN = "node(s) were not known to the extender yet"
MAX_SCORE = 100


@dataclass(frozen=True)
class Verdicts:
    """``passing``: nodes and their scores; None: every node, as the pod asks for nothing of berth.

    ``failed``: reasons of the known nodes that do not pass.
    """

    passing: Mapping[str, int] | None
    failed: Mapping[str, str] = field(default_factory=dict)
    otherwise: str = UNKNOWN

    def of(self, names: list[str]) -> tuple[dict[str, int], dict[str, str]]:
        """Split nodes into those that pass, with scores, and those that do not, with reasons."""
        if self.passing is None:
            return dict.fromkeys(names, 0), {}
        passing = {name: self.passing[name] for name in names if name in self.passing}
        return passing, {name: self.failed.get(name, self.otherwise) for name in names if name not in passing}


class Judge:
    """Decides from the caches alone; nothing waits. ``evaluations``: where it is counted what was asked of plugins."""

    def __init__(
        self, cluster: Cluster, holds: Holds, evaluations: Evaluations | None = None, profile: Profile = PROFILE
    ) -> None:
        self._cluster, self._holds, self._profile, self._evaluations = cluster, holds, profile, evaluations
        self._last: tuple[object, Verdicts] = ((), Verdicts(None))

    def filter(self, question: Asked) -> Obj:
        """ExtenderFilterResult. Raises BerthError for a pod that cannot be read."""
        return filtered(question, *self.judge(question.pod).of(question.names))

    def prioritize(self, question: Asked) -> list[Obj]:
        """HostPriorityList."""
        return prioritized(question, self.judge(question.pod).of(question.names)[0])

    def preempt(self, question: Preempting) -> Obj:
        """ExtenderPreemptionResult: the disk of a victim stays its claim's, so a node must do as it stands."""
        return preempted(question, self.judge(question.pod).of(list(question.victims))[0])

    def judge(self, pod: Obj) -> Verdicts:
        """The verdict on every node that is known. What filter has found out, prioritize need not find out again."""
        if self._now(pod) != self._last[0]:
            verdicts = self._judge_anew(pod)
            self._last = (self._now(pod), verdicts)
        return self._last[1]

    def _now(self, pod: Obj) -> object:
        """Changes with everything that a verdict is made of."""
        meta, snapshot = pod["metadata"], self._cluster.snapshot
        version = (meta.get("uid"), meta.get("resourceVersion"))
        return (*version, pod if None in version else None, snapshot.generation)

    def _judge_anew(self, pod: Obj) -> Verdicts:
        info = PodInfo.from_manifest(pod)
        asked = self.asked(info)
        if not ours(asked):
            return Verdicts(None)
        if asked.problem:
            return Verdicts({}, {}, asked.problem)
        self._holds.release(info)
        try:
            return self._judge(asked)
        finally:
            self._holds.renew(info)

    def asked(self, info: PodInfo) -> Ask:
        """What the pod asks for. Raises StateError while the watch has not shown one of its claims."""
        claims = self._cluster.snapshot.volumes.claims
        for volume in info.volumes:
            if (info.namespace, volume.claim) not in claims:
                raise StateError(f'persistentvolumeclaim "{volume.claim}" is not known to the extender yet')
        return ask(self._cluster, info)

    def place(self, asked: Ask, node: str | None, explain: bool = False) -> Outcome:
        """Ask the engine. A pod with a Berth is looked at there, and the berth's own room is no obstacle."""
        snapshot, berth = self._cluster.snapshot, asked.berth
        if berth is None:
            return self._ask(asked, node, explain)
        kept = snapshot.set_aside(berth.namespace, berth.name)
        try:
            return self._ask(asked, berth.node_name, explain)
        finally:
            snapshot.put_back(berth.namespace, berth.name, kept)

    def _ask(self, asked: Ask, node: str | None, explain: bool) -> Outcome:
        outcome = place(self._profile, self._cluster.snapshot, asked.request, explain, only_node=node, hints=False)
        if self._evaluations is not None:
            self._evaluations.add(self._profile.name, outcome.counts.filter, outcome.counts.score)
        return outcome

    def _judge(self, asked: Ask) -> Verdicts:
        outcome = self.place(asked, None, explain=True)
        diagnosis = outcome.diagnosis
        passing = dict.fromkeys(outcome.feasible, HIGHEST) if outcome.placement is not None else {}
        for name, score in outcome.scores.items():
            if score.plugins:
                passing[name] = score.total * HIGHEST // (len(score.plugins) * MAX_SCORE)
        failed = {name: ", ".join(one.reasons) for name, one in diagnosis.nodes.items()}
        if asked.berth is not None:
            return Verdicts(
                passing, failed, f"node(s) didn't hold the pod's Berth, which is on {asked.berth.node_name}"
            )
        return Verdicts(passing, failed, diagnosis.rejected or UNKNOWN)


def ours(asked: Ask) -> bool:
    """Whether the pod asks for anything that berth knows better than kube-scheduler."""
    return bool(asked.problem or asked.berth or asked.request.disks or asked.request.devices)


def error_of(exc: BerthError) -> Obj:
    """An answer of filter or bind that says why there is none."""
    return {"Error": exc.message}
