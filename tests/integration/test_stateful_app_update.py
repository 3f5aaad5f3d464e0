"""An etcd of three members and a PostgreSQL are updated on real kubelets, under load, with faults in the middle.

Every put and every commit that was acknowledged is there afterwards; a quorum was there all the time; each replica is
on its own disk, and was never there twice.
"""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path

import pytest

from berth_dev.pytest_plugin import cluster_of_hosts, say
from tests.dev.hosts_help import apply, eventually, get, node_ready
from tests.integration import lost_host, update_faults
from tests.integration.test_stateful_app_hosts import APP, app_play, base, last
from tests.support import etcd_members, postgresql
from tests.support.hosts import kill_plays, run_plays
from tests.support.pod_log import PodLog

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

HOSTS = ("h1", "h2", "h3")
FIRST, SECOND, THIRD, NOWHERE = (f"berth.local/{name}" for name in ("busybox:1", "busybox:2", "busybox:3", "nowhere:1"))
#: The database's image by another name.
OTHER = "berth.local/postgresql:other"
LABEL = "berth.dev/app=journal"
#: Seconds after which a silent node is NotReady.
NODE_GRACE = 12
#: A second database beside the first would find this lock taken, and say so on the disk that both have.
ALONE = 'exec 9>/data/lock; flock -n 9 || echo twice >> /data/twice; exec /usr/local/bin/berth-postgres "$@"'


@pytest.fixture(scope="module")
def dev_cluster(tmp_path_factory):
    """Its own, with disks that are given out: other tests leave disks that keep data."""
    with cluster_of_hosts(node_grace=NODE_GRACE) as cluster:
        for host in HOSTS:
            for name in (SECOND, THIRD):
                _tag(cluster, host, FIRST, name)
        run_plays(cluster, base(str(cluster.kubeconfig)), tmp_path_factory.mktemp("base")).ok()
        yield cluster


def _tag(cluster, host, image, name):
    cluster.hosts.enter(host, "/opt/k/ctr", "-n", "k8s.io", "images", "tag", image, name)


class App:
    """``values``: the role's variables; an update says what is different in them."""

    def __init__(self, cluster, folder: Path, template, **values):
        self.cluster, self.folder, self.template = cluster, folder, template
        self.values = {**copy.deepcopy(APP), "stateful_app_wait_timeout": 60, **values}
        self.label = f"berth.dev/app={self.values['stateful_app_name']}"

    def role(self, **container):
        """By the role, over ssh: the first time it brings the disks to where the pods find them."""
        values = {**self.values, "stateful_app_template": self._with(container, {})}
        play = app_play(str(self.cluster.kubeconfig), **values)
        return run_plays(self.cluster, [play], self.folder)

    def play(self, labels=None, wait_timeout=60, options=None, **container):
        """By the module alone: its disks are where they belong."""
        known = {key: value for key, value in self.values.items() if key.startswith("stateful_app_")}
        values = {key.removeprefix("stateful_app_"): value for key, value in known.items()}
        more = {"kubeconfig": str(self.cluster.kubeconfig), "wait": True, "wait_timeout": wait_timeout}
        template = self._with(container, labels or {})
        step = {"berth.stateful.stateful_app": {**values, "template": template, **more, **(options or {})}}
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False}
        return [{**play, "tasks": [{"name": "The app", **step}]}]

    def module(self, **changes):
        return run_plays(self.cluster, self.play(**changes), self.folder)

    def update(self, **changes):
        """The result of a run that ends well."""
        return last(self.module(**changes).ok(), "The app")

    def _with(self, container, labels):
        template = copy.deepcopy(self.template)
        template["metadata"] = {"labels": labels}
        template["spec"]["containers"][0].update(container)
        return template

    def pods(self, path=".metadata.uid"):
        return pods(self.cluster, path, self.label)


def pods(cluster, path, label=LABEL):
    told = cluster.kubectl("get", "pods", "-l", label, "-o", f"jsonpath={{range .items[*]}}{{{path}}}{{'\\n'}}{{end}}")
    return told.split()


