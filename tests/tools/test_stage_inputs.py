"""tools/stages.ini holds for this tree: what a stage's tests import is among its inputs, and every test is in a stage.

`make test` also watches what its stages open while they run (tools/berth_reads.py); this finds most of it in seconds.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.proving import inputs, table

ROOT = Path(__file__).resolve().parents[2]
SETS = table.read(ROOT / "tools" / "stages.ini")
STAGES = {stage.name: stage for stage in SETS["test"].stages}
#: Where a dotted name begins to be a path.
PLACES = {
    "ansible_collections.berth.stateful.": "",
    "tests.": "tests/",
    "tools.": "tools/",
    "berth_core": "plugins/module_utils/berth_core",
    "berth_host": "plugins/module_utils/berth_host",
    "berth_dev": "dev/cluster/berth_dev",
    **{path.parent.name: f"src/{path.parent.name}" for path in (ROOT / "src").glob("*/__init__.py")},
}
FOLDERS = sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir())


def recipe(target: str) -> str:
    """What make would run for a target, without what it depends on."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rule = re.search(rf"^{re.escape(target)}: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert rule is not None, f"no rule for {target} in the Makefile"
    return _listed(rule[1], makefile)


def _listed(text: str, makefile: str) -> str:
    """With the Makefile's lists of test files written out: $(NAME), and $(NAME:%=--ignore=%)."""
    for name, value in re.findall(r"^([A-Z_]+) := (tests/(?:.*\\\n)*.*)$", makefile, re.MULTILINE):
        files = value.replace("\\\n", " ").split()
        text = text.replace(f"$({name})", " ".join(files))
        text = text.replace(f"$({name}:%=--ignore=%)", " ".join(f"--ignore={file}" for file in files))
    return text


def files_given_to(target: str) -> list[str]:
    """The test files, from the checkout, that a stage's pytest is given."""
    words = recipe(target).split()
    ignored = [word.partition("=")[2] for word in words if word.startswith("--ignore=")]
    files: list[Path] = []
    for word in words:
        if word.startswith("tests/"):
            files += [ROOT / word] if word.endswith(".py") else sorted((ROOT / word).rglob("*.py"))
    names = [str(path.relative_to(ROOT)) for path in files]
    return [name for name in names if not any(name == each or name.startswith(f"{each}/") for each in ignored)]


@functools.cache
def imports(path: str) -> frozenset[str]:
    """The files of the checkout that one file imports itself."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(path, node)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(file for name in names for file in files_of(name))


def _absolute(path: str, node: ast.ImportFrom) -> str:
    """The module that an import names, without leading dots."""
    if not node.level:
        return node.module or ""
    parts = Path(path).parts[: -node.level]
    for prefix, place in PLACES.items():
        if place and "/".join(parts).startswith(place.rstrip("/")):
            rest = "/".join(parts)[len(place.rstrip("/")) :].replace("/", ".")
            base = prefix.rstrip(".") + rest
            return f"{base}.{node.module}" if node.module else base
    base = "ansible_collections.berth.stateful." + ".".join(parts)
    return f"{base}.{node.module}" if node.module else base


def files_of(name: str) -> list[str]:
    """The file of a module of this project; empty for anything else."""
    for prefix, place in PLACES.items():
        if name == prefix.rstrip(".") or name.startswith(f"{prefix.rstrip('.')}."):
            path = (place.rstrip("/") + name[len(prefix.rstrip(".")) :].replace(".", "/")).lstrip("/")
            return [each for each in (f"{path}.py", f"{path}/__init__.py") if (ROOT / each).is_file()]
    return []


def closure(paths: list[str]) -> set[str]:
    """Everything that is imported, over any number of steps."""
    seen: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imports(path)
    return seen


@pytest.mark.parametrize("name", [name for name, stage in STAGES.items() if stage.inputs])
def test_what_a_stages_tests_import_is_among_its_inputs(name: str) -> None:
    reached = closure(files_given_to(name))
    missing = sorted(reached - set(inputs.select(STAGES[name].inputs, reached)))
    assert missing == [], f"add them to [{name}] inputs in tools/stages.ini"


def test_imports_are_followed() -> None:
    reached = closure(["tests/daemons/scheduler/test_pods.py"])
    assert {"tests/daemons/controller/world.py", "plugins/module_utils/berth_core/errors.py"} <= reached
    assert "tools/zipapp.py" in closure(["tests/daemons/agent/test_agent_hosts.py"]), (
        "in a function of tests/support/agent.py"
    )


def test_every_test_is_run_by_a_stage() -> None:
    covered = {file for name in STAGES for file in files_given_to(name)}
    every = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(every - covered) == []


def test_what_comes_after_a_stage_of_root_is_roots_too() -> None:
    """So that each stage that does not run without root says that as its reason; `make check` runs without root."""
    later = [stage for stage in STAGES.values() if any(STAGES[name].root for name in stage.after)]
    assert [stage.name for stage in later if not stage.root] == []
    assert not any(stage.root for stage in SETS["check"].stages)


def test_every_input_names_something() -> None:
    os.chdir(ROOT)
    paths = inputs.files_of_the_tree()
    for name, stage in STAGES.items():
        empty = [
            each for each in stage.inputs if not any(inputs.matches(each.removeprefix("!"), path) for path in paths)
        ]
        assert empty == [], f"[{name}] inputs"


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("open('{root}/README.md').read()", ["README.md"]),
        ("import os; os.open('{root}/README.md', os.O_RDONLY)", ["README.md"]),
        ("open('{root}/build/x', 'w')", []),
        (
            "import pathlib; pathlib.Path('{root}/.venv/x/ansible_collections/berth/stateful/README.md').read_text()",
            ["README.md"],
        ),
        ("import subprocess; subprocess.run(['cat', '{root}/README.md'])", ["README.md"]),
        ("import subprocess; subprocess.run(['cat', 'sub/file'], cwd='{root}')", ["sub/file"]),
        ("import subprocess; subprocess.run([b'cat', b'{root}/README.md'])", ["README.md"]),
        ("import os; os.fork() or open('{root}/README.md') and os._exit(0)", ["README.md"]),
        (
            "import subprocess, sys; subprocess.run([sys.executable, '{root}/program.py'])",
            ["README.md", "program.py"],
        ),
        ("import sys; sys.path.insert(0, '{root}'); import module", ["module.py"]),
        ("open('/etc/hostname')", []),
    ],
)
def test_what_a_process_opens_is_written_down(tmp_path: Path, code: str, read: list[str]) -> None:
    root = tmp_path / "checkout"
    copy = root / ".venv/x/ansible_collections/berth/stateful"
    for folder in (root / "build/reads", root / "sub", copy):
        folder.mkdir(parents=True)
    for file in (root / "README.md", copy / "README.md", root / "sub/file", root / "module.py"):
        file.write_text("")
    (root / "program.py").write_text(f"open('{root}/README.md')")
    record = root / "build/reads/stage.txt"
    environment = {**os.environ, "BERTH_READS": str(record), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": ""}
    subprocess.run([sys.executable, "-c", code.format(root=root)], env=environment, check=True, capture_output=True)
    lines = record.read_text().splitlines() if record.exists() else []
    assert sorted(set(lines)) == read, json.dumps(lines)
