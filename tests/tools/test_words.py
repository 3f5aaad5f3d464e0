"""Docstrings speak of a thing in the third person: what is called by whom, not who calls "me"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "src", "tools", "tests")
FIRST_PERSON = re.compile(r"\b(I|me|myself)\b(?![/'\"=(])")


def docstrings(text: str) -> list[str]:
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, nodes))
    return [one for one in found if one]


def spoken(docstring: str) -> list[str]:
    """Its words in the first person, outside of quotation marks and options (``-I``)."""
    bare = re.sub(r"``[^`]*``|`[^`]*`|\"[^\"]*\"|'[^']*'", "", docstring)
    return FIRST_PERSON.findall(re.sub(r"(?m)^    .*$", "", bare).replace("-I", ""))


def test_what_is_found() -> None:
    assert spoken("Ansible calls me.") == ["me"]
    assert spoken("Never. I decide nothing.") == ["I"]
    assert spoken("Read by ``me``, with an I/O error and `python -I`.") == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_speaks_in_the_first_person(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    said = {str(file.relative_to(ROOT)): spoken(each) for file in files for each in docstrings(file.read_text("utf-8"))}
    assert {file for file, words in said.items() if words} == set()
