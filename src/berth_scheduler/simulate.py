"""`berth-scheduler simulate`: where the pods of a file would go, on the cluster of a file. No API server.

Called by __main__. The decisions are the daemon's own: the same profiles, the same engine, one pod after the other in
the order of priority; each choice counts for those that follow. Pods that find no place are told who would have to go,
and nobody goes. Permit, binding and time are not simulated: a group is not all or nothing here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth_core.app.asking import ask
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import BerthError, InputError
from berth_core.framework.contract import Nomination
from berth_core.framework.cycle import place
from berth_core.framework.dry_run import post_filter
from berth_core.framework.profile import Profile
from berth_core.model.placement import Placement
from berth_core.model.pod import PodInfo
from berth_kube.option_values import number, number_within

from .configuration import Configurations
from .files import FileCluster, Obj, checked
from .openb import MOST_ARRIVED, replay_command
from .settings import Settings

MOST_TIMES = 100_000


@dataclass(frozen=True)
class Result:
    """What became of one pod. ``placement`` None: ``why`` says it, and ``instead`` whose room it could have."""

    pod: str
    placement: Placement | None
    why: str = ""
    instead: Nomination | None = None


def add_simulate(commands: Any) -> None:
    """The command `simulate`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "simulate",
        help="tell where pods would go, without an API server",
        description="Places the pods without a node of some files on the nodes of these files, and says where and why.",
        epilog="Exit status: 0 every pod has a place, 1 some have none, 2 a file cannot be read.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="YAML or JSON, as kubectl get -o yaml")
    parser.add_argument("--config", default="", help="KubeSchedulerConfiguration file (default: as run's)")
    parser.add_argument("--profile", default="", help="schedulerName of the profile for all pods (default: the first)")
    parser.add_argument("--times", default="1", help="place the waiting pods so many times (default: 1; 1 to 100000)")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    trace = parser.add_argument_group("the openb trace", "its lists of nodes and pods (CSV, also .gz) instead of files")
    trace.add_argument("--openb", nargs=2, type=Path, metavar=("NODES", "PODS"))
    trace.add_argument("--seed", default="42", help="of the order of arrival (default: 42)")
    trace.add_argument("--arrived", default="130", help="per cent of the GPUs to ask for (default: 130; 1 to 1000)")


def simulate_command(arguments: argparse.Namespace) -> int:
    """Run it and print the answer."""
    times = int(number_within("--times", arguments.times, 1, MOST_TIMES, whole=True))
    arguments.seed = int(number("--seed", arguments.seed, whole=True))
    arguments.arrived = int(number_within("--arrived", arguments.arrived, 1, MOST_ARRIVED, whole=True))
    if bool(arguments.files) == bool(arguments.openb):
        raise InputError("expected files of a cluster, or --openb with the lists of a trace")
    files = Configurations(Settings(config=arguments.config))
    if arguments.openb and not arguments.config:
        return replay_command(arguments, None)
    profile = chosen(files.load(), arguments.profile).build(files.table)
    if arguments.openb:
        return replay_command(arguments, profile)
    cluster = checked(arguments.files)
    results = list(simulate(cluster, profile, times))
    left = room(cluster)
    if arguments.output == "json":
        json.dump(report(results, left), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(results, left))
    return 0 if all(one.placement is not None for one in results) else 1


def chosen(configuration: SchedulerConfiguration, name: str) -> Any:
    """The profile of a name, the first for none."""
    names = [one.scheduler_name for one in configuration.profiles]
    if name and name not in names:
        raise InputError(f"--profile: expected one of {', '.join(names)}, got {name!r}")
    return configuration.profiles[names.index(name) if name else 0]


def simulate(cluster: FileCluster, profile: Profile, times: int = 1) -> Iterator[Result]:
    """Place the waiting pods, the highest priority first, else in the order of the file."""
    for turn in range(times):
        infos = [_read(pod, turn) for pod in cluster.pending]
        for info in sorted(infos, key=lambda one: -one.priority):
            yield _place(cluster, profile, info)


def _read(pod: Obj, turn: int) -> PodInfo:
    if turn:
        pod = deepcopy(pod)
        meta = pod["metadata"]
        meta["name"], meta["uid"] = f"{meta.get('name')}-again-{turn}", f"{meta.get('uid')}-again-{turn}"
    try:
        return PodInfo.from_manifest(pod)
    except BerthError as exc:
        raise InputError(exc.message) from exc


def _place(cluster: FileCluster, profile: Profile, info: PodInfo) -> Result:
    name = f"{info.namespace}/{info.name}"
    if info.gates:
        return Result(name, None, f"waits for its scheduling gates: {', '.join(info.gates)}")
    asked = ask(cluster, info)
    if asked.problem:
        return Result(name, None, asked.problem)
    snapshot, request = cluster.snapshot, asked.request
    node = asked.berth.node_name if asked.berth is not None else None
    kept = snapshot.set_aside(info.namespace, info.name)
    try:
        outcome = place(profile, snapshot, request, only_node=node)
        if outcome.placement is None:
            instead = post_filter(profile, snapshot, request, outcome.diagnosis) if node is None else None
            return Result(name, None, outcome.diagnosis.message(), instead)
    finally:
        snapshot.put_back(info.namespace, info.name, kept)
    snapshot.assume(request, outcome.placement)
    return Result(name, outcome.placement)


def room(cluster: FileCluster) -> dict[str, dict[str, int]]:
    """Per resource what all nodes have, and what is given out of it. Cpu in thousandths of a core."""
    nodes = cluster.snapshot.nodes
    have = {name: int(column.sum()) for name, column in nodes.allocatable.items()}
    return {
        name: {"allocatable": total, "requested": int(nodes.column(nodes.requested, name).sum())}
        for name, total in sorted(have.items())
        if total
    }


def report(results: list[Result], left: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The answer as one document."""
    placed = sum(one.placement is not None for one in results)
    return {
        "placed": placed,
        "unplaced": len(results) - placed,
        "room": left,
        "pods": [_record(one) for one in results],
    }


def _record(one: Result) -> dict[str, Any]:
    if one.placement is not None:
        disks, devices = dict(one.placement.disks), {name: dict(how) for name, how in one.placement.devices.items()}
        return {"pod": one.pod, "node": one.placement.node, "disks": disks, "devices": devices}
    record: dict[str, Any] = {"pod": one.pod, "node": None, "why": one.why}
    if one.instead is not None and one.instead.node:
        victims = [f"{pod.namespace}/{pod.name}" for pod in one.instead.victims]
        record["preempting"] = {"node": one.instead.node, "victims": victims}
    return record


def lines(results: list[Result], left: dict[str, dict[str, int]]) -> Iterator[str]:
    """The answer for a person: one line per pod, then what is left."""
    for one in results:
        if one.placement is not None:
            disks = "".join(f" {claim}={disk}" for claim, disk in sorted(one.placement.disks.items()))
            yield f"{one.pod} -> {one.placement.node}{disks}"
            continue
        yield f"{one.pod}: {one.why}"
        if one.instead is not None and one.instead.node:
            victims = ", ".join(f"{pod.namespace}/{pod.name}" for pod in one.instead.victims)
            yield f"  by preemption: {one.instead.node}, without {victims}"
    placed = sum(one.placement is not None for one in results)
    yield f"{placed} of {len(results)} pods have a place"
    for name, amounts in left.items():
        share = 100 * amounts["requested"] / amounts["allocatable"]
        yield f"{name}: {amounts['requested']} of {amounts['allocatable']} requested ({share:.1f} %)"
