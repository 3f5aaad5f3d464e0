"""update/not-ready: seconds that a replica is not Ready while it gets another image, and the writes that this takes.

berth in place and on the same node, beside the RollingUpdate of a StatefulSet and both ways of OpenKruise's Advanced
StatefulSet, in one cluster, one after the other, each with a headless Service. kwok is the kubelet of all (kubelet.py):
a container takes a second to end and a second to be Ready, whether its pod stays or not. So the seconds are no real
node's. What they tell is what a controller, a scheduler and a playbook add to those two; a real node adds to a pod that
is made anew its sandbox, network and volumes, and the pull of an image that it has not.

Not Ready is a pod from when its Ready condition is not True, or it is asked to go, until the pod of its name is Ready,
by the watch of one client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from berth_core.app.observed import ready
from berth_core.model.resources import POD, SERVICE, STATEFUL_SET, Resource
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from berth_kube.reading import Obj

from . import kubelet, open_kruise
from .api_writes import written
from .figures import Figure, median
from .ground import OURS, Ground, say
from .readiness import Seen, by_pod, not_ready
from .update_calls import NODES, PLAIN, app_task, create, plain, roll

REPLICAS, ROUNDS = 3, 3
STOP, START = 1.0, 1.0
#: Seconds in which nothing is written any more about an update that is over.
SETTLES = 3.0
Body = Callable[[int], dict[str, Any]]


class Contender(NamedTuple):
    """``begin`` makes it with image 1, ``update`` brings another; ``selector``: of its pods."""

    name: str
    told: str
    selector: str
    begin: Callable[[Ground], object]
    update: Callable[[Ground, int], object]


class Round(NamedTuple):
    """``seconds``: until the last replica was Ready; ``down``: that each was not Ready; ``writes``: of everybody."""

    seconds: float
    down: list[float]
    writes: float


class Result(NamedTuple):
    """Of all rounds; medians of the round, and of a replica."""

    seconds: float
    down: float
    longest: float
    writes: float


def not_ready_rows(_ground: Ground) -> list[Figure]:
    """update/not-ready."""
    open_kruise.built()
    with Ground(NODES, 1) as ground:
        kubelet.play(ground.cluster, STOP, START)
        with open_kruise.running(ground):
            return list(_figures(_measured(ground, [*_OURS.values(), *_PEERS])))


def _measured(ground: Ground, contenders: list[Contender]) -> dict[str, Result]:
    rounds: dict[str, list[Round]] = {one.name: [] for one in contenders}
    for one in contenders:
        say(f"update/not-ready: {one.told} is made")
        one.begin(ground)
    for number in range(ROUNDS):
        for one in contenders:
            rounds[one.name].append(_round(ground, one, number + 2))
            say(f"update/not-ready: {one.told}: {rounds[one.name][-1]}")
    return {name: _result(found) for name, found in rounds.items()}


def _round(ground: Ground, contender: Contender, image: int) -> Round:
    before = _writes(ground)
    began, seen = asyncio.run(_watched(ground, contender, image))
    time.sleep(SETTLES)
    writes, spans = _writes(ground) - before, not_ready(seen)
    down = by_pod(spans)
    assert len(down) == REPLICAS, f"{contender.told}: not every replica was updated: {down}"
    assert min(down.values()) >= 0.9 * (STOP + START), f"{contender.told}: kwok has not taken its time: {down}"
    return Round(spans[-1].until - began, sorted(down.values()), writes)


async def _watched(ground: Ground, contender: Contender, image: int) -> tuple[float, list[Seen]]:
    """When the update was asked for, and what was seen of its pods since."""
    seen: list[Seen] = []

    def told(pod: Obj, gone: bool = False) -> None:
        seen.append(Seen(time.perf_counter(), pod["metadata"]["name"], not gone and ready(pod)))

    async with KubeClient(config.load(str(ground.cluster.kubeconfig))) as client:
        pods = Informer(client, POD, "default", labels=contender.selector)
        watching = asyncio.ensure_future(pods.run())
        try:
            await pods.wait_synced()
            pods.on(add=told, update=lambda _old, pod: told(pod), delete=lambda pod: told(pod, gone=True))
            began = time.perf_counter()
            await asyncio.to_thread(contender.update, ground, image)
            await asyncio.sleep(0.5)  # the watch has told what the update has seen
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return began, seen


def _writes(ground: Ground) -> float:
    return written(ground.cluster.kubectl("get", "--raw", "/metrics"))


def _result(rounds: list[Round]) -> Result:
    down = [seconds for one in rounds for seconds in one.down]
    writes = median(one.writes for one in rounds) / REPLICAS
    return Result(median(one.seconds for one in rounds), median(down), max(down), writes)


def _figures(found: dict[str, Result]) -> Iterator[Figure]:
    for ours in _OURS.values():
        for peer in _PEERS:
            if ours.name == "in-place" and peer.name == "kruise-recreate":
                continue  # a new pod beside a running one: that is shown by the row before
            name, mine, other = f"update/not-ready/{ours.name}/{peer.name}", found[ours.name], found[peer.name]
            yield Figure(name, mine.down, other.down, "s not Ready", peer.told, _notes(ours, mine, other))
            unit = "writes of everybody a replica"
            yield Figure(name, round(mine.writes, 1), round(other.writes, 1), unit, peer.told)


def _notes(contender: Contender, ours: Result, peer: Result) -> tuple[str, ...]:
    kwok = STOP + START
    beyond = f"berth {ours.down - kwok:.3f} s, peer {peer.down - kwok:.3f} s"
    longest = f"berth {ours.longest - kwok:.3f} s, peer {peer.longest - kwok:.3f} s"
    return (
        f"{contender.told}; medians of {ROUNDS} updates of {REPLICAS} replicas; no seconds of a real node:",
        f"{kwok:g} s of both are kwok's, for a container's end and start; beyond: {beyond}; at the most: {longest}",
        f"from asking to the last replica Ready: berth {ours.seconds:.1f} s, with ansible-playbook and pull pods,",
        f"which run while the old pods serve; peer {peer.seconds:.1f} s",
    )


def _ours(name: str, strategy: str) -> Contender:
    app = f"ours-{name}"

    def play(ground: Ground, image: int) -> None:
        ground.play(OURS, [app_task(app, REPLICAS, image, strategy, "StatefulSet")])

    return Contender(name, f"update_strategy {strategy}", f"berth.dev/app={app}", lambda ground: play(ground, 1), play)


def _peer(name: str, told: str, resource: Resource, body: Body) -> Contender:
    def begin(ground: Ground) -> None:
        made = body(1)
        ground.api.create(SERVICE, _service(made))
        create(ground, resource, made)

    selector = f"{PLAIN}={body(1)['metadata']['name']}"
    return Contender(name, told, selector, begin, lambda ground, image: roll(ground, resource, body(image)))


def _service(body: dict[str, Any]) -> dict[str, Any]:
    """What berth makes for its app, too."""
    spec = {"clusterIP": "None", "selector": body["spec"]["selector"]["matchLabels"]}
    return {"metadata": {"name": body["spec"]["serviceName"], "namespace": "default"}, "spec": spec}


def _kruise(name: str, policy: str) -> Contender:
    told, resource = open_kruise.peer_name(policy), open_kruise.STATEFUL_SET
    return _peer(name, told, resource, lambda image: open_kruise.stateful_set(name, REPLICAS, image, policy))


_OURS = {name: _ours(name, strategy) for name, strategy in (("in-place", "in_place_only"), ("same-node", "same_node"))}
_ROLLING = "rolling-update"
_PEERS = (
    _peer(_ROLLING, "StatefulSet, RollingUpdate", STATEFUL_SET, lambda image: plain(_ROLLING, REPLICAS, image)),
    _kruise("kruise-in-place", open_kruise.IN_PLACE),
    _kruise("kruise-recreate", open_kruise.ANEW),
)
