"""What a stage has read of the tree, held against its inputs. berth_reads.py, in the environments, writes it down."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence

from . import inputs

FOLDER = pathlib.Path("build/reads")
#: The environment variable that names the file to write to.
VARIABLE = "BERTH_READS"


def file_of(stage: str) -> pathlib.Path:
    """Where the processes of a stage write down what they open."""
    return FOLDER / f"{stage}.txt"


def undeclared(stage: str, patterns: Sequence[str], paths: Iterable[str]) -> list[str]:
    """Files of the tree that the stage has opened though its inputs do not name them, sorted."""
    path = file_of(stage)
    if not path.exists():
        return []
    opened = set(path.read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    return sorted(opened & set(paths) - set(inputs.select(patterns, opened)))
