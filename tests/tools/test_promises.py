"""What concerns data and exclusion is a promise: a failure of it is never tried again (docs/decisions/0020).

promises.txt names every file and every test that is one. A mark that is lost fails here, and so does one that is not
listed. A new test of a file that is named whole has the mark by the file's own pytestmark.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LISTED = (Path(__file__).parent / "promises.txt").read_text(encoding="utf-8").splitlines()
MARK = "mark.promise"


def marks(node: ast.AST) -> int:
    """How often the mark stands in a piece of code."""
    return sum(isinstance(each, ast.Attribute) and ast.unparse(each).endswith(MARK) for each in ast.walk(node))


def promises(path: str, module: ast.Module) -> list[str]:
    """PATH where the file's pytestmark has the mark, PATH::TEST where a test's decorators have it."""
    found, elsewhere = [], marks(module)
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            here, name = marks(node.value), path
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            here, name = sum(map(marks, node.decorator_list)), f"{path}::{node.name}"
        else:
            continue
        found += [name] if here else []
        elsewhere -= here
    assert elsewhere == 0, f"{path}: {MARK} is neither in pytestmark nor at a function: nothing here could hold it"
    return found


@functools.cache
def in_the_tree() -> list[str]:
    """Every promise of the tests."""
    found: list[str] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f".{MARK}" in text:
            found += promises(str(path.relative_to(ROOT)), ast.parse(text))
    return found


def test_each_promise_has_its_mark_and_each_mark_is_listed() -> None:
    found = in_the_tree()
    assert [f"{each}: no pytest.{MARK} there" for each in LISTED if each not in found] == []
    assert [f"{each}: add it to promises.txt" for each in found if each not in LISTED] == []
    assert sorted(set(LISTED)) == LISTED


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("pytestmark = pytest.mark.promise", ["x.py"]),
        ("pytestmark = [pytest.mark.slow, pytest.mark.promise]", ["x.py"]),
        ("@pytest.mark.promise\ndef test_a(): ...\ndef test_b(): ...", ["x.py::test_a"]),
        ("pytestmark = pytest.mark.slow\ndef test_a(): ...", []),
    ],
)
def test_where_a_mark_is_found(code: str, found: list[str]) -> None:
    assert promises("x.py", ast.parse(code)) == found


@pytest.mark.parametrize(
    "code",
    [
        "class TestA:\n @pytest.mark.promise\n def test_a(self): ...",
        "CASE = pytest.param(1, marks=pytest.mark.promise)",
    ],
)
def test_a_mark_in_another_place(code: str) -> None:
    with pytest.raises(AssertionError, match="neither in pytestmark nor at a function"):
        promises("x.py", ast.parse(code))
