"""What the extenders of a configuration say of one pod: which nodes will do, how good they are, who may have to go.

Asked by turns.py. As in kube-scheduler: Filter goes from one to the next, each about the nodes that are left; all are
asked to rate at the same time, and who fails to rate gives no scores; who may be ignored is, wherever it fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import NotFoundError
from berth_core.framework.contract import Status
from berth_core.framework.extended import Extended
from berth_core.model import resources as kinds
from berth_core.model.pod import PodInfo
from berth_core.model.preemption import Candidate, VictimFacts
from berth_kube.client import KubeClient
from berth_kube.informer import Informer

from . import messages
from .extender import HttpExtender
from .messages import ExtenderError, Nodes

_log = logging.getLogger(__name__)

Obj = dict[str, Any]


@dataclass
class Whole:
    """Whole objects, of which the caches of the scheduler keep a part: an extender may look at anything."""

    client: KubeClient
    _nodes: Informer | None = None
    _task: asyncio.Task[None] | None = None

    async def pod(self, which: PodInfo | VictimFacts) -> Obj | None:
        """The pod as it is now; None: it is gone."""
        try:
            found = await self.client.get(kinds.POD, which.name, which.namespace)
        except NotFoundError:
            return None
        found["metadata"].pop("managedFields", None)
        return found if found["metadata"]["uid"] == which.uid else None

    async def nodes(self, names: Sequence[str]) -> list[Obj]:
        """Those that are there. A cache of them is filled when somebody asks for the first time."""
        if self._nodes is None:
            self._nodes = Informer(self.client, kinds.NODE)
            self._task = asyncio.ensure_future(self._nodes.run())
        await self._nodes.wait_synced()
        found = (self._nodes.get(name) for name in names)
        return [node for node in found if node is not None]

    async def victims(self, candidates: Sequence[Candidate]) -> dict[str, Obj]:
        """By uid. Those that are gone by now are left out."""
        wanted = {pod.uid: pod for one in candidates for pod in one.victims}
        found = {uid: await self.pod(pod) for uid, pod in wanted.items()}
        return {uid: pod for uid, pod in found.items() if pod is not None}

    async def stop(self) -> None:
        """The cache is kept no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def heard(
    extenders: Sequence[HttpExtender], whole: Whole, pod: Obj, names: Sequence[str], before: Extended
) -> Extended:
    """``before`` with what is said of these nodes. Raises ExtenderError."""
    left, refused = list(names), dict[str, Status]()
    for one in extenders:
        if not left:
            break
        if one.config.filter_verb:
            left, out = await _filtered(one, whole, pod, left)
            refused.update(out)
    found: dict[str, int] = {}
    if len(left) > 1:  # else there is nothing to choose
        rating = [_rated(one, whole, pod, left) for one in extenders if one.config.prioritize_verb]
        for scores in await asyncio.gather(*rating):
            for name, score in scores.items():
                found[name] = found.get(name, 0) + score
    return before.and_now(names, refused, found)


async def elected(
    extenders: Sequence[HttpExtender], whole: Whole, pod: Obj, candidates: Sequence[Candidate], snapshot: Snapshot
) -> Sequence[Candidate]:
    """Of the nodes on which room could be made those that do for all who have a word about it. Raises ExtenderError."""
    for one in extenders:
        if one.config.preempt_verb and candidates:
            candidates = await _elected(one, whole, pod, candidates, snapshot)
    return candidates


async def _filtered(
    one: HttpExtender, whole: Whole, pod: Obj, names: Sequence[str]
) -> tuple[list[str], dict[str, Status]]:
    try:
        nodes = await _nodes(one, whole, names)
        return await one.ask(
            one.config.filter_verb, messages.question(pod, nodes), lambda answer: messages.passing(answer, nodes)
        )
    except ExtenderError as exc:
        _overlook(one, pod, exc)
        return list(names), {}


async def _rated(one: HttpExtender, whole: Whole, pod: Obj, names: Sequence[str]) -> Mapping[str, int]:
    document = messages.question(pod, await _nodes(one, whole, names))
    try:
        return await one.ask(
            one.config.prioritize_verb, document, lambda answer: messages.scores(answer, one.config.weight)
        )
    except ExtenderError as exc:
        _log.warning("pod %s: %s; no node gets scores from it", _key(pod), exc.message)
        return {}


async def _elected(
    one: HttpExtender, whole: Whole, pod: Obj, candidates: Sequence[Candidate], snapshot: Snapshot
) -> Sequence[Candidate]:
    victims = None
    if not one.config.node_cache_capable:
        victims = await whole.victims(candidates)
        candidates = [each for each in candidates if all(pod.uid in victims for pod in each.victims)]
    known = {each.node: _on(snapshot, each) for each in candidates}
    document = messages.preemption(pod, candidates, victims)
    try:
        found = await one.ask(one.config.preempt_verb, document, lambda answer: messages.candidates(answer, known))
        idle = [each.node for each in found if not each.victims]
        if idle and not one.config.ignorable:
            raise ExtenderError(f"{one}: expected at least one victim pod on node {idle[0]!r}")
    except ExtenderError as exc:
        _overlook(one, pod, exc)
        return candidates
    return [each for each in found if each.victims]


def _on(snapshot: Snapshot, candidate: Candidate) -> dict[str, VictimFacts]:
    """The pods that may have to leave a node, by uid. One with a berth is not among them, whoever asks for it."""
    return {pod.uid: pod for pod in (*snapshot.evictable_on(candidate.node), *candidate.victims)}


async def _nodes(one: HttpExtender, whole: Whole, names: Sequence[str]) -> Nodes:
    return Nodes(names, None if one.config.node_cache_capable else await whole.nodes(names))


def _overlook(one: HttpExtender, pod: Obj, exc: ExtenderError) -> None:
    """Raises the error again unless the extender may be ignored."""
    if not one.config.ignorable:
        raise exc
    _log.warning("pod %s: %s; it goes on without", _key(pod), exc.message)


def _key(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
