"""Every example in the documentation is taken by what reads it: none is left out, whatever its language.

Manifests and inventories need an API server: tests/apiserver/test_page_manifests.py. Execution environments:
tests/tools/test_execution_environment.py.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_agent.config_check import check_text
from berth_agent.devices.described import problems_of
from berth_core.config.configuration import SchedulerConfiguration
from berth_scheduler import outside
from berth_scheduler.outside import known_plugins
from berth_tasks import queues
from berth_tasks.queues import known_policies
from tests.support import pages
from tests.support.documented import unknown_options
from tests.support.pages import Example

ROOT = pages.ROOT
BIN = Path(sys.executable).parent
OURS = ("berth-agent", "berth-controller", "berth-scheduler", "berth-dev", "kubectl berth")


def ids(kind: str) -> Any:
    return pytest.mark.parametrize("example", pages.of_kind(kind), ids=lambda example: example.id)


def test_each_example_is_of_a_kind_that_is_checked() -> None:
    counted = pages.counted()
    assert counted.keys() <= pages.CHECKED, "a block has no language, or one that nobody checks"
    assert counted["playbook"] > 10
    plugins = [path for folder in ("modules", "filter", "lookup") for path in ROOT.glob(f"plugins/{folder}/[a-z]*.py")]
    assert [path for path in plugins if not list(pages.shown_by(path))] == []


def test_fences_are_found_where_they_stand() -> None:
    """A second way to count: what starts a line, deep in a list too."""
    fence = re.compile(r"^\s*```", re.MULTILINE)
    for page in pages.PAGES:
        marks = fence.findall(page.read_text(encoding="utf-8"))
        assert len(marks) == 2 * len(list(pages.examples(page))), page


def plays(example: Example) -> list[dict[str, Any]]:
    """The example as a playbook."""
    (document,) = example.documents
    kind = pages.kind_of(example)
    if kind == "playbook":
        return list(document)
    return [{"hosts": "localhost", **(document if kind == "module_defaults" else {"tasks": document})}]


def playbooks() -> list[Example]:
    return [example for kind in ("playbook", "tasks", "module_defaults") for example in pages.of_kind(kind)]


def test_hosts_have_the_names_of_the_playbooks() -> None:
    """Who copies from two pages has one inventory: the nodes are berth_hosts everywhere, as in playbooks/."""
    known = {"localhost", "berth_hosts", "control_plane", "n1", "n2"}
    shown = [(play, example) for example in pages.of_kind("playbook") for play in plays(example)]
    named = [(play["hosts"], example) for play, example in shown if "hosts" in play]
    others = [f"{example.id}: {hosts}" for hosts, example in named if hosts not in known]
    assert others == []


def test_playbooks_are_taken_by_ansible(tmp_path: Path) -> None:
    files = []
    for example in playbooks():
        file = tmp_path / f"{re.sub('[^A-Za-z0-9]+', '-', example.id)}.yml"
        file.write_text(yaml.safe_dump(plays(example), sort_keys=False))
        files.append(str(file))
    files += [str(path) for path in sorted(ROOT.glob("playbooks/*.yml"))]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "tests/support/ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", str(Path(sys.prefix) / "collections"))
    done = run([str(BIN / "ansible-playbook"), "--syntax-check", "-i", "localhost,", *files], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", playbooks(), ids=lambda example: example.id)
def test_playbooks_name_options_that_are_documented(example: Example) -> None:
    assert list(unknown_options(plays(example))) == []


@ids("hosts")
def test_hosts(example: Example, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(example.text)
    listed = run([str(BIN / "ansible-inventory"), "-i", str(tmp_path / "hosts.yml"), "--list"])
    assert json.loads(listed.stdout)["berth_hosts"]["hosts"] == list(example.documents[0]["berth_hosts"]["hosts"])


@ids("host_vars")
def test_variables_of_hosts(example: Example) -> None:
    """By the agent, which reads the same keys and says what is wrong with each."""
    (variables,) = example.documents
    settings = {"disks": variables.get("berth_disks", []), "disk_selectors": variables.get("berth_disk_selectors", [])}
    assert check_text(yaml.safe_dump(settings)).problems == []
    assert list(unknown_options([{"roles": ["berth.stateful.local_disks"], "vars": variables}])) == []


@ids("agent")
def test_configurations_of_the_agent(example: Example) -> None:
    assert check_text(example.text).problems == []


@ids("devices")
def test_descriptions_of_devices(example: Example) -> None:
    (document,) = example.documents
    assert [problems_of(entry) for entry in document["devices"]] == [[]]


@ids("scheduler")
def test_configurations_of_the_scheduler(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the plugins of the examples, found as an installed package's are."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    (document,) = example.documents
    SchedulerConfiguration.parse(document, *known_plugins(packaged(outside.GROUP)))


def packaged(group: str) -> list[EntryPoint]:
    """The entry points of that group, of all pages."""
    found = [point for each in pages.every() if each.language == "toml" for point in entry_points(each)]
    return [point for point in found if point.group == group]


def entry_points(example: Example) -> Iterator[EntryPoint]:
    """Those of a package's pyproject.toml."""
    for group, named in tomllib.loads(example.text)["project"]["entry-points"].items():
        yield from (EntryPoint(name, value, group) for name, value in named.items())


