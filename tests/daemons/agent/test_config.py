"""The agent's configuration file: taken or refused as a whole, every problem with its line, the last good one kept."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from berth_agent.config import Configuration
from berth_agent.config_check import check_text
from berth_core.app.agent_settings import Intervals, Settings
from berth_core.app.wipe import METHODS
from berth_core.errors import InputError

GOOD = """\
node: h1
disks:
  - serial: S1
    size: 320Mi
    storage_class: fast
disk_selectors:
  - query: "[?rotational == `false`]"
intervals: {scan: 5m, poll: 1}
metrics:
  port: 0
"""


def test_a_whole_file_is_read() -> None:
    checked = check_text(GOOD)
    assert checked.problems == []
    settings = checked.settings
    assert settings is not None
    assert (settings.node, settings.intervals.scan, settings.intervals.poll, settings.metrics.port) == ("h1", 300, 1, 0)
    assert settings.disks[0]["serial"] == "S1"
    assert settings.policies == Settings().policies


@pytest.mark.parametrize("method", METHODS)
def test_a_disk_may_be_wiped_as_the_custom_resources_say(method: str) -> None:
    assert check_text(f"disks: [{{serial: S1, reclaim_policy: Delete, wipe_method: {method}}}]\n").problems == []


def test_an_empty_file_is_the_defaults() -> None:
    assert check_text("# nothing\n").settings == Settings()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("node: h1\n  bad: [", 2, "is not YAML"),
        ("- a\n", 1, "is not a mapping"),
        ("node: h1\nnodes: h2\n", 2, "nodes is not known: expected one of"),
        ("node: h1\nnode: h2\n", 2, "key 'node' is given twice"),
        ("1: x\n", 1, "is not a plain text"),
        ("intervals:\n  scan: 1\n", 2, "intervals.scan is 1: expected between 5 and 86400"),
        ("intervals:\n  poll: often\n", 2, "intervals.poll is 'often': expected a duration"),
        ("intervals:\n  poll: true\n", 2, "expected a duration"),
        ("intervals:\n  lease: 5\n", 2, "intervals.lease is 5: expected between 6 and 3600"),
        ("intervals: 5\n", 1, "intervals is 5: expected a mapping"),
        ("policies:\n  wipe: 1\n", 2, "policies.wipe is 1: expected true or false"),
        ("usage:\n  store: mysql\n", 2, "expected one of sqlite, prometheus, none"),
        ("usage:\n  store: prometheus\n", 1, "needs url"),
        ("metrics:\n  tls_key: /k\n", 1, "tls_certificate and tls_key go together"),
        ("mount_root: disks\n", 1, "expected an absolute path"),
        ("mount_root: ''\n", 1, "mount_root is '': expected an absolute path"),
        ("mount_root: /\n", 1, "mount_root: mount root '/' is not usable"),
        ("usage:\n  path: ''\n", 2, "usage.path is '': expected an absolute path"),
        ("usage:\n  url: 'https://a b/'\n", 2, "usage.url is 'https://a b/': expected an address as https://"),
        ("kubelet:\n  address: '10.0.0'\n", 2, "kubelet.address is '10.0.0': expected an IP address"),
        ("node: A B\n", 1, "node is 'A B', which no Node can be named"),
        ("disks:\n  - {serial: a, name: A B}\n", 2, "name is 'A B', which no LocalDisk can be named"),
        (
            "disks:\n  - {serial: a}\n  - {serial: a, size: 1Gi}\n",
            3,
            "disks[1] (serial a, size 1073741824) names the disk of",
        ),
        ("disks:\n  - {wwn: a, name: d}\n  - {wwn: b, name: d}\n", 3, "name is 'd', as of disks[0]"),
        ("state_directory: /x\n", 1, "state_directory is not known"),
        ("disks: S1\n", 1, "disks is a text: expected a list"),
        ("disks:\n  - S1\n", 2, "disks[0] is a text: expected a mapping"),
        ("disks:\n  - {serial: 12345}\n", 2, "serial is 12345, which YAML does not read as a text: write it in quotes"),
        ("disks:\n  - {serial: a}\n  - model: M\n    size: 1Gi\n", 3, "disks[1] names no disk"),
        ("disks:\n  - serial: a\n    fs_type: ntfs\n", 3, "fs_type is 'ntfs': expected one of ext4, xfs"),
        ("disks:\n  - {serial: a, wipe_method: crypto}\n", 2, "expected one of auto, signatures, discard,"),
        ("disks:\n  - serial: a\n    size: 1 Gi\n", 2, "'1 Gi' is not a quantity"),
        ("disks:\n  - serial: a\n    colour: red\n", 3, "colour is not known"),
        ("disks:\n  - {serial: a, volume_mode: Block, fs_type: xfs}\n", 2, "fs_type is for volume_mode Filesystem"),
        ("disk_selectors:\n  - storage_class: a\n", 2, "query is missing"),
        ("disk_selectors:\n  - query: '[?'\n", 2, "is not a JMESPath expression"),
        ("a: &a [1]\n<<: {b: 1}\n", 2, "is not a plain text"),
        (
            "b: &b [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{chr(99 + i)}: &{chr(99 + i)} [{', '.join(['*' + chr(98 + i)] * 10)}]\n" for i in range(6)),
            1,
            "more than 50000 values",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, words: str) -> None:
    checked = check_text(text)
    assert checked.settings is None
    assert any(problem.line == line and words in problem.what for problem in checked.problems), checked.problems


@pytest.mark.parametrize(
    "disks",
    [
        "[{serial: a, by_path: p1}, {serial: a, by_path: p2}]",  # told apart by their slots
        "[{serial: a, wwn: w1}, {serial: a, wwn: w2}]",  # two namespaces of one NVMe disk
        "[{serial: a}, {wwn: w1}]",
    ],
)
def test_entries_that_may_be_two_disks_are_taken(disks: str) -> None:
    assert check_text(f"disks: {disks}\n").problems == []


@pytest.mark.parametrize("field", dataclasses.fields(Intervals), ids=lambda field: field.name)
@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "-1", "1.0e+300", "'1e300'", "''", "'\u0663'", "9" * 400])
def test_a_duration_that_cannot_be_meant_is_refused(field: dataclasses.Field[float], value: str) -> None:
    (problem,) = check_text(f"intervals: {{{field.name}: {value}}}\n").problems
    assert problem.what.startswith(f"intervals.{field.name} is ")
    assert "expected" in problem.what


def test_every_problem_is_told_at_once() -> None:
    text = "nodes: h1\nintervals: {scan: 1}\ndisks:\n  - {model: M}\n"
    assert [problem.line for problem in check_text(text).problems] == [1, 2, 4]


def test_what_devices_finds_wrong_gets_the_line_of_its_entry() -> None:
    checked = check_text("device_classes:\n  - name: a\n  - name: b\n")
    assert [str(problem).partition(": expected")[0] for problem in checked.problems] == [
        "line 2: device_classes[0]: source is None",
        "line 3: device_classes[1]: source is None",
    ]


class Clock:
    def __init__(self) -> None:
        self.ticks = 0

    def __call__(self) -> str:
        self.ticks += 1
        return f"2026-01-01T00:00:{self.ticks:02d}Z"


def configuration(folder: Path, node: str = "h1") -> Configuration:
    return Configuration([folder / "agent.yaml"], node, str(folder / "state"), Clock())


def write(path: Path, text: str) -> None:
    """As a careful writer does it: a new inode each time."""
    path.with_suffix(".tmp").write_text(text)
    os.replace(path.with_suffix(".tmp"), path)


def test_a_changed_file_is_taken_when_it_stays_the_same_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    write(path, GOOD)
    config = configuration(tmp_path)
    config.start()
    first = config.in_force
    assert (first.problem, config.settings.node) == ("", "h1")
    assert not config.poll()

    write(path, GOOD.replace("5m", "6m"))
    assert not config.poll()  # just seen: it may still be written
    assert config.poll()
    assert config.settings.intervals.scan == 360
    assert config.in_force.digest != first.digest
    assert config.in_force.since != first.since
    second = config.in_force

    write(path, GOOD.replace("5m", "1"))
    assert [config.poll(), config.poll()] == [False, False]
    assert config.settings.intervals.scan == 360
    assert (config.in_force.digest, config.in_force.since) == (second.digest, second.since)
    assert "line 8: intervals.scan is 1" in config.in_force.problem

    path.unlink()
    assert not config.poll()
    config.poll()
    assert "cannot be read: No such file" in config.in_force.problem
    write(path, GOOD.replace("5m", "6m"))
    config.poll()
    config.poll()
    assert config.in_force == second  # the same again: in force since then, and nothing is wrong any more


def test_an_agent_that_starts_with_a_bad_file_goes_on_with_the_last_good_one(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    write(path, "node: [")
    with pytest.raises(InputError, match=r"line 1: is not YAML.*no last good configuration"):
        configuration(tmp_path).start()
    write(path, GOOD)
    config = configuration(tmp_path)
    config.start()
    kept = tmp_path / "state" / "configuration.last-good.yaml"
    assert kept.stat().st_mode & 0o777 == 0o600
    write(path, "nodes: h1\n")
    again = configuration(tmp_path)
    again.start()
    assert again.in_force.digest == config.in_force.digest
    assert "nodes is not known" in again.in_force.problem


def test_what_cannot_change_while_the_agent_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    write(path, GOOD.replace("h1", "h2"))
    with pytest.raises(InputError, match="node is 'h2', and this agent runs with 'h1'"):
        configuration(tmp_path).start()
    write(path, GOOD)
    config = configuration(tmp_path)
    config.start()
    write(path, GOOD + "mount_root: /mnt/elsewhere\n")
    assert not config.reload()
    assert "mount_root is '/mnt/elsewhere'" in config.in_force.problem
    assert config.settings.mount_root == "/var/lib/berth/disks"
    write(path, GOOD.replace("poll: 1", "poll: 1, lease: 30"))
    assert not config.reload()
    assert "intervals.lease is 30.0, and this agent runs with 60.0: restart it" in config.in_force.problem


def test_a_node_must_be_named_somewhere(tmp_path: Path) -> None:
    write(tmp_path / "agent.yaml", "disks: []\n")
    with pytest.raises(InputError, match="node is missing"):
        configuration(tmp_path, node="").start()
    config = configuration(tmp_path)
    config.start()
    assert config.settings.node == "h1"


def test_the_first_file_that_exists_is_read(tmp_path: Path) -> None:
    write(tmp_path / "default.yaml", GOOD)
    config = Configuration([tmp_path / "h1.yaml", tmp_path / "default.yaml"], "h1", str(tmp_path / "state"), Clock())
    config.start()
    write(tmp_path / "h1.yaml", GOOD.replace("5m", "7m"))
    config.poll()
    assert config.poll()
    assert config.settings.intervals.scan == 420