def pull_pods(app):
    return app.cluster.kubectl("get", "pods", "-l", f"{app.label}.p", "-o", "name").split()


def cpu(amount):
    return {"requests": {"cpu": amount}}


def sized(amount, memory, limit):
    """In every size of the same QoS class, so that a running pod takes it."""
    return {"requests": {"cpu": amount, "memory": memory}, "limits": {"memory": limit}}


def test_three_members_keep_their_quorum_and_every_put(dev_cluster, tmp_path):
    # Parallel: no member is Ready before there is a second one
    app = App(dev_cluster, tmp_path, etcd_members.template(dev_cluster), stateful_app_pod_management_policy="Parallel")
    app.role(resources=cpu("10m")).ok()
    with PodLog(dev_cluster, "journal", tmp_path) as log, etcd_members.Puts(dev_cluster) as puts:
        images_and_cpu_change_in_running_pods(app)
        an_image_that_nobody_has(app)
        killed_in_the_middle_and_another_revision(app)
        under_a_cordon(app, puts)
        without_a_kubelet(app, puts)
        update_faults.a_budget_and_taints(app, puts, anew(app, "3", image=FIRST))
        update_faults.a_squatter_on_the_released_cpu(app, puts, log, anew(app, "4", image=FIRST))
        assert puts.missing() == {}
        log.check(least=2)


def images_and_cpu_change_in_running_pods(app):
    uids = app.pods()
    updated = last(app.role(image=SECOND, resources=cpu("20m")).ok())
    fields = ["spec.containers[main].image", "spec.containers[main].resources.requests.cpu"]
    assert [(row["pod"], row["in_place"], row["fields"]) for row in updated["updated"]] == [
        (f"journal-{ordinal}", True, fields) for ordinal in (2, 1, 0)
    ]
    assert not [row for row in updated["updated"] if None in (row["not_ready_seconds"], row["pull_seconds"])]
    assert [row["pulled"] for row in updated["updated"]] == [[SECOND]] * 3
    assert pull_pods(app) == [], "containerd has started nothing of them, and they are gone"
    assert app.pods() == uids, "the same pods"
    assert set(app.pods(".status.containerStatuses[0].restartCount")) == {"1"}
    assert set(app.pods(".status.containerStatuses[0].resources.requests.cpu")) == {"20m"}
    assert not app.update(image=SECOND, resources=cpu("20m"))["changed"]


def an_image_that_nobody_has(app):
    uids, in_place = app.pods(), {"options": {"update_strategy": "in_place_only"}}
    stuck = app.module(image=NOWHERE, resources=cpu("20m"), **in_place).failed()
    assert "pod journal-2 is not updated: node h" in stuck["msg"]
    assert "ErrImageNeverPull" in stuck["msg"]
    assert app.pods(".spec.containers[0].image") == [SECOND] * 3, "none was touched"
    assert set(app.pods(".status.containerStatuses[0].ready")) == {"true"}
    assert set(app.pods(".status.containerStatuses[0].restartCount")) == {"1"}
    assert len(pull_pods(app)) == 1, "it can be looked at"
    app.update(image=FIRST, resources=cpu("20m"), **in_place)
    assert pull_pods(app) == []
    assert set(app.pods(".spec.containers[0].image")) == {FIRST}
    assert app.pods() == uids


def killed_in_the_middle_and_another_revision(app):
    uids = app.pods()

    def begun():
        return eventually(lambda: SECOND in app.pods(".spec.containers[0].image"), 60, "the first pod's new image")

    assert kill_plays(app.cluster, app.play(image=SECOND, resources=cpu("20m")), app.folder, begun)
    assert set(app.pods(".spec.containers[0].image")) == {FIRST, SECOND}, "in the middle"
    overtaken_in_the_middle(app)
    assert set(app.pods(".spec.containers[0].image")) == {THIRD}
    assert set(app.pods(".status.containerStatuses[0].resources.requests.cpu")) == {"10m"}
    assert app.pods() == uids