def test_packages_name_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    found = packaged(outside.GROUP)
    assert found
    assert [point.load().name for point in found] == [point.name for point in found]
    policies = packaged(queues.GROUP)
    assert policies
    assert known_policies(policies).keys() == {"fair", "priority", *(point.name for point in policies)}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="prometheus is not installed (make deps)")
@ids("prometheus")
def test_configurations_of_prometheus(example: Example, tmp_path: Path) -> None:
    """Debian's build does not know Kubernetes's service discovery: what it finds stands there as an address."""
    found = re.sub(r"kubernetes_sd_configs: .*", "static_configs: [{targets: [192.0.2.1]}]", example.text)
    (tmp_path / "prometheus.yml").write_text(found)
    done = run(["promtool", "check", "config", "--syntax-only", str(tmp_path / "prometheus.yml")])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "example", [each for each in pages.every() if each.language == "python"], ids=lambda example: example.id
)
def test_programs_import_what_is_there(example: Example) -> None:
    """They are run by tests/daemons/tasks/test_page_programs.py, of the one page that has some."""
    assert example.page == ROOT / "docs/guides/tasks.md"
    imports = [node for node in ast.parse(example.text).body if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if str(node.module).startswith("berth_")]
    assert ours
    exec(compile(ast.Module(ours, []), example.id, "exec"), {})


CONSOLE = [example for example in pages.every() if example.language == "console"]


@pytest.mark.parametrize("example", CONSOLE, ids=lambda example: example.id)
def test_commands(example: Example) -> None:
    """The shell reads them; make's targets, berth's playbooks, files and programs are there, their flags too."""
    done = run(["bash", "-n", "-c", example.text])
    assert done.returncode == 0, done.stderr
    lines = example.text.splitlines()
    assert [problem for line in lines for problem in wrong_command(line, pages.files(example.page))] == []


def wrong_command(line: str, shown: Container[str]) -> Iterator[str]:
    """``shown``: the files that the page shows beside it."""
    words = [word for word in shlex.split(line, comments=True) if "=" not in word or word.startswith("-")]
    if words[:1] == ["make"] and len(words) > 1:
        yield from (f"make {word}" for word in words[1:] if f"\n{word}:" not in (ROOT / "Makefile").read_text())
    if words[:1] == ["ansible-playbook"]:
        after_i = {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-i"}
        playbooks = {word for word in words if re.match(r"berth\.stateful\.|.*\.yml$", word)} - after_i
        known = {*shown, *(f"berth.stateful.{path.stem}" for path in ROOT.glob("playbooks/*.yml"))}
        if len(playbooks) != 1 or not playbooks <= known:
            yield f"no playbook {' '.join(words[1:])}"
    files = [word.rstrip(")") for word in words if word.startswith("deploy/")]
    yield from (file for file in files if not (ROOT / file).exists())
    for program in OURS:
        if line.startswith(f"{program} "):
            yield from wrong_flags(program, words[len(program.split()) :])


def wrong_flags(program: str, words: list[str]) -> Iterator[str]:
    """Flags that the command's own --help does not name, or a command that it does not know."""
    path = words[:1] if words and not words[0].startswith("-") else []
    done = told(program.replace(" ", "-"), *path)
    if done.returncode:
        yield f"{program} {' '.join(path)}: {done.stderr}"
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", done.stdout))
    yield from (f"{program}: {word}" for word in words if word.startswith("-") and word.split("=")[0] not in known)


@functools.cache
def told(program: str, *path: str) -> subprocess.CompletedProcess[str]:
    """The --help of a command, asked for once: most commands stand on several pages."""
    return run([str(BIN / program), *path, "--help"])


def run(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)
