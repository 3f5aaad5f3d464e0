"""Workers of one run that start together look for the same leftovers: each is taken down once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from berth_dev import processes
from berth_dev.pytest_plugin import remove_abandoned
from berth_dev.state import ClusterDir, write_atomically


def test_eight_at_once_over_what_twenty_dead_runs_left(tmp_path: Path) -> None:
    dead = replace(processes.myself(), start=1)
    folders = [ClusterDir(tmp_path / f"berth-{index}" / f"t{index}") for index in range(20)]
    for folder in folders:
        folder.path.parent.mkdir()
        folder.create()
        write_atomically(folder.path.parent / "owner.json", json.dumps(asdict(dead)))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(remove_abandoned, [tmp_path] * 8))
    assert sorted(path for each in found for path in each) == sorted(folder.path for folder in folders)
    assert list(tmp_path.glob("berth-*")) == []
