"""What is not run as written is on a page and has a reason; a scenario types its whole page; a reader is watched."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import IN_ONE_RUN, INSTEAD, RUN, Reader, blocks, typed
from tests.support.pages import ROOT


def test_what_is_not_run_as_it_stands_is_on_a_page_and_has_a_reason() -> None:
    said = {command for page in RUN for block in blocks(page) for command in block}
    assert INSTEAD.keys() <= said, "no page says it"
    assert all(len(other.reason) > 10 for other in INSTEAD.values())
    assert len(said - INSTEAD.keys()) > 5, "most are run as they are"


def test_the_scenario_types_every_command_of_its_page() -> None:
    """Each by its heading and its number; two headings may show the same command."""
    page = {title: part["commands"] for title, part in typed(IN_ONE_RUN, {"tarball": "TARBALL"}).items()}
    scenario = ROOT / "extensions/molecule/install"
    texts = [path.read_text(encoding="utf-8") for path in scenario.glob("*.yml") if path.stem != "molecule"]
    uses = [use for text in texts for play in yaml.safe_load(text) for use in _typed_by(play)]
    assert {command for commands in page.values() for command in commands} == {
        page[title][line] for title, line in uses
    }


def test_what_a_readers_commands_open_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """His environment is his own, but for what `make test` watches with (tools/berth_reads.py)."""
    file, record = tmp_path / "README.md", tmp_path / "build" / "reads" / "stage.txt"
    record.parent.mkdir(parents=True)
    file.write_text("")
    monkeypatch.setenv("BERTH_READS", str(record))
    monkeypatch.setenv("BERTH_OTHER", "x")
    (tmp_path / "reader").mkdir()
    reader = Reader(tmp_path / "reader", Path(sys.executable).parent)
    reader.run([f"python -c 'open(\"{file}\")'", "test -z ${BERTH_OTHER-}"])
    assert record.read_text().split() == ["README.md"]


def _typed_by(part: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Of a play, or of a block."""
    for task in part.get("tasks", part.get("block", [])):
        yield from _typed_by(task)
        if task.get("ansible.builtin.include_tasks") == "tasks/type.yml":
            given = task["vars"]
            yield from ((given["type_heading"], line) for line in task.get("loop", [given.get("type_line")]))
