"""What must hold when a scheduler is done: pure, from the pods as they are then. AssertionError says what does not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from berth_core.model.quantity import bytes_, cpu_milli
from berth_dev.kwok import Shape

Obj = dict[str, Any]


def node_of(pod: Obj) -> str:
    """Its node; empty while it has none."""
    return str(pod["spec"].get("nodeName") or "")


def zone_of(node: str, shape: Shape) -> str:
    """The zone that a fake node of that shape has."""
    return f"zone-{int(node.removeprefix(shape.prefix)) % shape.zones}"


def check_bound(pods: Sequence[Obj], names: Collection[str], shape: Shape) -> None:
    """Each of the names has a node, and no node has more than it can take."""
    nodes = {pod["metadata"]["name"]: node_of(pod) for pod in pods}
    without = [name for name in names if not nodes.get(name)]
    assert not without, f"{len(without)} pods are not bound, {without[0]} among them"
    counts: Counter[str] = Counter()
    cpu: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for pod in pods:
        counts[node_of(pod)] += 1
        for container in pod["spec"]["containers"]:
            requests = container["resources"].get("requests") or {}
            cpu[node_of(pod)] += cpu_milli(requests.get("cpu", 0))
            memory[node_of(pod)] += bytes_(requests.get("memory", 0))
    room = ((counts, shape.pods, "pods"), (cpu, cpu_milli(shape.cpu), "m of cpu"), (memory, bytes_(shape.memory), "B"))
    for asked, limit, what in room:
        node, most = asked.most_common(1)[0]
        assert most <= limit, f"{node} has {most} {what}, of {limit}"


def by_app(pods: Sequence[Obj]) -> dict[str, list[str]]:
    """The nodes of the pods of each application (label app)."""
    found: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        found[pod["metadata"]["labels"]["app"]].append(node_of(pod))
    return found


def check_spread(pods: Sequence[Obj], zones: Mapping[str, str], most: int) -> int:
    """The most pods of one application on one node. In zones their numbers differ by ``most`` at the most.

    ``zones``: of every node.
    """
    together = 0
    for app, nodes in by_app(pods).items():
        counts = Counter(dict.fromkeys(zones.values(), 0))
        counts.update(zones[node] for node in nodes)
        skew = max(counts.values()) - min(counts.values())
        assert skew <= most, f"{app}: zones differ by {skew}, not by {most}: {dict(counts)}"
        together = max(together, *Counter(nodes).values())
    return together


def check_apart(pods: Sequence[Obj]) -> None:
    """No two pods of one application are on one node."""
    for app, nodes in by_app(pods).items():
        node, together = Counter(nodes).most_common(1)[0]
        assert together == 1, f"{app}: {together} pods are on {node}"


def check_volumes(pods: Sequence[Obj], claims: Sequence[Obj], volumes: Sequence[Obj]) -> None:
    """Each pod's claim is bound to a volume of its own, which is on the pod's node.

    A volume is where its path is: on the disk (``berth.dev/local-disk``) or, without such an annotation, its own name.
    """
    known = {one["metadata"]["name"]: one for one in volumes}
    volume_of = {claim["metadata"]["name"]: (claim["spec"].get("volumeName") or "") for claim in claims}
    taken: dict[str, str] = {}
    for pod in pods:
        claim, name = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], pod["metadata"]["name"]
        volume = known.get(volume_of.get(claim, ""))
        assert volume is not None, f"{name}: its claim {claim} is not bound"
        assert _reached_from(volume) == [node_of(pod)], f"{name} is on {node_of(pod)}, its volume is elsewhere"
        disk = (volume["metadata"].get("annotations") or {}).get("berth.dev/local-disk") or volume["metadata"]["name"]
        assert disk not in taken, f"{disk} was given to {taken[disk]} and to {name}"
        taken[disk] = name


def _reached_from(volume: Obj) -> list[str]:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [value for each in term["matchExpressions"] for value in each["values"]]
