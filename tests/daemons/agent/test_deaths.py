"""An agent dies right after each of its writes to a disk's object, and the next one goes on: from nothing to the wipe.

Each death has a node and a disk of its own, and all are at once (tests/support/local_node.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.fsid import filesystem_uuid
from tests.support.agent import install_rights
from tests.support.local_node import BERTH, LocalNode
from tests.support.wire import dying

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.slow,
    pytest.mark.promise,
]
#: The last of them live on: nobody has as many writes to make.
DEATHS = range(1, 24)
SIZE = 24 << 20
SECONDS = 150.0
Obj = dict[str, Any]


class Life:
    """Lock, filesystem, mount, release, wipe of one disk; its agent dies after so many writes, the next one lives."""

    def __init__(self, node: LocalNode, at: int) -> None:
        self.node, self.at, self.died = node, at, False
        node.start(**dying("berth_agent", at, r"\w+ LocalDisk(/\w+)? .*"))
        #: what is waited for, and what is done then
        self.left: list[tuple[Callable[[Obj], bool], Callable[[Obj], None]]] = [
            (lambda disk: status(disk).get("phase") == "Available", self._lock),
            (lambda disk: journal(disk) == "Mounted" and status(disk)["phase"] == "InUse", self._use),
            (lambda disk: journal(disk) == "Unmounted" and status(disk)["phase"] == "Released", self._ask_wipe),
            (lambda disk: "wipe" not in disk["spec"] and status(disk)["phase"] == "Available", self._wiped),
        ]

    def look(self, disks: dict[str, Obj]) -> None:
        """``disks``: all LocalDisks by serial number."""
        if self.node.dead():
            assert not self.died, "the second agent has died, too"
            self.died = True
            self.node.start()
        disk = disks.get(self.node.serials["a"])
        if disk is not None and self.left[0][0](disk):
            self.left.pop(0)[1](disk)

    def _patch(self, disk: Obj, **spec: Any) -> None:
        self.node.api.patch(kinds.LOCAL_DISK, disk["metadata"]["name"], None, {"spec": spec})

    def _lock(self, disk: Obj) -> None:
        meta = {"name": f"b-{uuid4().hex[:6]}", "namespace": "default"}
        entry = {"claim": "data", "name": disk["metadata"]["name"], "size": 1}
        spec = {"app": "db", "ordinal": 0, "nodeName": self.node.node, "disks": [entry]}
        self.berth = self.node.api.create(kinds.BERTH, {**BERTH, "metadata": meta, "spec": spec})["metadata"]
        self.node.api.patch(kinds.BERTH, meta["name"], "default", {"status": {"phase": "Reserved"}}, "status")
        self.kept = {"namespace": "default", "app": "db", "ordinal": 0, "claim": "data", "dataUID": self.berth["uid"]}
        self._patch(disk, claimRef={**self.kept, "name": meta["name"], "uid": self.berth["uid"]})

    def _use(self, disk: Obj) -> None:
        name = disk["metadata"]["name"]
        assert status(disk)["journal"]["lockUID"] == self.berth["uid"]
        uuid = self.node.here("blkid", "-p", "-o", "value", "-s", "UUID", self.node.devices["a"])
        assert uuid == filesystem_uuid(self.berth["uid"], name), "made once, for that lock"
        (self.node.point(name) / "data" / "file").write_text("precious")
        self._patch(disk, claimRef=None, retainedFor=self.kept)

    def _ask_wipe(self, disk: Obj) -> None:
        assert self.node.here("findmnt", "-rno", "SOURCE").split().count(self.node.devices["a"]) == 0
        assert b"precious" in self.node.file("a").read_bytes()
        wipe = {"requestID": "r1", "identity": disk["spec"]["identity"], "requestedBy": "ann", "method": "zero"}
        self._patch(disk, wipe=wipe)

    def _wiped(self, disk: Obj) -> None:
        last = status(disk)["lastWipe"]
        assert (last["requestID"], last["result"], last["bytes"]) == ("r1", "Succeeded", SIZE)
        assert {"claimRef", "retainedFor"}.isdisjoint(disk["spec"])
        assert not self.node.file("a").read_bytes().strip(b"\0")


def status(disk: Obj) -> Obj:
    return dict(disk.get("status") or {})


def journal(disk: Obj) -> str:
    return str((status(disk).get("journal") or {}).get("step") or "")


def test_an_agent_that_dies_after_any_write_is_continued(control_plane: Any, tmp_path: Path) -> None:
    install_rights(control_plane)
    with ExitStack() as stack:
        nodes = [LocalNode(control_plane, tmp_path / str(at), f"dies-{at}", {"a": {}}, SIZE) for at in DEATHS]
        for node in nodes:
            stack.callback(node.forget)
            stack.enter_context(node)
        lives = [Life(node, at) for node, at in zip(nodes, DEATHS, strict=True)]
        end = time.monotonic() + SECONDS
        while any(life.left for life in lives):
            disks = {one["spec"]["identity"].get("serial", ""): one for one in nodes[0].api.list(kinds.LOCAL_DISK)}
            for life in lives:
                if life.left:
                    life.look(disks)
            late = [life for life in lives if life.left] if time.monotonic() > end else []
            assert not late, f"{len(late)} do not go on: {late[0].at} {late[0].node.objects()}\n{tail(late[0].node)}"
            time.sleep(0.1)
        died = [life.at for life in lives if life.died]
        assert died == list(range(1, len(died) + 1))
        assert 10 < len(died) < len(lives), "each write was the last of an agent, and nobody has as many as that"


def tail(node: LocalNode) -> str:
    return node.log.read_text()[-4000:]
