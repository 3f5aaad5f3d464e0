"""One disk in two nodes, by two agents on the real API server; their hosts are the recorded trees of machines."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from tests.core.app.disk_samples import held
from tests.dev.hosts_help import eventually
from tests.support.agent import conditions_of
from tests.support.made_up_host import MadeUp, made_up

pytestmark = pytest.mark.promise
NAME = "5002538f40e1b2c3"
QUICK = {"poll": 0.3, "debounce": 0.1, "scan": 60}


class Sharer:
    """A node whose first disk is a LUN of a storage network."""

    def __init__(self, host: MadeUp) -> None:
        self.host, self.process = host, None
        self.folder = host.folder / "tree/sys/block/sd0"
        (self.folder / "device/wwid").write_text(f"naa.{NAME}\n")
        host.configure(intervals=QUICK, policies={"devices": False, "prepare": False, "wipe": False})

    def start(self) -> None:
        with open(self.host.folder / "log", "a") as log:
            process = self.host.start("run")
            self.process = process
            self._copy = subprocess.Popen(["cat"], stdin=process.stdout, stdout=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self._copy.wait(10)
        self.process = None

    def pull(self) -> None:
        shutil.move(self.folder, self.host.folder / "drawer")

    def plug(self) -> None:
        shutil.move(self.host.folder / "drawer", self.folder)

    def disk(self) -> dict[str, Any]:
        return next(each for each in self.host.disks() if each["spec"]["identity"].get("wwn") == f"naa.{NAME}")

    def wait(self, matched: tuple[str, str], phase: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = [each for each in self.host.disks() if each["spec"]["identity"].get("wwn")]
            if not found:
                return None
            status = found[0].get("status") or {}
            return (
                found[0] if (conditions_of(found[0]).get("Matched"), status.get("phase")) == (matched, phase) else None
            )

        try:
            return dict(eventually(look, 60, f"{matched} {phase}"))
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self.host.disks()}\n{(self.host.folder / 'log').read_text()}") from None

    def message(self) -> str:
        return next(
            str(each.get("message", "")) for each in self.disk()["status"]["conditions"] if each["type"] == "Matched"
        )


@pytest.fixture
def nodes(control_plane: Any) -> Iterator[tuple[Sharer, Sharer]]:
    with made_up(control_plane) as one, made_up(control_plane) as two:
        both = Sharer(one), Sharer(two)
        yield both
        for each in both:
            each.stop()


def test_a_disk_that_two_nodes_see_is_refused_on_both_until_one_does_not(
    control_plane: Any, nodes: tuple[Sharer, Sharer]
) -> None:
    one, two = nodes
    one.start()
    first = one.wait(("True", "Found"), "Available")
    assert first["status"]["observed"]["diskID"] == NAME
    one.host.patch(first, claimRef=held())
    one.wait(("True", "Found"), "Locked")
    two.start()
    second = two.wait(("False", "Shared"), "Pending")
    one.wait(("False", "Shared"), "Locked")
    assert f"node {one.host.node} sees the same disk" in two.message()
    assert f"node {two.host.node} sees the same disk" in one.message()
    for spec in (
        {"claimRef": held()},
        {"wipe": {"requestID": "r", "identity": second["spec"]["identity"], "requestedBy": "a"}},
    ):
        with pytest.raises(BerthError, match="another node sees this disk, too"):
            two.host.patch(second, **spec)

    one.pull()
    one.wait(("False", "Moved"), "Missing")
    assert f"the disk is in node {two.host.node} now" in one.message()
    two.wait(("True", "Found"), "Available")
    assert (
        f"it came from node {one.host.node}, whose LocalDisk {first['metadata']['name']} has the data of"
        in two.message()
    )
    one.plug()
    one.wait(("False", "Shared"), "Locked")
    two.wait(("False", "Shared"), "Pending")
    two.pull()
    one.wait(("True", "Found"), "Locked")


def test_of_two_that_begin_at_once_neither_is_given_out(control_plane: Any, nodes: tuple[Sharer, Sharer]) -> None:
    for each in nodes:
        each.start()
    for each in nodes:
        each.wait(("False", "Shared"), "Pending")
    others = [disk for each in nodes for disk in each.host.disks() if "wwn" not in disk["spec"]["identity"]]
    assert [disk["status"]["phase"] for disk in others] == ["Available", "Available"], "their other disks are"
