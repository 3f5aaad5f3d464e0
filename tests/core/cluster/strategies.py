"""Small clusters and changes to them, for property tests. Few values of everything, so that things meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.model.labels import LabelSelector
from berth_core.model.placement import DeviceClaim, DiskClaim
from tests.core.cluster import objects as make

NODES = ["n1", "n2", "n3", "n4"]
APPS = ["web", "db"]
ordinals = st.integers(0, 2)
node_names = st.sampled_from(NODES)
apps = st.sampled_from(APPS)
zones = st.sampled_from(["a", "b", None])
taints = st.lists(
    st.builds(
        make.taint, st.sampled_from(["k", "l"]), st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    ),
    max_size=2,
)
requests = st.builds(make.container, st.sampled_from([None, "0", "500m", "2"]), st.sampled_from([None, "1Gi", "3Gi"]))
ports = st.lists(
    st.sampled_from([{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 81}]), max_size=1
)


@st.composite
def _affinities(draw) -> dict[str, Any]:
    app, key = draw(apps), draw(st.sampled_from(["zone", "kubernetes.io/hostname"]))
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    kind = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
    if draw(st.booleans()):
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": draw(st.sampled_from([1, 50])), "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


affinities = _affinities()


@st.composite
def nodes(draw) -> dict[str, Any]:
    zone = draw(zones)
    labels = {"zone": zone} if zone else {}
    cpu, memory = draw(st.sampled_from(["2", "4", "8"])), draw(st.sampled_from(["4Gi", "8Gi"]))
    pods = draw(st.sampled_from(["110", "2"]))
    return make.node(draw(node_names), cpu, memory, pods, labels, draw(taints), draw(st.integers(0, 5)) == 0)


@st.composite
def pods(draw) -> dict[str, Any]:
    app = draw(apps)
    where = draw(st.sampled_from([*NODES, "gone", ""]))
    one = draw(requests)
    one["ports"] = draw(ports)
    found = make.pod(f"{app}-{draw(ordinals)}", [one], node_name=where, labels={"app": app})
    if draw(st.integers(0, 3)) == 0:
        found["spec"]["affinity"] = draw(affinities)
    if draw(st.integers(0, 5)) == 0:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if draw(st.integers(0, 5)) == 0:
        found["status"] = {"phase": "Succeeded"}
    return found


@st.composite
def berths(draw) -> dict[str, Any]:
    app = draw(apps)
    asked = draw(st.sampled_from([{}, {"cpu": "1"}, {"cpu": "500m", "memory": "2Gi", "example.com/gpu": "1"}]))
    return make.berth(
        app, draw(ordinals), draw(node_names), asked, {"app": app}, [{"port": 80}] if draw(st.booleans()) else []
    )


@st.composite
def disks(draw) -> dict[str, Any]:
    more: dict[str, Any] = {}
    kind = draw(st.integers(0, 5))
    if kind == 0:
        more["claimRef"] = make.claim_ref(draw(apps), draw(ordinals), draw(st.sampled_from(["data", "log"])))
    if kind == 1:
        more["retainedFor"] = make.retained(draw(apps), draw(ordinals), draw(st.sampled_from(["data", "log"])))
    if kind == 2:
        more["reserved"] = True
    phase = draw(st.sampled_from(["Available"] * 6 + ["Faulted", "Released", "InUse", ""]))
    name = f"d{draw(st.integers(0, 7))}"
    size = draw(st.sampled_from([1, 2, 2, 3])) * make.GI
    return make.disk(name, draw(node_names), size, draw(st.sampled_from(["fast", "fast", "slow"])), phase, **more)


@st.composite
def devices(draw) -> dict[str, Any]:
    refs = [make.share(draw(apps), draw(ordinals), draw(st.sampled_from([250, 500])))] if draw(st.booleans()) else []
    return make.device(f"g{draw(st.integers(0, 3))}", draw(node_names), refs=refs)


@st.composite
def volumes(draw) -> dict[str, Any]:
    bound = ("default", "data-web-0") if draw(st.integers(0, 3)) == 0 else None
    return make.volume(
        f"pv{draw(st.integers(0, 2))}", draw(node_names), draw(st.sampled_from(["1Gi", "2Gi"])), claim=bound
    )


@st.composite
def claims(draw) -> dict[str, Any]:
    kind = draw(st.sampled_from(["bound", "waiting", "made"]))
    if kind == "made":
        return make.claim("data-web-0", draw(st.sampled_from(["1Gi", "2Gi"])), storage_class="made")
    return make.claim("data-web-0", "1Gi", volume_name="pv0" if kind == "bound" else "", bound=kind == "bound")


@st.composite
def csi_drivers(draw) -> dict[str, Any]:
    return make.csi_driver(reports=draw(st.sampled_from([True, True, False])))


@st.composite
def capacities(draw) -> dict[str, Any]:
    where, size = draw(st.sampled_from([*NODES, None])), draw(st.sampled_from(["0", "1Gi", "2Gi"]))
    return make.capacity(f"c{draw(st.integers(0, 2))}", where, size, draw(st.sampled_from(["made", "made", "other"])))


KINDS: dict[str, Any] = {
    "node": nodes(),
    "pod": pods(),
    "berth": berths(),
    "disk": disks(),
    "device": devices(),
    "volume": volumes(),
    "claim": claims(),
    "csi_driver": csi_drivers(),
    "capacity": capacities(),
}
NAMESPACED = ("pod", "berth", "claim", "capacity")
CLASSES = (make.storage_class(), make.storage_class("made", provisioner="csi.example.com"))


@st.composite
def changes(draw) -> tuple[str, str, dict[str, Any]]:
    """An object that comes (or comes again, changed) or goes."""
    kind = draw(st.sampled_from([*KINDS, "node", "pod", "disk", "disk"]))
    return draw(st.sampled_from(["upsert", "upsert", "upsert", "remove"])), kind, draw(KINDS[kind])


@dataclass
class Cluster:
    """The objects that are there after some changes, and the snapshot that was carried along by them."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = field(
        default_factory=lambda: {kind: {} for kind in KINDS}
    )

    def __post_init__(self) -> None:
        for one in CLASSES:
            self.snapshot.upsert_class(one)

    def apply(self, change: tuple[str, str, dict[str, Any]]) -> None:
        action, kind, found = change
        namespace, name = found["metadata"].get("namespace", ""), found["metadata"]["name"]
        if action == "upsert":
            self.objects[kind][namespace, name] = found
            getattr(self.snapshot, f"upsert_{kind}")(found)
        else:
            self.objects[kind].pop((namespace, name), None)
            getattr(self.snapshot, f"remove_{kind}")(*((namespace, name) if kind in NAMESPACED else (name,)))

    def rebuilt(self) -> Snapshot:
        """The same objects, read as if for the first time."""
        listed = {kind: list(found.values()) for kind, found in self.objects.items()}
        return Snapshot.from_objects(
            nodes=listed["node"],
            pods=listed["pod"],
            disks=listed["disk"],
            devices=listed["device"],
            berths=listed["berth"],
            pvs=listed["volume"],
            pvcs=listed["claim"],
            storage_classes=CLASSES,
            csi_drivers=listed["csi_driver"],
            capacities=listed["capacity"],
        )


