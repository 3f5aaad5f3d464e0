"""update/calls-100 and update/calls-5000: filter and score calls that an update of 3 and of 30 replicas on so many
nodes causes.

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
from typing import Any

import yaml

from berth_core.config.stock import ExtenderAddress, with_extender
from tests.daemons.scheduler.extending import Extender
from tests.support.tcp import free_port

from .figures import Figure
from .ground import OURS, Ground, say
from .sched_contenders import program, stock_configuration, without_election
from .update_calls import PEER, SIZES, Calls, Read, app_task, calls, counted, kube_scheduler, plain_rolls

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
        _figure(f"update/calls-{nodes}/{who}/{replicas}", nodes, replicas, sums, peers[replicas])
        for replicas in SIZES
        for who, by_size in found.items()
        for sums in [by_size[replicas]]
    ]


def _figure(name: str, nodes: int, replicas: int, found: list[Calls], peer: Calls) -> Figure:
    """``found``: of each process that was asked."""
    for one in found:
        assert one.scores == 0, one
    # The extender has no plugin to ask about a pod whose disks its Berth holds: it compares the node.
    assert [one.looked for one in found] == [replicas, 0][: len(found)], found
    filters = sum(one.filters for one in found)
    notes = (
        f"{replicas} replicas on {nodes} nodes, same_node: {filters} filter calls on their own nodes, 0 score calls",
        f"peer: {peer.filters} filter calls on {peer.looked} nodes, {peer.scores} score calls",
    )
    return Figure(name, filters, peer.filters + peer.scores, "calls", PEER, notes)


def _updated(ground: Ground, name: str, reads: list[Read], **spec: Any) -> dict[int, list[Calls]]:
    """What the update of an app costs each of the processes, by its replicas."""
    return {replicas: _once(ground, f"{name}-{replicas}", replicas, reads, spec) for replicas in SIZES}


def _once(ground: Ground, name: str, replicas: int, reads: list[Read], spec: dict[str, Any]) -> list[Calls]:
    tasks = [_task(name, replicas, image, spec) for image in (1, 2)]
    ground.play(OURS, tasks[:1])
    before = [read() for read in reads]
    ground.play(OURS, tasks[1:])
    found = [calls(read() - earlier) for read, earlier in zip(reads, before, strict=True)]
    say(f"{name}: {found}")
    return found


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
