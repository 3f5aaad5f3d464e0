"""The extender and the stock kube-scheduler as processes: the real programs, each with rights of its own."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from berth_core.config.stock import MANAGED, ExtenderAddress, with_extender
from tests.daemons.controller.world import Process as ControllerProcess

#: So that a pod is one of the extender's.
REQUESTS = {"requests": {"cpu": "100m", MANAGED: "1"}, "limits": {MANAGED: "1"}}


class Extender(ControllerProcess):
    """`berth-scheduler extend` with its own service account. ``at``: the port that it had before."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, at: int = 0, **options: Any) -> None:
        options = {"module": "berth_scheduler", **options}
        port = ("--port", str(at)) if at else ()
        super().__init__(kubeconfig, log, "--metrics-port", "0", *flags, *port, command=("extend",), **options)

    def works(self) -> Extender:
        super().works()
        return self

    @property
    def port(self) -> int:
        found = re.search(r" works as .*\bport=(\d+)", self.text())
        assert found, self.text()
        return int(found.group(1))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, verb: str, document: Any) -> tuple[int, Any]:
        """As kube-scheduler asks."""
        body = json.dumps(document).encode()
        question = urllib.request.Request(f"{self.url}/{verb}", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(question, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as exc:
            return exc.code, json.load(exc)

    def send(self, sent: bytes) -> tuple[int, Any]:
        """Bytes as they are, on a connection of their own."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as link:
            link.sendall(sent)
            with http.client.HTTPResponse(link) as answer:
                answer.begin()
                return answer.status, json.load(answer)


class Stock:
    """A kube-scheduler for one world: its ``name`` is the world's, and berth's extender stands in its configuration.

    ``at`` None: it does not. ``others``: extenders that stand there already.
    """

    def __init__(
        self,
        plane: Any,
        world: Any,
        folder: Path,
        at: ExtenderAddress | None,
        others: Sequence[dict[str, Any]] = (),
        name: str = "",
    ) -> None:
        source = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": name or world.name}],
            "extenders": list(others),
        }
        file, self.log = folder / "kube-scheduler.yaml", folder / "kube-scheduler.log"
        whole = source if at is None else with_extender(plane.status()["version"], source, at)
        file.write_text(yaml.safe_dump(whole))
        argv = [str(plane.bin_dir / "kube-scheduler"), "--config", str(file), "--secure-port", "0", "-v", "2"]
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen(argv, stdout=stream, stderr=stream)

    def text(self) -> str:
        return self.log.read_text()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
