"""Requests that an application costs, counted on the wire, beside kubernetes.core keeping the same objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.resources import (
    POD,
    PV,
    PVC,
    SERVICE,
    STATEFUL_SET,
    Resource,
)

from .counting import Counting, counting_proxy
from .figures import Figure
from .ground import OURS, PEER, Ground, peer_name, stateful_app
from .tasks import cleaned

APP, BEFORE, AFTER = "counted", 3, 5
Definitions = list[dict[str, Any]]


def first(ground: Ground) -> list[Figure]:
    return _all(ground)[:1]


def rerun(ground: Ground) -> list[Figure]:
    return _all(ground)[1:2]


def scale(ground: Ground) -> list[Figure]:
    return _all(ground)[2:]


def _all(ground: Ground) -> list[Figure]:
    """The three stories are one: first, again, more replicas. Told once and remembered."""
    known = ground.__dict__.get("requests")
    if known is None:
        with counting_proxy(ground.cluster.kubeconfig, ground.folder) as (counting, kubeconfig):
            known = ground.__dict__["requests"] = _story(ground, counting, kubeconfig)
    return known


def _story(ground: Ground, counting: Counting, kubeconfig: Path) -> list[Figure]:
    def count(side: Path, task: dict[str, Any], changed: bool) -> tuple[int, str]:
        counting.reset()
        _seconds, run = ground.play(side, [task], kubeconfig)
        assert bool(run.last["changed"]) is changed, run.output
        if side == OURS and not changed:
            assert counting.writes == 0, counting.told()
            assert set(counting.listed.values()) <= {1}, f"a kind is listed twice: {counting.listed}"
            assert counting.counts["discovery"] == 0, counting.told()
        return counting.total, counting.told()

    small, large = stateful_app(APP, BEFORE), stateful_app(APP, AFTER)
    ours = [count(OURS, small, True)]
    few = _definitions(ground)
    ours += [count(OURS, small, False), count(OURS, large, True)]
    many = _definitions(ground)
    ground.play(OURS, [stateful_app(APP, AFTER, state="absent")])
    _wait_gone(ground)
    peer = [count(PEER, _k8s(few), True), count(PEER, _k8s(few), False), count(PEER, _k8s(many), True)]
    names = ("requests/first", "requests/rerun", "requests/scale")
    return [
        Figure(name, mine[0], theirs[0], "requests", peer_name("k8s"), (f"ours: {mine[1]}", f"peer: {theirs[1]}"))
        for name, mine, theirs in zip(names, ours, peer, strict=True)
    ]


def _k8s(definitions: Definitions) -> dict[str, Any]:
    return {"kubernetes.core.k8s": {"state": "present", "resource_definition": definitions}}


def _definitions(ground: Ground) -> Definitions:
    """What the application consists of, as somebody would have to write it down for kubernetes.core.

    Without Berths and locks: those have no counterpart there.
    """
    found: Definitions = []
    for kind in (PV, PVC, SERVICE, STATEFUL_SET):
        for live in _objects(ground, kind):
            body = cleaned(live)
            body["metadata"].pop("finalizers", None)
            body["metadata"].pop("ownerReferences", None)
            (body["spec"].get("claimRef") or {}).pop("uid", None)
            (body["spec"].get("claimRef") or {}).pop("resourceVersion", None)
            found.append(body)
    return found


def _objects(ground: Ground, kind: Resource) -> Definitions:
    mine = [item for item in ground.api.list(kind) if _belongs(item)]
    assert mine, f"the application has no {kind.kind}"
    return mine


def _belongs(item: dict[str, Any]) -> bool:
    return (item["metadata"].get("labels") or {}).get("berth.dev/app") == APP


def _wait_gone(ground: Ground) -> None:
    import time

    deadline = time.monotonic() + 60
    while any(_belongs(item) for kind in (STATEFUL_SET, POD, PVC, PV) for item in ground.api.list(kind)):
        assert time.monotonic() < deadline, "the application is still there"
        time.sleep(0.2)
