"""A host loses its power, with a database's standby on it and a member of a store: one is rebuilt, the other waits.

Called by test_stateful_app_update, whose three hosts, database and store it uses. The standby gets another host once it
is proven that the first one is off, and has every commit that was acknowledged. The member comes back with its host, to
its own disk. Nobody runs twice.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from berth_dev.pytest_plugin import say
from tests.dev.hosts_help import eventually, get, node_ready, out
from tests.integration.test_stateful_app_hosts import app_play, last
from tests.support import etcd_members, postgresql
from tests.support.hosts import run_plays

PATIENCE = 120
HOSTS = ("h1", "h2", "h3")
#: A second server beside the first would find the lock taken, and say so on the disk that both have. A new standby
#: takes what the first replica has.
STANDBY = """
exec 9>/data/lock; flock -n 9 || echo twice >> /data/twice
if [ "$POD" != ledger-0 ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    until pg_basebackup -h {primary} -U postgres -R -X stream -D "$PGDATA"; do sleep 1; done
fi
exec /usr/local/bin/berth-postgres "$@"
"""


class Pair:
    """The database of one replica gets a standby. ``app``: its App; ``commits``: its writer."""

    def __init__(self, app: Any, commits: postgresql.Commits) -> None:
        self.cluster, self.folder = app.cluster, app.folder
        self.app, self.commits = copy.copy(app), commits
        (self.primary,) = (pod["spec"]["nodeName"] for pod in get(self.cluster, "pods", "-l", app.label)["items"])
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"berth.dev/app": "ledger"}},
        }
        two = {"replicas": 2, "quorum": 1, "topology_spread_constraints": [spread]}
        self.app.values = {**app.values, **{f"stateful_app_{name}": value for name, value in two.items()}}
        self.app.template = self._template(app.template)

    def _template(self, before: dict[str, Any]) -> dict[str, Any]:
        template = copy.deepcopy(before)
        del template["spec"]["nodeSelector"]
        (container,) = template["spec"]["containers"]
        container["command"] = ["sh", "-ec", STANDBY.format(primary=self.commits.address), "sh"]
        container["env"] += [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        return template

    def begin(self) -> None:
        """Both run, each on a host of its own."""
        self.cluster.hosts.load_image("postgresql", say, only=[host for host in HOSTS if host != self.primary])
        self.role()

    def role(self, *args: str, **options: Any) -> dict[str, Any]:
        """By the role, which makes the filesystems of new disks. What the step says that chooses and locks them."""
        more = {f"stateful_app_{name}": value for name, value in options.items()}
        values = {**self.app.values, "stateful_app_template": self.app.template, **more}
        play = app_play(str(self.cluster.kubeconfig), **values)
        ran = run_plays(self.cluster, [play], self.folder, *args).ok()
        return dict(last(ran, "Select, lock and bind the berths"))

    def node(self, name: str) -> str:
        return str(get(self.cluster, "berths", name)["spec"]["nodeName"])

    def disk(self, name: str) -> str:
        return str(get(self.cluster, "berths", name)["spec"]["disks"][0]["name"])

    def caught_up(self, host: str) -> None:
        """The standby there has each commit that is acknowledged by now."""
        promised = self.commits.acknowledged()
        standby = postgresql.Commits(self.cluster, host, self.folder)
        eventually(lambda: promised <= standby.rows(), PATIENCE, f"every commit on {host}")


def is_rebuilt_and_comes_back(app: Any, commits: postgresql.Commits, folder: Path) -> None:
    """The whole story. ``app``: the database, on one host; a store of three members runs beside it, one a host."""
    cluster, pair = app.cluster, Pair(app, commits)
    pair.begin()
    lost, gone = pair.node("ledger-1"), pair.disk("ledger-1")
    (other,) = set(HOSTS) - {pair.primary, lost}
    pair.caught_up(lost)
    members = {one["metadata"]["name"]: one for one in get(cluster, "berths", "-l", "berth.dev/app=journal")["items"]}
    (member,) = (name for name, one in members.items() if one["spec"]["nodeName"] == lost)
    with etcd_members.Puts(cluster, "lost") as puts:
        cluster.hosts.power_off(lost)
        _given_up_once_it_is_proven(pair, lost, other)
        puts.go_on()
        disk = get(cluster, "ld", gone)["spec"]
        assert (disk["unschedulable"], disk.get("claimRef"), disk["retainedFor"]["ordinal"]) == (True, None, 1)

        cluster.hosts.power_on(lost)
        eventually(lambda: node_ready(cluster, lost) == "True", PATIENCE, f"node {lost} Ready")
        eventually(lambda: _ready(cluster, member), PATIENCE, f"{member} on its host")
        puts.go_on()
    assert puts.missing() == {}, "each member has every put, that of the host that was away among them"
    now = get(cluster, "berths", member)
    assert (now["metadata"]["uid"], now["spec"]) == (members[member]["metadata"]["uid"], members[member]["spec"])
    assert out(cluster, lost, "pgrep -x postgres || true") == "", "the standby is elsewhere"
    pair.caught_up(other)
    assert not commits.missing()
    for name in ("ledger-0", "ledger-1"):
        assert cluster.kubectl("exec", name, "--", "sh", "-c", "cat /data/twice 2>/dev/null || true") == ""


def _given_up_once_it_is_proven(pair: Pair, lost: str, other: str) -> None:
    """A silent kubelet proves nothing; then somebody has looked, and says that the host is off."""
    cluster = pair.cluster
    eventually(lambda: node_ready(cluster, lost) != "True", PATIENCE, f"node {lost} is not Ready")
    eventually(lambda: not _ready(cluster, "ledger-1"), PATIENCE, "the standby is not Ready")
    before = get(cluster, "berths", "ledger-1")
    refused = pair.app.module(options={"on_node_loss": "rebuild"}).failed()
    assert f"its node {lost} is lost" in refused["msg"]
    assert "nothing proves that the replica does not run there any more" in refused["msg"]
    assert get(cluster, "berths", "ledger-1") == before
    (row,) = pair.role("--limit", f"!{lost}", on_node_loss="rebuild", confirm_fenced=[lost])["lost"]
    assert (row["pod"], row["node"], row["decision"]) == ("ledger-1", lost, "rebuild")
    assert row["fenced"] == "confirm_fenced says so"
    assert (pair.node("ledger-0"), pair.node("ledger-1")) == (pair.primary, other)
    pair.caught_up(other)


def _ready(cluster: Any, name: str) -> bool:
    told = get(cluster, "pods", "--field-selector", f"metadata.name={name}")["items"]
    conditions = [one for pod in told for one in pod["status"].get("conditions") or ()]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
