"""`berth-scheduler simulate --openb`: the openb trace of a cluster with shared GPUs, replayed by the engine.

Called by simulate.py and the bench. The recipe is that of "Beware of Fragmentation" (USENIX ATC 2023): an empty
cluster, the trace's pods in a random order, then pods drawn from the trace until so many per cent of the GPUs were
asked for; one after the other, each tried once, none ever leaves. Filters: cpu, memory, and free GPU. Files: CSV, also
with gzip.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import random
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import BerthError, InputError
from berth_core.framework.cycle import place
from berth_core.framework.profile import Profile
from berth_core.model.device import WHOLE
from berth_core.model.placement import DeviceClaim, Holder, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import make_profile

DEVICE_CLASS = "gpu"
POD_NUMBERS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
POPULAR = 95
"""Per cent of the pods whose kinds are the typical ones, the most frequent kinds first."""
MAX_PODS_PER_NODE = "1001"
MOST_ARRIVED = 1000


class TraceNode(NamedTuple):
    """One line of the node list: thousandths of a core, MiB, GPUs."""

    name: str
    cpu: int
    memory: int
    devices: int


class TracePod(NamedTuple):
    """One line of the pod list. ``shares``: thousandths of each of its ``devices`` GPUs."""

    name: str
    cpu: int
    memory: int
    devices: int
    shares: int


class Trace(NamedTuple):
    """Both lists, sorted by name."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]

    @property
    def shares(self) -> int:
        """All that there is to give out, in thousandths of a GPU."""
        return WHOLE * sum(one.devices for one in self.nodes)


class Replay(NamedTuple):
    """``allocated``: per cent of the GPUs that were given out before more than that many per cent were asked for."""

    allocated: Mapping[int, float]
    placed: int
    unplaced: int


def read_trace(nodes: Path, pods: Path) -> Trace:
    """Read both lists. Raises InputError that names the file, the line and the column."""
    listed = [
        TraceNode(row["sn"], *(_number(row, name, where) for name in ("cpu_milli", "memory_mib", "gpu")))
        for row, where in _rows(nodes, ("sn", "cpu_milli", "memory_mib", "gpu"))
    ]
    waiting = [_pod(row, where) for row, where in _rows(pods, ("name", *POD_NUMBERS))]
    if not any(one.devices for one in listed) or not any(one.shares for one in waiting):
        raise InputError(f"{nodes} and {pods}: expected nodes with GPUs, and pods that ask for some")
    return Trace(tuple(sorted(listed)), tuple(sorted(waiting)))


def _pod(row: Mapping[str, str], where: str) -> TracePod:
    if row.get("gpu_spec"):
        raise InputError(f"{where}: gpu_spec: GPUs of a particular model are not read; take a trace without them")
    cpu, memory, count, shares = (_number(row, name, where) for name in POD_NUMBERS)
    if count and not 1 <= shares <= WHOLE:
        raise InputError(f"{where}: gpu_milli: expected 1 to {WHOLE}, got {shares}")
    return TracePod(row["name"], cpu, memory, count, shares if count else 0)


def _number(row: Mapping[str, str], name: str, where: str) -> int:
    text = row[name] or ""
    if not text.isascii() or not text.isdigit():
        raise InputError(f"{where}: {name}: expected a whole number, got {text!r}")
    return int(text)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Mapping[str, str], str]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as exc:
        raise InputError(f"{path} cannot be read: {exc}") from exc
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{path}: expected the columns {', '.join(columns)}; there is no {missing[0]}")
    for row in reader:
        yield row, f"{path}: line {reader.line_num}"


def arrivals(trace: Trace, seed: int, arrived: int) -> list[TracePod]:
    """The pods in an order of arrival: all of the trace, then drawn ones, until ``arrived`` per cent are asked for."""
    draw = random.Random(seed)  # noqa: S311 - an order that anybody can have again, no secret
    shuffled = list(trace.pods)
    order: list[TracePod] = []
    draw.shuffle(shuffled)
    most, asked = trace.shares * arrived // 100, 0
    for pod in shuffled:
        asked += pod.devices * pod.shares
        if asked > most:
            return order
        order.append(pod)
    while True:
        pod = trace.pods[draw.randrange(len(trace.pods))]
        # As the published program: what is compared is the share of one GPU, also of a pod with several.
        if asked + pod.shares > most:
            break
        asked += pod.devices * pod.shares
        order.append(pod)
    return order


