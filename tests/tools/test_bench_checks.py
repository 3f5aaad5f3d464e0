"""A bench of the scheduler prints no figure of a wrong result: each kind of wrong one is found."""

from __future__ import annotations

import pytest

from berth_dev.kwok import Shape
from tests.bench.sched_checks import check_apart, check_bound, check_spread, check_volumes, zone_of
from tests.bench.sched_pods import CPUS, MEMORIES, pod, shaped, with_claim

SHAPE = Shape(cpu="1", memory="1Gi", pods=3, prefix="n-", zones=2)
ZONES = {f"n-{index}": zone_of(f"n-{index}", SHAPE) for index in range(4)}


def on(node: str, number: int, **options):
    made = pod(number, **options)
    made["spec"]["nodeName"] = node
    return made


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([on("n-0", 0)], "1 pods are not bound, pod-1"),
        ([on("n-0", 0), on("", 1)], "1 pods are not bound, pod-1"),
        ([on("n-0", number) for number in range(4)], "n-0 has 4 pods, of 3"),
        ([on("n-0", 0, cpu="600m"), on("n-0", 1, cpu="600m")], "n-0 has 1200 m of cpu, of 1000"),
        ([on("n-0", 0, memory="600Mi"), on("n-0", 1, memory="600Mi")], "n-0 has .* B, of"),
    ],
)
def test_bound_and_no_node_too_full(pods, words) -> None:
    check_bound([on("n-0", 0), on("n-1", 1)], ["pod-0", "pod-1"], SHAPE)
    with pytest.raises(AssertionError, match=words):
        check_bound(pods, ["pod-0", "pod-1"], SHAPE)


def test_spread() -> None:
    assert check_spread([on("n-0", 0), on("n-1", 1), on("n-0", 2)], ZONES, most=1) == 2
    with pytest.raises(AssertionError, match="zones differ by 2"):
        check_spread([on("n-0", 0), on("n-2", 1)], ZONES, most=1)


def test_apart() -> None:
    check_apart([on("n-0", 0, app="a"), on("n-0", 1, app="b")])
    with pytest.raises(AssertionError, match="a: 2 pods are on n-0"):
        check_apart([on("n-0", 0, app="a"), on("n-0", 1, app="a")])


def volume(name: str, node: str, disk: str = ""):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    annotations = {"berth.dev/local-disk": disk} if disk else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
    }


@pytest.mark.parametrize(
    ("claims", "volumes", "words"),
    [
        ({"claim-0": "a", "claim-1": ""}, [volume("a", "n-0")], "pod-1: its claim claim-1 is not bound"),
        ({"claim-0": "a", "claim-1": "b"}, [volume("a", "n-0"), volume("b", "n-0")], "pod-1 is on n-1, its volume is"),
        (
            {"claim-0": "a", "claim-1": "b"},
            [volume("a", "n-0", "disk"), volume("b", "n-1", "disk")],
            "disk was given to pod-0 and to pod-1",
        ),
    ],
)
def test_volumes(claims, volumes, words) -> None:
    pods = []
    for number in range(2):
        pods.append(with_claim(number))
        pods[-1]["spec"]["nodeName"] = f"n-{number}"
    found = [{"metadata": {"name": name}, "spec": {"volumeName": named}} for name, named in claims.items()]
    with pytest.raises(AssertionError, match=words):
        check_volumes(pods, found, volumes)


def test_shapes_are_different() -> None:
    """Name and application apart."""
    shapes = [{**shaped(number), "metadata": {}} for number in range(CPUS * MEMORIES)]
    assert len({str(one) for one in shapes}) == CPUS * MEMORIES