def overtaken_in_the_middle(app):
    """A run goes on with another template, and a third one comes while it is under way: that brings its own to all."""
    older = app.play(image=THIRD, resources=cpu("20m"), options={"min_ready_seconds": 8})
    with update_faults.Background(older, app.folder) as run:
        eventually(lambda: THIRD in app.pods(".spec.containers[0].image"), 60, "the first pod of the older run")
        assert set(app.pods(".spec.containers[0].image")) != {THIRD}, "in the middle"
        app.update(image=THIRD, resources=cpu("10m"))
        run.fails(
            "StatefulSet default/journal was given revision .*it is overtaken and has ended, nothing was taken back"
        )


def anew(app, number="2", **changes):
    """The arguments that make new pods."""
    env = [*app.template["spec"]["containers"][0]["env"], {"name": "ROUND", "value": number}]
    return {"image": THIRD, "resources": cpu("10m"), "env": env, **changes}


def under_a_cordon(app, puts):
    """A pod that would not come back to its node does not go, and none of the others."""
    before, (node,) = app.pods(), {pod["spec"]["nodeName"] for pod in _items(app) if _name(pod) == "journal-1"}
    app.cluster.kubectl("cordon", node)
    refused = app.module(**anew(app)).failed()
    assert f"the new template of default/journal-1 does not fit its node {node}" in refused["msg"]
    assert f"uncordon {node}" in refused["msg"]
    assert app.pods() == before
    puts.go_on()
    app.cluster.kubectl("uncordon", node)
    app.update(**anew(app))
    assert not set(app.pods()) & set(before)


def without_a_kubelet(app, puts):
    """A node falls silent in the middle: no other replica is touched until it is back."""
    (host,) = {pod["spec"]["nodeName"] for pod in _items(app) if _name(pod) == "journal-0"}
    app.update(**anew(app, image=FIRST), options={"partition": 2})
    with _stopped(app.cluster, host, "kubelet"):
        eventually(lambda: node_ready(app.cluster, host) != "True", 60, f"node {host} NotReady")
        eventually(lambda: "False" in app.pods(".status.conditions[?(@.type=='Ready')].status"), 30)
        late = app.module(**anew(app, image=FIRST), wait_timeout=8).failed()
        assert "journal-0" in late["msg"]
        assert app.pods(".spec.containers[0].image")[1:] == [THIRD, FIRST], "the one that is Ready stays as it is"
        puts.go_on()
    assert [app.update(**anew(app, image=FIRST))["changed"] for _run in range(2)] == [True, False]
    assert set(app.pods(".spec.containers[0].image")) == {FIRST}


@contextlib.contextmanager
def _stopped(cluster, host, service):
    mark = f"/run/berth/stopped/{service}"
    cluster.hosts.enter(host, "sh", "-c", f"mkdir -p {Path(mark).parent}; touch {mark}; kill $(pgrep -x {service})")
    try:
        yield
    finally:
        cluster.hosts.enter(host, "rm", mark)
        eventually(lambda: node_ready(cluster, host) == "True", 60, f"node {host} Ready again")


def _items(app):
    return get(app.cluster, "pods", "-l", app.label)["items"]


def _name(pod):
    return pod["metadata"]["name"]


def database(cluster, host):
    """The role's variables for a PostgreSQL of one replica that runs on this host, where its image is."""
    cluster.hosts.load_image("postgresql", say, only=[host])
    rules = postgresql.config_map(cluster, "ledger")
    rules["data"]["pg_hba.conf"] += "host replication all samenet trust\n"  # for a standby, should it get one
    apply(cluster, rules)
    template = {"spec": postgresql.pod_spec("ledger")}
    (container,) = template["spec"]["containers"]
    container.update(command=["sh", "-c", ALONE, "sh"], env=[{"name": "PGDATA", "value": "/data/pgdata"}])
    container["readinessProbe"] = {"exec": {"command": ["pg_isready", "-h", "/tmp"]}, "periodSeconds": 2}
    template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": host}
    only = {"stateful_app_replicas": 1, "stateful_app_topology_spread_constraints": []}
    return {"stateful_app_name": "ledger", "stateful_app_template": template, **only}