def typical_pods(pods: Iterable[TracePod]) -> list[dict[str, Any]]:
    """The most frequent kinds of pods, until they make up 95 % of all: the argument of DevicePacking."""
    kinds = Counter((one.cpu, one.devices, one.shares) for one in pods)
    enough, found = kinds.total() * POPULAR / 100, 0
    typical = []
    for (cpu, count, shares), weight in sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])):
        if found >= enough:
            break
        found += weight
        typical.append({"cpu": f"{cpu}m", "count": count, "shares": shares or WHOLE, "weight": weight})
    return typical


def packing_profile(trace: Trace, **arguments: Any) -> Profile:
    """The filters of the recipe, and DevicePacking alone to score."""
    args = {"deviceClass": DEVICE_CLASS, "typicalPods": typical_pods(trace.pods), **arguments}
    weights = (("NodeResourcesFit", 0), ("LocalDeviceFit", 0), ("DevicePacking", 1))
    return make_profile("openb", {"DevicePacking": args}, weights)


def empty_cluster(trace: Trace) -> Snapshot:
    """The nodes and their GPUs, all free."""
    return Snapshot.from_objects(
        nodes=(_node(one) for one in trace.nodes),
        devices=(_device(one.name, index) for one in trace.nodes for index in range(one.devices)),
    )


def _node(node: TraceNode) -> dict[str, Any]:
    allocatable = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": MAX_PODS_PER_NODE}
    return {"metadata": {"name": node.name}, "spec": {}, "status": {"allocatable": allocatable}}


def _device(node: str, index: int) -> dict[str, Any]:
    name = f"{node}-{index}"
    spec = {"nodeName": node, "deviceClass": DEVICE_CLASS, "uuid": name, "capacity": {"shares": WHOLE}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def request_of(pod: TracePod, number: int) -> PlacementRequest:
    """What a pod asks for. ``number``: tells pods that were drawn twice apart."""
    requests = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    spec = {"containers": [{"name": "main", "image": "main", "resources": {"requests": requests}}]}
    meta = {"name": f"{pod.name}-{number}", "namespace": "openb", "uid": str(number)}
    devices = (DeviceClaim("gpu", DEVICE_CLASS, pod.devices, pod.shares),) if pod.devices else ()
    return PlacementRequest(PodInfo.from_manifest({"metadata": meta, "spec": spec}), devices=devices)


def replay(trace: Trace, order: Sequence[TracePod], profile: Profile) -> Replay:
    """Place the pods one after the other."""
    snapshot, whole = empty_cluster(trace), trace.shares
    asked = given = placed = 0
    allocated: dict[int, float] = {}
    for number, pod in enumerate(order):
        request = request_of(pod, number)
        found = place(profile, snapshot, request, hints=False).placement
        asked += pod.devices * pod.shares
        if found is not None:
            snapshot.assume(request, found)
            given, placed = given + pod.devices * pod.shares, placed + 1
        allocated[-(-100 * asked // whole)] = 100 * given / whole
    _check(snapshot, given)
    return Replay(allocated, placed, len(order) - placed)


def _check(snapshot: Snapshot, given: int) -> None:
    """What was counted is what the tables say, and nothing is given out twice."""
    nobody = Holder("openb", "", 0)
    free = [snapshot.devices.free(one, nobody) for one in snapshot.devices.devices.values()]
    if min(free, default=0) < 0 or WHOLE * len(free) - sum(free) != given:
        raise BerthError(f"{given} shares were given out, and the tables say {WHOLE * len(free) - sum(free)}")


def replay_command(arguments: argparse.Namespace, profile: Profile | None) -> int:
    """Replay and print. ``profile`` None: the recipe's own filters and DevicePacking."""
    trace = read_trace(*arguments.openb)
    order = arrivals(trace, arguments.seed, arguments.arrived)
    found = replay(trace, order, profile or packing_profile(trace))
    if arguments.output == "json":
        json.dump({"seed": arguments.seed, **found._asdict()}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    last = max(found.allocated)
    for percent, allocated in found.allocated.items():
        if percent % 10 == 0 or percent == last:
            sys.stdout.write(f"{percent:3} % of the GPUs asked for: {allocated:.2f} % given out\n")
    sys.stdout.write(f"{found.placed} pods have a place, {found.unplaced} had none when they came\n")
    return 0
