"""Runs what pods of fake nodes ask for as processes of this machine: the first container's command.

With it a test has real workers: the variables of the pod, Secrets too, the exit code, and what is left in the
termination message. Whoever is deleted is killed.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.world import World

PYTHON = {"python3": sys.executable}


class ProcessKubelet(threading.Thread):
    """``folder``: where processes run, and Python finds modules. ``most_tasks``: as many Tasks were there at a time."""

    def __init__(self, world: World, folder: Path) -> None:
        super().__init__(daemon=True)
        self._world, self._folder, self._stop_it = world, folder, threading.Event()
        self._running: dict[str, tuple[dict[str, Any], subprocess.Popen[bytes]]] = {}
        self._seen: set[str] = set()
        self.killed: list[str] = []
        self.most_tasks = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stop_it.wait(0.05):
                self._round()
        except BaseException as exc:
            self.failure = exc
            raise
        finally:
            for _pod, process in self._running.values():
                process.kill()
                process.wait()

    def stop(self) -> None:
        self._stop_it.set()
        self.join(60)
        assert self.failure is None

    def _round(self) -> None:
        self.most_tasks = max(self.most_tasks, len(self._world.api.list(kinds.TASK, self._world.name)))
        pods = {pod["metadata"]["uid"]: pod for pod in self._world.api.list(kinds.POD, self._world.name)}
        for uid, pod in pods.items():
            going = pod["metadata"].get("deletionTimestamp") is not None
            if uid not in self._seen and not going and (pod.get("status") or {}).get("phase") == "Running":
                self._seen.add(uid)
                self._running[uid] = (pod, self._start(pod))
        for uid, (pod, process) in list(self._running.items()):
            if uid not in pods:
                process.kill()
                self.killed.append(pod["metadata"]["name"])
            if process.poll() is not None:
                process.wait()
                del self._running[uid]
                self._ended(pod, process.returncode)

    def _start(self, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        container = pod["spec"]["containers"][0]
        command = [part.replace("$$", "$") for part in (*container["command"], *container.get("args", ()))]
        variables = {one["name"]: self._value(pod, one) for one in container.get("env", ())}
        environment = {"PATH": os.environ["PATH"], "BERTH_TERMINATION_LOG": str(self._left(pod)), **variables}
        argv = [PYTHON.get(command[0], command[0]), *command[1:]]
        return subprocess.Popen(argv, cwd=self._folder, env=environment)

    def _value(self, pod: dict[str, Any], variable: dict[str, Any]) -> str:
        source = variable.get("valueFrom")
        if source is None:
            return str(variable["value"]).replace("$$", "$")
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "metadata.uid"
            return str(pod["metadata"]["uid"])
        key = source["secretKeyRef"]
        secret = self._world.api.get(kinds.SECRET, key["name"], self._world.name)
        return base64.b64decode(secret["data"][key["key"]]).decode()

    def _left(self, pod: dict[str, Any]) -> Path:
        return self._folder / f"{pod['metadata']['uid']}.left"

    def _ended(self, pod: dict[str, Any], code: int) -> None:
        left = self._left(pod)
        ended: dict[str, Any] = {"exitCode": code % 256, "reason": "Completed" if code == 0 else "Error"}
        if left.exists():
            ended["message"] = left.read_text()
        one = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        self._world.end(pod, code, containerStatuses=[{**one, "state": {"terminated": ended}}])
