"""Figures that should be nothing do see what is there."""

from __future__ import annotations

from pathlib import Path

from tests.bench import publishing
from tests.bench.ground import Ground
from tests.support.pages import ROOT, Example


def test_ignored_lines_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "sanity"
    folder.mkdir(parents=True)
    (folder / "ignore-2.19.txt").write_text("plugins/a.py pylint\nplugins/b.py pylint\n")
    (folder / "ignore-2.20.txt").write_text("plugins/a.py pylint\n")
    (figure,) = publishing.ignores(Ground(), tmp_path)
    assert (figure.ours, figure.notes) == (3, ("ignore-2.19.txt, ignore-2.20.txt",))
    assert publishing.ignores(Ground())[0].ours == 0


def test_examples_without_a_check_are_named() -> None:
    page = ROOT / "README.md"
    every = [
        Example(page, 3, "text", "what a program printed"),
        Example(page, 7, "console", "make test\n"),
        Example(page, 9, "cobol", "STOP RUN."),
        Example(page, 11, "yaml", "a: 1\n"),
    ]
    (figure,) = publishing.examples(Ground(), every)
    assert figure.ours == 2
    assert figure.notes == ("1 of 3 have a check", "README.md:9", "README.md:11")
