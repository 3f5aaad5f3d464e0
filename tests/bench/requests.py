"""Requests that an application costs, counted on the wire, beside kubernetes.core keeping the same objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    POD,
    PV,
    PVC,
    STATEFUL_SET,
)

from .counting import Counting, counting_proxy
from .figures import Figure
from .ground import OURS, PEER, Ground, peer_name, stateful_app
from .objects import belongs, definitions, k8s

APP, BEFORE, AFTER = "counted", 3, 5


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
    few = definitions(ground, APP)
    ours += [count(OURS, small, False), count(OURS, large, True)]
    many = definitions(ground, APP)
    ground.play(OURS, [stateful_app(APP, AFTER, state="absent")])
    _wait_gone(ground)
    peer = [count(PEER, k8s(few), True), count(PEER, k8s(few), False), count(PEER, k8s(many), True)]
    names = ("requests/first", "requests/rerun", "requests/scale")
    return [
        Figure(name, mine[0], theirs[0], "requests", peer_name("k8s"), (f"berth: {mine[1]}", f"peer: {theirs[1]}"))
        for name, mine, theirs in zip(names, ours, peer, strict=True)
    ]


def _wait_gone(ground: Ground) -> None:
    import time

    deadline = time.monotonic() + 60
    while any(belongs(item, APP) for kind in (STATEFUL_SET, POD, PVC, PV) for item in ground.api.list(kind)):
        assert time.monotonic() < deadline, "the application is still there"
        time.sleep(0.2)
