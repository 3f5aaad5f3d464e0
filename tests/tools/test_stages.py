"""`make test`: lanes, the closing table, and proofs that are kept. Real makes, in a project of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.proving import inputs, report, runner, targets

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = """
good:
\t@mkdir -p build/junit && cp results.xml build/junit/good.xml && echo ran >> good.ran
flaky:
\t@mkdir -p build/junit && cp green.xml build/junit/flaky.xml && cat again > build/junit/flaky.again
bad:
\t@echo what went wrong; exit 3
kept:
\t@mkdir -p build/junit && cp green.xml build/junit/kept.xml && echo ran >> kept.ran; sleep 0.1; \\
\techo '[["tests/a.py::one", 0.5, 2.0, 0.25]]' > build/junit/kept.times.json
second:
\t@echo ran >> second.ran
reads:
\t@echo other.txt > "$$BERTH_READS"
slow:
\t@while [ ! -e go ]; do sleep 0.05; done
opens:
\t@touch go
never:
\t@touch never
"""
TABLE = """
[sets]
good = | good
check = | later
kept = | kept
both = | kept second
root = | kept rooted afterwards
flaky = | flaky
bad = | bad never
ordered = | good later
beside = | slow opens
reads = | reads
first = bad | good
[groups]
some = green.xml in/
[good]
lane = compute
[kept]
lane = compute
inputs = @some !in/not
[second]
lane = compute
inputs = other.txt
[rooted]
lane = wait
needs = root
[afterwards]
lane = wait
needs = root
after = rooted
[flaky]
lane = compute
inputs = again
[bad]
lane = wait
[never]
lane = wait
after = bad
[later]
lane = wait
after = good
[slow]
lane = compute
[opens]
lane = wait
[reads]
lane = wait
inputs = Makefile
"""
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.a" name="one"/>
<testcase classname="tests.a" name="two"><failure message="no"/></testcase>
<testcase classname="tests.b" name="three"><skipped message="needs root"/></testcase>
</testsuite></testsuites>
"""
GREEN = '<testsuites><testsuite><testcase classname="tests.a" name="one"/></testsuite></testsuites>'


