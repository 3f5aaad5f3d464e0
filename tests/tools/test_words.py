"""Docstrings speak in the third person: what is called by whom, not who calls "me"; berth's, not "ours"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "src", "dev", "tools", "tests")
FIRST_PERSON = re.compile(r"\b(I|(?i:my|mine|myself|we|(?<!\d )us|ours?|ourselves)|me)\b(?![/\"=(])")
QUOTED = re.compile(r"``[^`]*``|`[^`]*`|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")


def docstrings(text: str) -> list[str]:
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, nodes))
    return [one for one in found if one]


def spoken(docstring: str) -> list[str]:
    """Its words in the first person, outside of quotation marks and options (``-I``)."""
    return FIRST_PERSON.findall(re.sub(r"(?m)^    .*$", "", QUOTED.sub("", docstring)).replace("-I", ""))


def test_what_is_found() -> None:
    assert spoken("Ansible calls me.") == ["me"]
    assert spoken("Never. I decide nothing.") == ["I"]
    said = "Our pods, the kubelet's of us and the host's: we've a claim of ours, mine."
    assert " ".join(spoken(said)) == "Our us we ours mine"
    assert spoken("Read by ``me``, with an I/O error and `python -I`, for 10 us; `ours` and \"we\" and 'us'.") == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_speaks_in_the_first_person(folder: str) -> None:
    files = {file: docstrings(file.read_text("utf-8")) for file in sorted((ROOT / folder).rglob("*.py"))}
    said = {str(file.relative_to(ROOT)): [word for one in each for word in spoken(one)] for file, each in files.items()}
    assert {file: words for file, words in said.items() if words} == {}
