"""The backend's connections are cut every second, and the API server is killed, while tasks run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.kubelets import Kubelets
from tests.daemons.tasks.metrics import charged, sums
from tests.daemons.tasks.world import FINAL, World, until
from tests.support.tcp import Proxy, free_port

Start = Callable[..., Any]
TASKS = 60


class Scissors(threading.Thread):
    """Cuts every connection once a second."""

    def __init__(self, network: Proxy) -> None:
        super().__init__(daemon=True)
        self._network, self._stop_it = network, threading.Event()
        self.cuts = 0

    def run(self) -> None:
        while not self._stop_it.wait(1.0):
            self._network.cut()
            self.cuts += 1

    def stop(self) -> None:
        self._stop_it.set()
        self.join(60)


@pytest.mark.promise
def test_each_task_ends_once_whatever_the_network_does(
    world: World, plane: Any, start: Start, kubelets: Kubelets
) -> None:
    """One process all the time: what it counts as ended is what ended, and no visit is made twice for want of news."""
    for number in range(2):
        world.node(str(number), cpu="2")
    server = urlsplit(yaml.safe_load(plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    port = free_port()
    with Proxy(server.hostname or "", server.port or 443) as network:
        daemon = start("--port", str(port), server=f"https://127.0.0.1:{network.port}")
        scissors, began = Scissors(network), time.monotonic()
        scissors.start()
        try:
            submit(world, "a")
            plane.restart_apiserver(kill=True)
            submit(world, "b")
            until(lambda: not unfinished(world), lambda: f"{unfinished(world)} {daemon.text()}")
        finally:
            scissors.stop()
        seconds = time.monotonic() - began
        assert scissors.cuts >= max(2.0, seconds * 0.7), f"{scissors.cuts} cuts in {seconds:.0f} s: one a second"
        assert network.accepted >= scissors.cuts, "each of them had connections to cut"
        until(lambda: not world.api.list(kinds.POD, world.name), lambda: world.api.list(kinds.POD, world.name))
        until(lambda: charged(port) == 0, lambda: charged(port))
        for name, status in world.statuses().items():
            wanted = {"Succeeded": (0, status["tries"] - 1), "Failed": (1, 2)}[status["state"]]
            assert (status["exitCode"], status["failures"]) == wanted, (name, status)
        # A write whose answer was cut off is not counted: fewer perhaps, never more.
        assert 0 < sum(sums(port, "berth_tasks_ended_total", "state").values()) <= TASKS


def submit(world: World, prefix: str) -> None:
    for number in range(TASKS // 2):
        world.submit(f"{prefix}{number}", retries=1)


def unfinished(world: World) -> list[str]:
    return [name for name, status in world.statuses().items() if status.get("state") not in FINAL]