disk_claims = st.builds(
    DiskClaim,
    name=st.just("data"),
    size_bytes=st.sampled_from([0, make.GI, 2 * make.GI]),
    storage_class=st.sampled_from([None, "fast", "slow"]),
    disk_names=st.sampled_from([(), (), (), ("d0", "d1")]),
)


@st.composite
def wanted(draw):
    """A request to place."""
    app, ordinal = draw(apps), draw(ordinals)
    one = draw(requests)
    one["ports"] = draw(ports)
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        more["nodeSelector"] = {"zone": "a"}
    if draw(st.booleans()):
        more["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": draw(st.sampled_from(["zone", "kubernetes.io/hostname"])),
                "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
                "labelSelector": {"matchLabels": {"app": app}},
                "nodeTaintsPolicy": draw(st.sampled_from(["Honor", "Ignore"])),
            }
        ]
    if draw(st.integers(0, 3)) == 0:
        more["affinity"] = draw(affinities)
    if draw(st.integers(0, 3)) == 0:
        more["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    asked = [draw(disk_claims)] if draw(st.booleans()) else []
    if asked and draw(st.booleans()):
        asked.append(DiskClaim("log", make.GI, selector=LabelSelector()))
    shares = (
        [DeviceClaim("gpu", "gpu", shares=draw(st.sampled_from([250, 1000])))] if draw(st.integers(0, 3)) == 0 else []
    )
    return make.request(make.pod(f"{app}-{ordinal}", [one], labels={"app": app}, **more), asked, shares, app, ordinal)
