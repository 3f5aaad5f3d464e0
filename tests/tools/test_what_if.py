"""`stages.py what-if`: what a change runs, how long that takes by what each stage has cost, and how long it may."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.proving import costs, plan, table, targets, what_if

ROOT = Path(__file__).resolve().parents[2]
SETS = table.read(ROOT / "tools" / "stages.ini")
KNOWN = costs.read(ROOT / costs.FILE)


def stage(name: str, lane: str = "wait", inputs: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> table.Stage:
    return table.Stage(name, lane, inputs, after)


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.what)
def test_what_the_stages_cost_is_within_what_ci_has(target: targets.Target) -> None:
    answer = what_if.answer(SETS[target.set], target.changed, KNOWN)
    assert answer.total <= target.most, what_if.told(answer)


def test_the_cost_of_every_stage_is_kept_and_no_other() -> None:
    assert sorted(KNOWN) == table.names(SETS)


@pytest.mark.parametrize("daemon", targets.DAEMONS)
def test_what_runs_a_daemon_runs_again_when_it_changes(daemon: str) -> None:
    """By what the stages are for; that each reads no more than it declares is watched while it runs."""
    whole = {"kind-everything", "kind-upgrade", "chaos", "daemons-together", "release-image", "images"}
    answer = what_if.answer(SETS["test"], [f"src/berth_{daemon}/__init__.py"], KNOWN)
    assert {each.name for each in answer.why} >= {*whole, f"daemons-{daemon}", "unit", "sanity-src"}


@pytest.mark.parametrize(
    ("stages", "ends"),
    [
        ([stage("a", "compute")], {"compute": 10, "wait": 0}),
        ([stage("a"), stage("b")], {"compute": 10, "wait": 20}),
        ([stage("a"), stage("b"), stage("c", "compute")], {"compute": 30, "wait": 30}),
        ([stage("a"), stage("b", after=("a",))], {"compute": 30, "wait": 0}),
        ([stage("a"), stage("b", "compute", after=("a",)), stage("c")], {"compute": 30, "wait": 30}),
        ([stage("a"), stage("b", after=("a",)), stage("c", after=("a",))], {"compute": 30, "wait": 40}),
        ([], {"compute": 0, "wait": 0}),
    ],
)
def test_lanes_end(stages: list[table.Stage], ends: dict[str, float]) -> None:
    assert plan.ends(stages, {"a": 10, "b": 20, "c": 30}) == ends


def test_a_change_runs_the_stages_whose_input_it_is_and_those_without_inputs() -> None:
    stages = (stage("a", inputs=("in/", "!in/not")), stage("b"), stage("c", inputs=("*",)))
    known = {name: costs.Cost(10, 1) for name in ("a", "b", "c", "venv")}
    chosen = table.Set(("venv",), stages)
    for changed, names in ((["in/a"], "abc"), (["in/not"], "bc"), (["elsewhere"], "bc"), ([], "b")):
        assert "".join(each.name for each in what_if.answer(chosen, changed, known).why) == names
    answer = what_if.answer(chosen, ["in/a"], known)
    assert (answer.first, answer.total) == (10, 30)
    assert "a                      wait          10  because" not in what_if.told(answer)
    assert "in/a" in what_if.told(answer)


def test_a_stage_whose_cost_nobody_knows() -> None:
    with pytest.raises(costs.CostsError, match="no cost of a: run it, then "):
        what_if.answer(table.Set((), (stage("a"),)), [], {})


def stages_of(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "stages.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_of_this_tree() -> None:
    answer = stages_of(ROOT, "what-if", "src/berth_agent/", "LICENSE")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1].startswith("lanes end after: compute ")
    assert "src/berth_agent/__init__.py" in answer.stdout


@pytest.mark.parametrize("path", ["nowhere", "src/berth_agen", "/etc/hostname"])
def test_what_is_not_of_the_tree(path: str) -> None:
    answer = stages_of(ROOT, "what-if", "LICENSE", path)
    assert answer.returncode == 2
    assert f"what-if: {path}: neither a file nor a folder of the tree" in answer.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A table with one stage, its cost, and the record of a run."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "build").mkdir()
    (tmp_path / "tools/stages.ini").write_text("[sets]\ntest = venv | a b\n[a]\nlane = wait\n[b]\nlane = wait\n")
    costs.write(tmp_path / costs.FILE, {"a": costs.Cost(1, 1), "b": costs.Cost(2, 2, 2), "gone": costs.Cost(3, 3)})
    (tmp_path / "build/times.json").write_text(json.dumps(record()))
    return tmp_path


def record(name: str = "test", partial: str = "", **results: str) -> dict[str, Any]:
    """What a run of the project leaves: how each of its stages ended, or "" for one that the record does not have."""
    run = {"seconds": 7.4, "cpu_seconds": 3.6, "tests": 5}
    ends = {"venv": "ok", "a": "ok", "b": "FAILED", **results}
    stages = [{"stage": each, "result": result, **run} for each, result in ends.items() if result]
    return {"set": name, "partial": partial, "stages": stages}


def test_what_ran_well_is_recorded(project: Path) -> None:
    assert stages_of(project, "record").returncode == 0
    ran = costs.Cost(7, 4, 5)
    assert costs.read(project / costs.FILE) == {"a": ran, "b": costs.Cost(2, 2, 2), "venv": ran}


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (record("check"), "it was `make check`"),
        (record(partial="ARGS is set"), "ARGS is set"),
        (record(b="PROVED"), "1 of its stages did not run, b among them"),
        (record(a="NOT RUN", b="NOT RUN"), "2 of its stages did not run, a among them"),
        (record(b=""), "1 of its stages did not run, b among them"),
    ],
)
def test_what_was_not_a_whole_run_is_not_recorded(project: Path, left: dict[str, Any], said: str) -> None:
    before = (project / costs.FILE).read_text()
    (project / "build/times.json").write_text(json.dumps(left))
    answer = stages_of(project, "record")
    assert answer.returncode == 2
    assert f"the last run was not the whole of `make test FULL=1`: {said}; nothing is recorded" in answer.stderr
    assert (project / costs.FILE).read_text() == before


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("build/times.json", "{", "expected the record of a run"),
        ("build/times.json", '{"stages": [{"stage": "a", "result": "ok"}]}', "lacks 'set'"),
        (
            "build/times.json",
            json.dumps({**record(), "stages": [{"stage": each, "result": "ok"} for each in ("venv", "a", "b")]}),
            "lacks 'seconds'",
        ),
        ("tools/stage-costs.json", "[]", "expected seconds, cpu and tests by stage"),
        ("tools/stage-costs.json", '{"a": {"seconds": 1}}', "expected seconds, cpu and tests by stage"),
    ],
)
def test_a_record_that_cannot_be_used(project: Path, file: str, content: str, said: str) -> None:
    before = (project / costs.FILE).read_text()
    (project / file).write_text(content)
    answer = stages_of(project, "record")
    assert answer.returncode == 2
    assert said in answer.stderr
    assert (project / costs.FILE).read_text() in (before, content)
