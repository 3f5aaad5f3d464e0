"""Usage: what nodes and filler tasks' pods really use, as a metrics-server tells it, and the room that is left."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from berth_core.app.task_backend_settings import Settings
from berth_core.errors import BerthError, InputError, NotFoundError
from berth_core.model.fields import objects
from berth_core.model.requests import amount, resource_list
from berth_core.model.resources import NODE_METRICS, POD_METRICS
from berth_core.tasks.account import Charge
from berth_core.tasks.filler import FILLED, FILLER_LABEL, NO_METRICS
from berth_core.tasks.filler_room import Filler, FillerRoom, Node, PodKey, Sample
from berth_core.tasks.offers import Free, Offer
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: A sample that is older says nothing; never less than four looks.
STALE = 120.0
_REMEDY = "filler tasks start when metrics.k8s.io tells what nodes use: see to the metrics-server"


class Usage:
    """``interval``: seconds between two looks; ``fault``: why nothing is known, as reason and message."""

    def __init__(self, client: KubeClient, margin: float, rest: float, interval: float) -> None:
        self._client, self.interval = client, interval
        self._room = FillerRoom(margin, rest, max(STALE, 4 * interval))
        self.fault = ("", "")

    @classmethod
    def of(cls, client: KubeClient, settings: Settings) -> Usage:
        """As the settings say."""
        return cls(client, settings.filler_margin, settings.filler_rest, settings.filler_interval)

    @staticmethod
    def now() -> float:
        """Samples bear the times of other machines."""
        return utc_now().timestamp()

    async def look(self, fillers: Iterable[Filler]) -> None:
        """Ask once. What cannot be read now is not known any more when the last of it is too old."""
        words = ""
        try:
            nodes = (await self._client.list(NODE_METRICS)).items
            pods = (await self._client.list(POD_METRICS, labels=FILLER_LABEL)).items
        except NotFoundError:
            words = "the cluster serves no metrics.k8s.io"
        except BerthError as exc:
            words = exc.message
        else:
            found = {one["metadata"]["name"]: sample for one in nodes for sample in [_sample(one)] if sample}
            uses = {key: used for one in pods for key, used in [_pod(one)] if used}
            self._room.look(found, uses, fillers)
            words = f"of none of {len(nodes)} nodes it is known what it uses now"
        self._told("" if self._room.measured(self.now()) else words)

    def _told(self, words: str) -> None:
        fault = (NO_METRICS, f"{words}; {_REMEDY}") if words else ("", "")
        if fault[0] != self.fault[0]:
            _log.info("filler tasks: %s", fault[1] or "what nodes use is known again")
        self.fault = fault

    def forget(self) -> None:
        """Nobody looks any more."""
        self.fault = ("", "")

    def left(self, node: str) -> None:
        """A filler task has had to go from that node."""
        self._room.left(node, self.now())

    def whole(self, nodes: Mapping[str, Node]) -> dict[str, Free]:
        """What filler tasks could have of each node if nobody used anything."""
        return self._room.whole(nodes)

    def offers(self, nodes: Mapping[str, Node], fillers: Iterable[Filler]) -> list[Offer]:
        """The room on each node where there is some."""
        return self._room.offers(self.now(), nodes, fillers)

    def gives_way(self, nodes: Mapping[str, Node], fillers: Iterable[Filler]) -> list[Charge]:
        """Who goes, as others use what they reserved."""
        return self._room.gives_way(self.now(), nodes, fillers)


def _sample(metrics: Obj) -> Sample | None:
    try:
        at = datetime.fromisoformat(str(metrics.get("timestamp"))).timestamp()
        return Sample(at, _used(metrics))
    except (InputError, ValueError) as exc:
        _log.debug("NodeMetrics %s cannot be read: %s", metrics["metadata"].get("name"), exc)
        return None


def _pod(metrics: Obj) -> tuple[PodKey, Free]:
    meta = metrics["metadata"]
    key, sums = (str(meta.get("namespace")), str(meta.get("name"))), dict.fromkeys(FILLED, 0)
    try:
        for one in objects(metrics, "containers"):
            for name, value in _used(one).items():
                sums[name] += value
    except InputError as exc:
        _log.debug("PodMetrics %s/%s cannot be read: %s", *key, exc)
        return key, {}
    return key, sums


def _used(parent: Mapping[str, Any]) -> Free:
    listed = resource_list(parent, "usage", "usage")
    return {name: amount(name, listed.get(name, 0)) for name in FILLED}
