"""Files of a scheduler's configuration, beside what kube-scheduler v1.36.4 makes of them."""

from __future__ import annotations

import pytest

from berth_core.config.configuration import SchedulerConfiguration
from berth_core.config.names import POINTS
from berth_core.errors import InputError
from tests.oracle.configurations import configuration
from tests.oracle.conftest import ask

SEEDS = range(600)
OURS = ("LocalDiskFit", "LocalDeviceFit")


@pytest.fixture(scope="module")
def readings(oracle):
    files = [configuration(seed) for seed in SEEDS]
    return list(zip(SEEDS, files, ask(oracle, [{"configuration": file} for file in files]), strict=True))


def ours(file):
    try:
        return SchedulerConfiguration.parse(file), ""
    except InputError as error:
        return None, error.message


def test_the_same_files_are_refused(readings):
    for seed, file, reading in readings:
        _read, error = ours(file)
        assert bool(error) == bool(reading["error"]), f"seed {seed}: {error!r}, kube-scheduler: {reading['error']!r}"
    refused = sum(bool(reading["error"]) for _seed, _file, reading in readings)
    assert len(readings) / 5 < refused < len(readings) * 4 / 5


def test_plugins_stand_where_they_do(readings):
    for seed, file, reading in readings:
        read, error = ours(file)
        if error:
            continue
        for profile, points in zip(read.profiles, reading["profiles"], strict=True):
            for point in POINTS:
                got = [name for name in profile.plugins.points[point] if name not in OURS]
                assert got == [one["name"] for one in points.get(point, [])], f"seed {seed}: {point}"
            weights = {one["name"]: one["weight"] for one in points.get("score", [])}
            assert {name: value for name, value in profile.plugins.weights.items() if name not in OURS} == weights
            profile.build()


def test_arguments_and_settings_have_the_same_defaults(readings):
    for seed, file, reading in readings:
        read, error = ours(file)
        if error:
            continue
        whole = reading["configuration"]
        assert (
            read.parallelism,
            read.percentage_of_nodes_to_score,
            read.pod_initial_backoff,
            read.pod_max_backoff,
        ) == (
            whole["parallelism"],
            whole["percentageOfNodesToScore"],
            whole["podInitialBackoffSeconds"],
            whole["podMaxBackoffSeconds"],
        )
        election = whole["leaderElection"]
        assert read.leader_election.leader_elect == election["leaderElect"]
        assert read.leader_election.resource_name == election["resourceName"]
        for profile, theirs in zip(read.profiles, whole["profiles"], strict=True):
            args = {one["name"]: one["args"] for one in theirs["pluginConfig"]}
            plain = {
                name: {key: v for key, v in one.items() if key not in ("apiVersion", "kind")}
                for name, one in args.items()
            }
            assert {name: dict(one) for name, one in profile.args.items()} == plain, f"seed {seed}"
