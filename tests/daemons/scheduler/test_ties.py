"""Both schedulers on one cluster, the same pods for each: whatever either chooses is one of the best nodes.

Which nodes are best says the engine, of the cluster as it is when the pod comes: all verdicts and scores of
kube-scheduler's default plugins, which tests/oracle holds to kube-scheduler's own code.
"""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import DEFAULT_WEIGHTS, make_profile
from tests.daemons.scheduler.world import until

pytestmark = pytest.mark.slow

#: As kube-scheduler has it without a configuration; disks and devices are nobody's wish here.
THEIRS = [one for one in DEFAULT_WEIGHTS if one[0] not in ("LocalDiskFit", "LocalDeviceFit")]
PROFILE = make_profile("ties", {"PodTopologySpread": {"defaultingType": "System"}}, THEIRS)
ZONE = "topology.kubernetes.io/zone"
NODES = (
    # cpu, zone, labels, taints
    ("4", "a", {"disk": "ssd"}, []),
    ("4", "a", {}, []),
    ("8", "b", {"disk": "ssd"}, []),
    ("8", "b", {}, [{"key": "quiet", "effect": "PreferNoSchedule"}]),
    ("2", "c", {}, []),
    ("4", "c", {"disk": "ssd"}, [{"key": "quiet", "effect": "NoSchedule"}]),
)


def _likes(**labels):
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in labels.items()]
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": one} for one in terms]}


def _beside(app, key, weight=100):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}


def _apart(app, key):
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
        ]
    }


def _spread(app, when="ScheduleAnyway", key=ZONE):
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}]


WEB = {"labels": {"app": "web"}}
PODS = (
    {"cpu": "100m"},
    {"cpu": "500m", **WEB},
    {"cpu": "100m", **WEB, "affinity": {"nodeAffinity": _likes(disk="ssd")}},
    {"cpu": "100m", **WEB, "tolerations": [{"key": "quiet", "operator": "Exists"}]},
    {"cpu": "200m", **WEB, "topologySpreadConstraints": _spread("web")},
    {"cpu": "200m", **WEB, "topologySpreadConstraints": _spread("web", "DoNotSchedule")},
    {"cpu": "100m", "labels": {"app": "db"}, "affinity": {"podAffinity": _beside("web", ZONE)}},
    {"cpu": "100m", "labels": {"app": "db"}, "affinity": {"podAntiAffinity": _apart("db", "kubernetes.io/hostname")}},
    {"cpu": "1500m", "tolerations": [{"key": "quiet", "operator": "Exists"}]},
    {"cpu": "100m", **WEB, "affinity": {"podAntiAffinity": _beside("web", "kubernetes.io/hostname")}},
)


def ground(world):
    for number, (cpu, zone, labels, taints) in enumerate(NODES):
        name = world.node(str(number), cpu=cpu)
        world.api.patch(kinds.NODE, name, None, {"metadata": {"labels": {ZONE: zone, **labels}}})
        # kwok's nodes become Ready some time after they come: what they were tainted with until then has gone.
        until(lambda name=name: not world.api.get(kinds.NODE, name)["spec"].get("taints"), f"{name} keeps its taints")
        if taints:
            world.api.patch(kinds.NODE, name, None, {"spec": {"taints": taints}})


def best_nodes(world, pod):
    """Read the whole cluster; return the names of the nodes with the highest total."""
    tables = {
        "nodes": kinds.NODE,
        "pvs": kinds.PV,
        "pvcs": kinds.PVC,
        "storage_classes": kinds.STORAGE_CLASS,
        "namespaces": kinds.NAMESPACE,
        "csi_nodes": kinds.CSI_NODE,
        "attachments": kinds.VOLUME_ATTACHMENT,
        "csi_drivers": kinds.CSI_DRIVER,
        "capacities": kinds.CSI_STORAGE_CAPACITY,
        "services": kinds.SERVICE,
        "replication_controllers": kinds.REPLICATION_CONTROLLER,
        "replica_sets": kinds.REPLICA_SET,
        "stateful_sets": kinds.STATEFUL_SET,
    }
    placed = [one for one in world.api.list(kinds.POD) if one["spec"].get("nodeName")]
    snapshot = Snapshot.from_objects(pods=placed, **{name: world.api.list(kind) for name, kind in tables.items()})
    outcome = place(PROFILE, snapshot, PlacementRequest(PodInfo.from_manifest(pod)), explain=True)
    best = max((score.total for score in outcome.scores.values()), default=None)
    assert best is not None, outcome.diagnosis.summary()
    return {name for name, score in outcome.scores.items() if score.total == best}


def test_each_choice_of_either_is_among_the_best(world, start, tmp_path):
    ground(world)
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "System"}}]}
    start(config=world.configuration(tmp_path / "ties.yaml", profile))
    chosen = set()
    for number, spec in enumerate(PODS):
        for side, scheduler in (("ours", world.name), ("theirs", "default-scheduler")):
            name = f"{side}-{number}"
            # Held by a gate until the cluster was looked at: then nothing changes before the choice.
            world.pod(name, schedulerName=scheduler, schedulingGates=[{"name": "it/looked-at"}], **spec)
            best = best_nodes(world, world.get_pod(name))
            world.api.patch(kinds.POD, name, world.name, {"spec": {"schedulingGates": []}})
            (node,) = world.placed(name)
            assert node in best, f"{name} went to {node}, and the best are {sorted(best)}: {spec}"
            until(lambda name=name: world.get_pod(name)["status"].get("phase") == "Running", f"{name} does not run")
            chosen.add(node)
    assert len(chosen) >= 3, f"all went to {chosen}: nothing was compared"
