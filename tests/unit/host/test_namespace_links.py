"""The path by which the namespace that holds a disk, and no other, reaches its data: made, cut anywhere, taken away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.fsid import namespace_link
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import StateError
from ansible_collections.berth.stateful.plugins.module_utils.berth_host import namespace_links
from ansible_collections.berth.stateful.plugins.module_utils.berth_host.namespace_links import (
    check,
    is_linked,
    link,
    links,
    unlink,
)

pytestmark = pytest.mark.promise


class Disk:
    """``root``: the folder of all disks, which is not there yet."""

    def __init__(self, root: Path) -> None:
        self.root, self.point = root, str(root / "h1-d0")
        self.folder = root / ".namespaces" / "h1-d0"

    def path(self, namespace: str) -> str:
        return namespace_link("h1-d0", namespace, str(self.root))

    def mount(self) -> None:
        (self.root / "h1-d0" / "data").mkdir(parents=True)
        (self.root / "h1-d0" / "data" / "file").write_text("precious")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "disks")


@pytest.mark.parametrize("namespace", ["team-a", "data", "h1-d0", "lost"])
def test_the_holder_has_the_data_by_it_and_nothing_while_the_disk_is_not_mounted(disk: Disk, namespace: str) -> None:
    assert not is_linked(disk.point, disk.path(namespace))
    link(disk.point, disk.path(namespace))
    assert is_linked(disk.point, disk.path(namespace))
    assert [each.stat().st_mode & 0o777 for each in (disk.root, disk.folder.parent, disk.folder)] == [0o700] * 3
    assert not os.path.exists(disk.path(namespace))
    disk.mount()
    assert Path(disk.path(namespace), "file").read_text() == "precious"


def test_of_a_filesystem_of_before_it_leads_to_what_a_person_has_moved(disk: Disk) -> None:
    """A folder `data` in its root may be the application's own, and an empty mount point is never the volume."""
    path = disk.path("team-a")
    link(disk.point, path)
    link(disk.point, path, ".berth-data")
    assert (is_linked(disk.point, path, ".berth-data"), is_linked(disk.point, path)) == (True, False)
    disk.mount()
    assert not os.path.exists(path)
    (disk.root / "h1-d0" / "data").rename(disk.root / "h1-d0" / ".berth-data")
    assert Path(path, "file").read_text() == "precious"
    check(disk.point, path)
    unlink(disk.point)
    assert links(disk.point) == []


def test_it_is_made_once(disk: Disk) -> None:
    link(disk.point, disk.path("team-a"))
    before = os.lstat(disk.path("team-a"))
    link(disk.point, disk.path("team-a"))
    assert os.lstat(disk.path("team-a")).st_ino == before.st_ino


def test_the_one_before_loses_it_before_the_next_gets_it(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    link(disk.point, disk.path("team-a"))
    assert not is_linked(disk.point, disk.path("team-b"))
    seen: list[list[str]] = []
    symlink = os.symlink

    def watched(*args: Any) -> None:
        seen.append(os.listdir(disk.folder))
        symlink(*args)

    monkeypatch.setattr(namespace_links.os, "symlink", watched)
    link(disk.point, disk.path("team-b"))
    assert seen == [[]]
    assert links(disk.point) == [disk.path("team-b")]


def test_disks_that_are_made_ready_at_once_share_the_folder(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = os.mkdir

    def later(*args: Any) -> None:
        mkdir(*args)
        mkdir(*args)

    monkeypatch.setattr(namespace_links.os, "mkdir", later)
    link(disk.point, disk.path("team-a"))
    assert links(disk.point) == [disk.path("team-a")]


@pytest.mark.parametrize("call", ["mkdir", "unlink", "symlink"])
@pytest.mark.parametrize("before", ["nothing", "team-a"])
def test_a_run_that_dies_anywhere_is_continued(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, call: str, before: str
) -> None:
    """Before each call that changes something."""
    if before != "nothing":
        link(disk.point, disk.path(before))
    number = 0
    while True:
        number += 1
        calls = iter(range(number))
        real = getattr(os, call)

        def dies(*args: Any, calls: Any = calls, real: Any = real) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            real(*args)

        with monkeypatch.context() as patched:
            patched.setattr(namespace_links.os, call, dies)
            try:
                link(disk.point, disk.path("team-b"))
            except KeyboardInterrupt:
                assert not is_linked(disk.point, disk.path("team-b"))
                continue
        break
    assert links(disk.point) == [disk.path("team-b")]


@pytest.mark.parametrize("other", ["file", "folder", "link"])
@pytest.mark.parametrize("name", ["team-a", "team-b"])
def test_what_is_no_link_of_ours_is_neither_followed_nor_removed(disk: Disk, other: str, name: str) -> None:
    link(disk.point, disk.path("team-b"))
    found = disk.folder / name
    found.unlink(missing_ok=True)
    if other == "link":
        found.symlink_to("/etc")
    elif other == "folder":
        found.mkdir()
    else:
        found.write_text("x")
    for act in (check, link):
        with pytest.raises(StateError, match=f"{name} is there, expected a link to ../../h1-d0/data or nothing"):
            act(disk.point, disk.path("team-a"))
    assert not is_linked(disk.point, disk.path("team-a"))
    unlink(disk.point)
    assert os.listdir(disk.folder) == [name]


def test_a_link_in_the_folders_place_is_not_followed(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    disk.root.mkdir()
    (disk.root / ".namespaces").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=r"\.namespaces is no folder"):
        link(disk.point, disk.path("team-a"))
    assert os.listdir(tmp_path / "elsewhere") == []
    (disk.root / ".namespaces").unlink()
    (disk.root / ".namespaces").write_text("x")
    with pytest.raises(StateError, match=r"\.namespaces is no folder"):
        check(disk.point, disk.path("team-a"))
    assert not is_linked(disk.point, disk.path("team-a"))
    assert links(disk.point) == []


def test_nothing_is_left_of_it_when_nobody_holds_the_disk(disk: Disk) -> None:
    unlink(disk.point)
    link(disk.point, disk.path("team-a"))
    unlink(disk.point)
    assert os.listdir(disk.folder.parent) == []
    assert links(disk.point) == []