@pytest.fixture
def ledger(dev_cluster, tmp_path):
    values = database(dev_cluster, "h1")
    _tag(dev_cluster, "h1", postgresql.IMAGE, OTHER)
    app = App(dev_cluster, tmp_path, values["stateful_app_template"], **values)
    commits = postgresql.Commits(dev_cluster, "h1", tmp_path)
    try:
        yield app, commits
    finally:
        commits.stop_writer()


def test_a_database_keeps_every_commit(ledger, tmp_path):
    app, commits = ledger
    small = sized("20m", "48Mi", "256Mi")
    app.role(resources=small).ok()
    uids, pod = app.pods(), get(app.cluster, "pods", "ledger-0")
    commits.start_writer()
    with PodLog(app.cluster, "ledger", tmp_path) as log:
        went_on(commits, connections=1)
        now = {"image": OTHER, "labels": {"tier": "gold"}, "resources": small}
        changed = app.update(**now)
        assert changed["updated"][0]["fields"] == ["metadata.labels", "spec.containers[main].image"]
        went_on(commits, connections=2)
        for size in (("50m", "64Mi", "320Mi"), ("10m", "48Mi", "256Mi")):
            now["resources"] = sized(*size)
            app.update(**now)
            assert told_sizes(app) == [size]
        too_much = app.module(**{**now, "resources": sized("1000", "48Mi", "256Mi")}).failed()
        assert "the new template of default/ledger-0 does not fit its node h1" in too_much["msg"]
        assert (told_sizes(app), app.pods(".spec.containers[0].resources.requests.cpu")) == ([size], ["10m"])
        assert (app.pods(), app.pods(".status.containerStatuses[0].restartCount")) == (uids, ["1"])
        went_on(commits, connections=2)
        now = update_faults.a_resize_that_its_node_puts_off(app, {**now, "image": postgresql.IMAGE})
        assert (app.pods(), app.pods(".status.containerStatuses[0].restartCount")) == (uids, ["2"])
        went_on(commits, connections=3)

        now["args"] = [*pod["spec"]["containers"][0]["args"], "-c", "work_mem=2MB"]
        app.update(**now)
        assert app.pods() != uids
        went_on(commits, connections=4)

        stuck = app.module(**{**now, "image": NOWHERE}).failed()
        assert "pod ledger-0 is not updated: node h1 cannot pull berth.local/nowhere:1" in stuck["msg"]
        back = {**now, "image": NOWHERE, "options": {"rollback_to": "previous"}}
        assert [app.update(**back)["changed"] for _run in range(2)] == [True, False]
        assert app.pods(".spec.containers[0].image") == [postgresql.IMAGE]
        went_on(commits, connections=4)
        assert not commits.missing()
        log.check(least=0)
    assert app.cluster.kubectl("exec", "ledger-0", "--", "sh", "-c", "cat /data/twice 2>/dev/null || true") == ""
    disks = get(app.cluster, "berths", "ledger-0")["spec"]["disks"]
    assert get(app.cluster, "ld", disks[0]["name"])["spec"]["nodeName"] == "h1"
    lost_host.is_rebuilt_and_comes_back(app, commits, tmp_path)


def told_sizes(app):
    """What the kubelet says that each container has."""
    has = ".status.containerStatuses[0].resources"
    parts = (app.pods(has + one) for one in (".requests.cpu", ".requests.memory", ".limits.memory"))
    return list(zip(*parts, strict=True))


def went_on(commits, connections):
    """The writer commits now, and had to connect so often: each time that the database was ended, and no other time."""
    before = len(commits.acknowledged())
    eventually(lambda: len(commits.acknowledged()) > before + 5, 30, "commits that are acknowledged")
    assert commits.connections() == connections