def git(project: Path, *arguments: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", "-C", str(project), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with stages of its own, and a user's cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("MAKEFLAGS", "BERTH_READS", "ARGS", "ONLY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    for name, text in {
        "Makefile": MAKEFILE,
        "tools/stages.ini": TABLE,
        "results.xml": RESULTS,
        "green.xml": GREEN,
        "again": "tests/a.py::one\n",
        "in/put": "1",
        "in/not": "1",
        "other.txt": "1",
        ".gitignore": "build/\n*.ran\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def stages(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "stages.py"), *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def store(project: Path) -> Path:
    return project.parent / "cache" / "berth-proofs" / "proofs.json"


def runs(project: Path, name: str) -> int:
    """How often a stage's recipe has run."""
    path = project / f"{name}.ran"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_counts_and_names_skips(project: Path) -> None:
    answer = stages(project, "--set", "good")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "\ntests: 1 passed, 1 failed, 1 skipped\n" in answer.stdout
    assert "skipped tests.b::three: needs root" in answer.stdout


def test_plain_targets_stop_at_the_first_failure(project: Path) -> None:
    answer = stages(project, "bad", "never")
    assert answer.returncode == 1
    assert "FAILED make's status 2" in answer.stdout
    assert not (project / "never").exists()


def test_what_did_not_run_says_why(project: Path) -> None:
    answer = stages(project, "--set", "bad")
    assert answer.returncode == 1
    assert "NOT RUN never: " in answer.stdout
    assert "what went wrong" in answer.stdout, "the output of a stage that failed is printed"
    assert not (project / "never").exists()


def test_the_last_lines_of_a_run_are_the_reasons_of_its_failures(project: Path) -> None:
    last = stages(project, "--keep-going", "--set", "bad").stdout.strip().splitlines()[-8:]
    reason = last.index("FAILED bad: make's status 2")
    assert "what went wrong" in [line.strip() for line in last[reason + 1 :]]
    assert "FAILED" not in "".join(last[reason + 1 :])


def test_of_a_failed_stage_the_lines_that_name_the_failure_are_told_too() -> None:
    recap = [f"recap {number}" for number in range(report.LAST_LINES)]
    margin = "  │ "
    said = [f"{margin}TASK [it]", f"{margin}fatal: [one]: FAILED!", "FAILED tests/test_it.py::test_it - no", *recap]
    assert report.telling(said) == said[1:]
    assert report.telling(recap[:3]) == recap[:3]


def test_what_comes_after_a_failed_stage_does_not_run_either_way(project: Path) -> None:
    answer = stages(project, "--keep-going", "--set", "bad")
    assert answer.returncode == 1
    assert "NOT RUN never: bad did not end well" in answer.stdout
    assert not (project / "never").exists()


def test_a_failure_of_the_ground_ends_the_run(project: Path) -> None:
    answer = stages(project, "--keep-going", "--set", "first")
    assert answer.returncode == 1
    assert "NOT RUN good: bad failed" in answer.stdout
    assert runs(project, "good") == 0


def as_somebody_else(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The test's own user may be root: the question for it is answered as for anybody else."""
    script = "import os, sys; os.geteuid = lambda: 1000; sys.path.insert(0, sys.argv.pop(1)); import stages; "
    command = [sys.executable, "-c", script + "sys.exit(stages.main())", str(ROOT / "tools"), *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_a_run_without_root_is_no_whole_run(project: Path) -> None:
    answer = as_somebody_else(project, "--set", "root")
    assert answer.returncode == 1, "what did not run is not green"
    assert runs(project, "kept") == 1
    for name in ("rooted", "afterwards"):
        assert f"NOT RUN {name}: it needs root\n" in answer.stdout
    last = "NOT WHOLE: 2 of 3 stages did not run, for they need root: "
    assert answer.stdout.splitlines()[-1] == f"{last}run it as root, or with WITHOUT_ROOT=1 if this is meant"
    meant = as_somebody_else(project, "--without-root", "--set", "root")
    assert meant.returncode == 0
    assert meant.stdout.splitlines()[-1] == f"{last}as WITHOUT_ROOT=1 allows"


def test_a_failure_stays_one_without_root(project: Path) -> None:
    (project / "Makefile").write_text(f"{MAKEFILE}\nkept: green.xml missing.xml\n")
    answer = as_somebody_else(project, "--without-root", "--keep-going", "--set", "root")
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[-1].startswith("NOT WHOLE: 2 of 3 stages")


@pytest.mark.parametrize(
    ("given", "option"), [("FULL", "--full"), ("KEEP_GOING", "--keep-going"), ("WITHOUT_ROOT", "--without-root")]
)
def test_what_is_said_to_make(given: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAKEFLAGS", "FULL", "KEEP_GOING", "WITHOUT_ROOT"):
        monkeypatch.delenv(name, raising=False)
    makes = [
        subprocess.check_output(["make", "--no-print-directory", "-n", "test", *more], cwd=ROOT, text=True).split()
        for more in ((), (f"{given}=1",))
    ]
    assert [option in words for words in makes] == [False, True]


def test_lanes_run_side_by_side(project: Path) -> None:
    answer = stages(project, "--set", "beside")
    assert answer.returncode == 0, "slow ends only when the stage behind it has run meanwhile"


def test_results_of_an_earlier_run_do_not_count(project: Path) -> None:
    leftover = project / "build" / "junit" / "old.xml"
    leftover.parent.mkdir(parents=True)
    leftover.write_text(RESULTS)
    assert "1 passed, 1 failed, 1 skipped" in stages(project, "--set", "good").stdout
    assert not leftover.exists()


def test_times_are_kept_and_printed(project: Path) -> None:
    answer = stages(project, "--set", "kept")
    assert "2.0     0.5      0.2  tests/a.py::one" in answer.stdout
    record = json.loads((project / "build" / "times.json").read_text())
    assert record["slowest"] == [{"test": "tests/a.py::one", "call": 2.0, "setup": 0.5, "teardown": 0.2}]
    assert [(stage["stage"], stage["tests"]) for stage in record["stages"]] == [("kept", 1)]
    assert record["seconds"] > 0


def test_the_thirty_slowest_the_slowest_first(project: Path) -> None:
    # Longest as a whole, not by one phase; where they are alike, by their names.
    times = [[f"t{number:02}", number, 1, 0] for number in range(40)] + [["last", 0, 0, 100], ["also", 50, 25, 25]]
    (project / "times").write_text(json.dumps(times))
    (project / "Makefile").write_text(
        MAKEFILE.replace("\techo '[[\"tests/a.py::one\", 0.5, 2.0, 0.25]]' >", "\tcat times >")
    )
    said = stages(project, "--set", "kept").stdout
    expected = ["also", "last", *(f"t{number:02}" for number in range(39, 11, -1))]
    table = said[said.index("slowest tests:") :].split("\n\n")[0].splitlines()[1:]
    assert [line.split()[-1] for line in table] == expected
    record = json.loads((project / "build" / "times.json").read_text())
    assert [each["test"] for each in record["slowest"]] == expected


def test_what_a_run_took_stands_beside_its_target(project: Path) -> None:
    Path(project / "Makefile").write_text(f"{MAKEFILE}later:\n\t@true\n")
    assert "\ntime: 0.0 min; target 3 min (make check): within it\n" in stages(project, "--set", "check").stdout
    assert "target" not in stages(project, "--set", "kept").stdout, "a set that has none"
    record = json.loads((project / "build" / "times.json").read_text())
    assert (record["set"], record["partial"]) == ("kept", "")


PROVED, SOME, NOT_RUN = (runner.Run("unit", result, 100.0) for result in ("PROVED", "ok", "NOT RUN"))
BUILT = [runner.Run("cluster", "ok", 200.0), runner.Run("vm-image", "ok", 100.0)]


@pytest.mark.parametrize(
    ("name", "ended", "minutes", "partial", "said"),
    [
        ("check", [SOME], 3, "", "3.0 min; target 3 min (make check): within it"),
        ("check", [SOME], 4.5, "", "4.5 min; target 3 min (make check): 1.5 min more"),
        ("test", [SOME, PROVED], 24, "", "24.0 min; target 25 min (make test after a typical change): within it"),
        ("test", [SOME], 61, "", "61.0 min; target 45 min (make test FULL=1: nothing proved before): 16.0 min more"),
        ("test", [*BUILT, SOME], 70, "", "70.0 min; target 75 min (make test without any cache): within it"),
        ("test", [SOME, PROVED], 5, "ARGS is set", "5.0 min, compared with no target: ARGS is set"),
        ("test", [SOME, NOT_RUN], 5, "", "5.0 min, compared with no target: unit did not end well"),
        ("demo", [SOME], 5, "", ""),
    ],
)
def test_which_target_a_run_is_compared_with(
    name: str, ended: list[runner.Run], minutes: float, partial: str, said: str
) -> None:
    assert targets.told(name, ended, minutes * 60, partial) == (f"time: {said}" if said else "")


def test_packages_that_a_stage_of_the_run_installs_count_for_those_that_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / inputs.PACKAGES).write_text("make\n")
    (tmp_path / "more.txt").write_text("git # for those alone\n")
    listed = [
        {line.split()[0] for line in inputs.programs(more).splitlines()} & {"make", "git"}
        for more in ((), ("more.txt",))
    ]
    assert listed == [{"make"}, {"make", "git"}]


def test_what_was_green_on_the_same_files_is_not_run_again(project: Path) -> None:
    first, second = stages(project, "--set", "kept"), stages(project, "--set", "kept")
    assert "PROVED" not in first.stdout
    head = subprocess.check_output(["git", "-C", project, "rev-parse", "--short", "HEAD"], text=True)
    assert f"PROVED at {head.strip()}, 1 tests, " in second.stdout
    assert time.strftime("%Y-%m-%d", time.gmtime()) in second.stdout
    assert "proved before, on the same inputs, and not run now: kept" in second.stdout
    assert "tests: " not in second.stdout, "what ran now is counted apart"
    assert runs(project, "kept") == 1


def test_full_runs_what_is_proved(project: Path) -> None:
    stages(project, "--set", "kept")
    assert "PROVED" not in stages(project, "--full", "--set", "kept").stdout
    assert runs(project, "kept") == 2


@pytest.mark.parametrize(
    ("file", "content", "again"),
    [("in/put", "2", 2), ("in/new", "1", 2), ("in/not", "2", 1), ("other.txt", "2", 1)],
)
def test_a_proof_is_of_the_inputs(project: Path, file: str, content: str, again: int) -> None:
    stages(project, "--set", "kept")
    (project / file).write_text(content)
    stages(project, "--set", "kept")
    assert runs(project, "kept") == again
    git(project, "checkout", "--quiet", ".")
    (project / "in/new").unlink(missing_ok=True)
    stages(project, "--set", "kept")
    assert runs(project, "kept") == again, "the proof of the first state is there still"


def test_a_proof_is_of_the_modes_too(project: Path) -> None:
    stages(project, "--set", "kept")
    (project / "in/put").chmod(0o755)
    stages(project, "--set", "kept")
    assert runs(project, "kept") == 2


def test_another_clone_of_the_same_commit_has_the_proof(project: Path) -> None:
    stages(project, "--set", "kept")
    other = project.parent / "clone"
    subprocess.run(["git", "clone", "--quiet", str(project), str(other)], check=True)
    assert "PROVED" in stages(other, "--set", "kept").stdout


def test_a_second_try_is_no_proof_and_is_listed(project: Path) -> None:
    for answer in (stages(project, "--set", "flaky"), stages(project, "--set", "flaky")):
        assert answer.returncode == 0
        assert "FLAKY: failed at first, and was run again: tests/a.py::one" in answer.stdout
        assert "PROVED" not in answer.stdout
    assert json.loads((project / "build" / "flaky.json").read_text()) == ["tests/a.py::one"]


def test_more_than_two_second_tries_fail_the_run(project: Path) -> None:
    (project / "again").write_text("tests/a.py::one\ntests/a.py::two\ntests/a.py::three\n")
    answer = stages(project, "--set", "flaky")
    assert answer.returncode == 1
    assert "3 tests failed at first; more than 2 fail the run" in answer.stdout


def test_a_stage_that_reads_more_than_its_inputs_fails(project: Path) -> None:
    answer = stages(project, "--set", "reads")
    assert answer.returncode == 1
    assert "FAILED it reads other.txt: add them to [reads] inputs in tools/stages.ini" in answer.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is damaged: every stage runs"),
        ("[]", "is damaged: every stage runs"),
        ('{"version": 1, "proofs": {"kept": {"x": {"commit": 1}}}}', "is damaged: every stage runs"),
        ('{"version": 99, "proofs": {}}', "is of version 99, not 1: every stage runs"),
    ],
)
def test_a_store_that_cannot_be_used(project: Path, content: str, said: str) -> None:
    store(project).parent.mkdir(parents=True)
    store(project).write_text(content)
    answer = stages(project, "--set", "kept")
    assert answer.returncode == 0
    assert answer.stdout.count(said) == 1
    assert runs(project, "kept") == 1


def test_a_store_that_cannot_be_written(project: Path) -> None:
    # Root may write anywhere: a file stands where the folder would be.
    store(project).parent.parent.mkdir()
    store(project).parent.write_text("")
    answer = stages(project, "--set", "kept")
    assert answer.returncode == 0
    assert "proofs: " in answer.stdout
    assert runs(project, "kept") == 1


#: A filesystem of its own, for this process and what it starts alone: nothing is left of it.
UNWRITABLE = r"""
set -eu
folder=$1 kept=$2
shift 2
mount -t tmpfs -o size=8k none "$folder"
cp "$kept" "$folder/proofs.json"
{then}
ended=0
"$@" || ended=$?
echo "files: $(ls "$folder" | tr '\n' ' ')" >&2
exit $ended
"""


@pytest.mark.parametrize(
    ("then", "reason", "left"),
    [
        ('mount -o remount,ro "$folder"', "Read-only file system", "proofs.json"),
        # To the last byte, and without room for one.
        (
            'cat /dev/zero > "$folder/full" 2>/dev/null || true',
            "No space left on device",
            "full proofs.json proofs.lock",
        ),
    ],
    ids=["read-only", "full"],
)
def test_a_store_that_can_be_read_and_not_written(project: Path, then: str, reason: str, left: str) -> None:
    private = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*private, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user has no mounts of his own")
    stages(project, "--set", "kept")
    kept = project.parent / "kept.json"
    shutil.copy(store(project), kept)
    given = [sys.executable, str(ROOT / "tools" / "stages.py"), "--set", "both"]
    command = [*private, "sh", "-c", UNWRITABLE.format(then=then), "sh", str(store(project).parent), str(kept), *given]
    for _again in range(2):
        answer = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "PROVED at " in answer.stdout
        said = f"proofs: not kept in {store(project)}: {reason}; what was green now runs again the next time"
        assert answer.stdout.count("proofs: ") == answer.stdout.count(said) == 1
        assert answer.stdout.index(said) > answer.stdout.index("result\n"), "at the end, after the table"
        assert f"files: {left} \n" in answer.stderr, "no half of a file"
    assert (runs(project, "kept"), runs(project, "second")) == (1, 2)


@pytest.mark.parametrize("variable", ["ARGS", "ONLY", "BERTH_KUBECONFIG"])
def test_a_part_of_a_stage_proves_nothing(project: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x")
    answer = stages(project, "--set", "kept")
    assert f"proofs: {variable} is set: every stage runs, and no proof is kept" in answer.stdout
    monkeypatch.delenv(variable)
    assert "PROVED" not in stages(project, "--set", "kept").stdout


def test_arguments_on_makes_command_line_prove_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", " --no-print-directory -- ARGS=-x")
    assert "proofs: ARGS is set" in stages(project, "--set", "kept").stdout
    assert not store(project).exists()


def test_outside_of_git_everything_runs(project: Path) -> None:
    (project / ".git").rename(project / "not-git")
    assert "proofs: not a git checkout" in stages(project, "--set", "kept").stdout


def test_two_runs_at_once_in_one_checkout(project: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "stages.py"), "--set", "beside"]
    # Without the lane that opens the way it would wait: the lock is what is looked at.
    (project / "Makefile").write_text(MAKEFILE.replace("@touch go", "@sleep 0.1"))
    with subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL) as first:
        lock = project / "build" / ".stages.lock"
        while not (lock.exists() and lock.read_text()):
            time.sleep(0.01)
        second = stages(project, "--set", "good")
        (project / "go").touch()
    assert first.returncode == 0
    assert second.returncode == 1
    assert f"process {first.pid} runs the stages of this checkout already" in second.stderr
    assert runs(project, "good") == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lane = fast", "[odd] lane = fast: expected one of compute, wait"),
        ("lane = wait\nneeds = luck", "[odd] needs = luck: expected root"),
        ("lane = wait\ninput = x", "[odd] input: no such key"),
        ("lane = wait\ninputs = @nothing", "[odd] inputs: @nothing: no such group"),
    ],
)
def test_a_table_that_cannot_be_used(project: Path, line: str, said: str) -> None:
    (project / "tools/stages.ini").write_text(f"[sets]\nodd = | odd\n[odd]\n{line}\n")
    answer = stages(project, "--set", "odd")
    assert answer.returncode == 2
    assert said in answer.stderr


def test_a_set_that_is_not_there(project: Path) -> None:
    answer = stages(project, "--set", "nothing")
    assert answer.returncode == 2
    assert "--set nothing: no such set; there are" in answer.stderr
