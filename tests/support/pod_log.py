"""Every change of an app's pods, as the API server told it, and what must hold at each of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from tests.dev.hosts_help import eventually


class PodLog:
    """A watch of the pods of ``app``, from when it is entered; into a file, so that a slow reader misses nothing.

    Begin it when all replicas are Ready: the least number of Ready ones is counted from there.
    """

    def __init__(self, cluster: Any, app: str, folder: Path) -> None:
        self.file = folder / f"pods-{app}"
        program = [str(cluster.bin_dir / "kubectl"), "--kubeconfig", str(cluster.kubeconfig)]
        wanted = ["get", "pods", "-l", f"berth.dev/app={app}", "--watch", "--output-watch-events", "-o", "json"]
        self._argv = [*program, *wanted]

    def __enter__(self) -> PodLog:
        with self.file.open("wb") as file:
            self._watch = subprocess.Popen(self._argv, stdout=file)
        eventually(lambda: list(self.events()), 30, "the watch of the pods")
        return self

    def __exit__(self, *_exc: object) -> None:
        self._watch.kill()
        self._watch.wait()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """ADDED, MODIFIED or DELETED, and the pod as it was then. The last may be just being written."""
        text, at, decoder = self.file.read_text(), 0, json.JSONDecoder()
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            try:
                event, at = decoder.raw_decode(text, at)
            except ValueError:
                return
            yield event["type"], event["object"]

    def nodes(self) -> dict[str, set[str]]:
        """Replica -> the nodes that its pods have been bound to."""
        found: dict[str, set[str]] = {}
        for _what, pod in self.events():
            node = pod["spec"].get("nodeName")
            found.setdefault(pod["metadata"]["name"], set()).update({node} if node else ())
        return found

    def least_ready(self) -> int:
        """How many replicas were Ready, and not on their way out, at the worst moment."""
        serving: dict[str, bool] = {}
        known = [name for name, _nodes in self.nodes().items()]
        least = len(known)
        for what, pod in self.events():
            meta = pod["metadata"]
            serving[meta["name"]] = what != "DELETED" and not meta.get("deletionTimestamp") and ready(pod)
            if len(serving) == len(known):
                least = min(least, sum(serving.values()))
        return least

    def gone_too_soon(self) -> list[str]:
        """Replicas whose pod was deleted with a container that still ran: the next one may have run beside it."""
        return [
            pod["metadata"]["name"]
            for what, pod in self.events()
            if what == "DELETED"
            and any("running" in one["state"] for one in pod["status"].get("containerStatuses") or ())
        ]

    def check(self, least: int) -> None:
        """Each replica at home, never twice, and at least so many of them Ready."""
        assert not self._watch.poll(), "the watch has ended"
        away = {name: nodes for name, nodes in self.nodes().items() if len(nodes) != 1}
        assert not away, f"replicas that have left their node: {away}"
        assert not self.gone_too_soon()
        assert self.least_ready() >= least
