"""An agent dies right after each of its writes to a disk's object, and the next one goes on: from nothing to the wipe.

Two disks live their lives at once, each with a node of its own (tests/support/local_node.py), whose agents die after
each write that no agent of either has died after. So each write is somebody's last, whichever way an agent came to it,
and the one life goes on where the other is cut.
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
from tests.support.kube import patch_disk
from tests.support.local_node import BERTH, LocalNode
from tests.support.wire import dying_after_each

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.slow,
    pytest.mark.promise,
]
LIVES = ("1", "2")
WRITES = r"\w+ LocalDisk(/\w+)? .*"
#: What is written in a life that nobody cuts: steps of the journal and of the wipe, what is seen, what was asked.
EACH = (
    *(f'"step": "{step}"' for step in ("Formatting", "Formatted", "Mounting", "Mounted", "Unmounting", "Unmounted")),
    *(f'"step": "{step}"' for step in ("Signatures", "Overwriting", "Verifying")),
    *(f'"phase": "{phase}"' for phase in ("Available", "Locked", "InUse", "Released")),
    *('"result": "Succeeded"', "create LocalDisk ", '"path": "/spec/wipe"'),
)
SIZE = 24 << 20
#: How long a life may stand still.
SECONDS = 60.0
Obj = dict[str, Any]


class Life:
    """Lock, filesystem, mount, release, wipe of one disk. ``last``: what an agent has died after, of either life."""

    def __init__(self, node: LocalNode, last: Path) -> None:
        self.node, self.last, self.deaths = node, last, -1
        self._next_agent()
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
            self._next_agent()
        disk = disks.get(self.node.serials["a"])
        if disk is not None and self.left[0][0](disk):
            self.left.pop(0)[1](disk)
            self.moved = time.monotonic()
        text = f"{self.node.node} stands still"
        assert time.monotonic() < self.moved + SECONDS, f"{text}: {disk}\n{self.node.log.read_text()[-4000:]}"

    def _next_agent(self) -> None:
        self.deaths, self.moved = self.deaths + 1, time.monotonic()
        self.node.start(**dying_after_each("berth_agent", self.last, WRITES))

    def _patch(self, disk: Obj, **spec: Any) -> None:
        patch_disk(self.node.api, disk["metadata"]["name"], **spec)

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
    last = tmp_path / "last"
    with ExitStack() as stack:
        nodes = [LocalNode(control_plane, tmp_path / life, f"dies-{life}", {"a": {}}, SIZE) for life in LIVES]
        for node in nodes:
            stack.callback(node.forget)
            stack.enter_context(node)
        lives = [Life(node, last) for node in nodes]
        while any(life.left for life in lives):
            disks = {one["spec"]["identity"].get("serial", ""): one for one in nodes[0].api.list(kinds.LOCAL_DISK)}
            for life in lives:
                if life.left:
                    life.look(disks)
            time.sleep(0.1)
    written = last.read_text()
    assert [each for each in EACH if each not in written] == []
    deaths = sum(life.deaths for life in lives)
    assert deaths >= len(written.splitlines()) - len(lives), "nobody looks at an agent after a life's last write"
