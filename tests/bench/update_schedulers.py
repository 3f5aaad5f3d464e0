"""update/calls-100 and update/calls-5000: score calls, and filter calls on other nodes than a replica's own, that an
update of 3 and of 30 replicas on so many nodes causes.

Three apps of berth get another image with same_node, so that each of their pods is made anew: one by the stock
kube-scheduler, which the policy berth-node-affinity tells the node; one by berth's scheduler, which looks at the node
of the Berth; one by kube-scheduler with berth's extender, whose own calls count too. The peer is a plain StatefulSet
under kube-scheduler: its RollingUpdate chooses among all nodes for each pod. All by exact counters, in one run.
"""

from __future__ import annotations

import re
import ssl
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import yaml

from berth_core.config.stock import ExtenderAddress, with_extender
from tests.daemons.scheduler.extending import Extender
from tests.support.tcp import free_port

from .figures import Figure
from .ground import OURS, Ground, say
from .sched_contenders import program, stock_configuration, without_election
from .update_calls import (
    PEER,
    SIZES,
    Calls,
    Read,
    app_task,
    calls,
    came_home,
    counted,
    kube_scheduler,
    places,
    plain_rolls,
    told,
    told_of_peer,
)

OWN, EXTENDED = "berth-scheduler", "with-extender"
PATIENCE = 300.0
_QUESTIONS = re.compile(r'^berth_extender_requests_total\{[^}]*verb="filter"[^}]*\} (\S+)$', re.MULTILINE)


def on_100(_ground: Ground) -> list[Figure]:
    """update/calls-100."""
    return _rows(100)


def on_5000(_ground: Ground) -> list[Figure]:
    """update/calls-5000."""
    return _rows(5000)


def _rows(nodes: int) -> list[Figure]:
    with Ground(nodes, 1) as ground:
        peers = {replicas: plain_rolls(ground, replicas) for replicas in SIZES}
        found = {"stock": _updated(ground, "stock", [partial(kube_scheduler, ground)])}
        with _own(ground) as reads:
            found["scheduler"] = _updated(ground, "scheduler", reads, schedulerName=OWN)
        with _extended(ground) as reads:
            found["extender"] = _updated(ground, "extender", reads, schedulerName=EXTENDED)
    return [
        _figure(f"update/calls-{nodes}/{who}/{replicas}", nodes, replicas, by_size[replicas], peers[replicas])
        for replicas in SIZES
        for who, by_size in found.items()
    ]


class Cost(NamedTuple):
    """Of one update: ``found`` by each process that was asked; ``home``: pods made anew on the node of before."""

    found: list[Calls]
    home: int


def _figure(name: str, nodes: int, replicas: int, cost: Cost, peer: Calls) -> Figure:
    found, home = cost
    assert home == replicas, cost
    assert not any(one.scores for one in found), cost
    # The extender has no plugin to ask about a pod whose disks its Berth holds: it compares the node.
    assert [one.looked for one in found] == [home, 0][: len(found)], cost
    notes = (f"{replicas} replicas on {nodes} nodes, same_node", told(found, home), told_of_peer(peer, replicas))
    ours = sum(one.elsewhere(home) for one in found)
    return Figure(name, ours, peer.elsewhere(replicas), "calls", PEER, notes)


def _updated(ground: Ground, name: str, reads: list[Read], **spec: Any) -> dict[int, Cost]:
    """What the update of an app costs the processes, by its replicas."""
    return {replicas: _once(ground, f"{name}-{replicas}", replicas, reads, spec) for replicas in SIZES}


def _once(ground: Ground, name: str, replicas: int, reads: list[Read], spec: dict[str, Any]) -> Cost:
    tasks = [_task(name, replicas, image, spec) for image in (1, 2)]
    ground.play(OURS, tasks[:1])
    before, there = [read() for read in reads], places(ground, name)
    ground.play(OURS, tasks[1:])
    found = [calls(read() - earlier) for read, earlier in zip(reads, before, strict=True)]
    say(f"{name}: {found}")
    return Cost(found, came_home(there, places(ground, name)))


def _task(name: str, replicas: int, image: int, spec: dict[str, Any]) -> dict[str, Any]:
    task = app_task(name, replicas, image, "same_node", "StatefulSet")
    task["berth.stateful.stateful_app"]["template"]["spec"].update(spec)
    return task


@contextmanager
def _own(ground: Ground) -> Iterator[list[Read]]:
    with without_election(ground.cluster, ground.folder / "own.log") as port:
        yield [partial(_read, f"http://127.0.0.1:{port}/metrics")]


@contextmanager
def _extended(ground: Ground) -> Iterator[list[Read]]:
    """A second kube-scheduler, with the extender; it serves its figures to whoever asks."""
    cluster, metrics, port = ground.cluster, free_port(), free_port()
    beside = Extender(cluster.kubeconfig, ground.folder / "extender.log", "--metrics-port", str(metrics))
    try:
        beside.works()
        source = {
            **stock_configuration(cluster),
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": EXTENDED}],
        }
        file = ground.folder / "with-extender.yaml"
        at = ExtenderAddress(beside.url, managed="")  # it is asked about every pod
        file.write_text(yaml.safe_dump(with_extender(cluster.status()["version"], source, at)))
        argv = [str(cluster.bin_dir / "kube-scheduler"), "--config", str(file), "--secure-port", str(port)]
        allowed = ["--bind-address", "127.0.0.1", "--authorization-always-allow-paths", "/metrics,/readyz"]
        with program([*argv, *allowed, "--cert-dir", str(ground.folder)], ground.folder / "with-extender.log"):
            _wait(f"https://127.0.0.1:{port}/readyz")
            urls = (f"https://127.0.0.1:{port}/metrics", f"http://127.0.0.1:{metrics}/metrics")
            yield [partial(_read, url) for url in urls]
            asked = sum(int(float(value)) for value in _QUESTIONS.findall(_get(urls[1])))
            # When each pod was made for the first time, and when it came home.
            assert asked >= 2 * sum(SIZES), f"the extender got {asked} filter requests"
    finally:
        beside.stop()


def _read(url: str) -> Counter[tuple[str, str]]:
    return counted(_get(url))


def _get(url: str) -> str:
    anyone = ssl._create_unverified_context()
    with urllib.request.urlopen(url, timeout=60, context=anyone) as answer:
        return str(answer.read().decode())


def _wait(url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            _get(url)
        except (urllib.error.URLError, OSError) as exc:
            if time.monotonic() > deadline:
                raise SystemExit(f"update/: {url} does not answer: {exc}") from exc
            time.sleep(0.5)
        else:
            return
