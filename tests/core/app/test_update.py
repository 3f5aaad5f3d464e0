"""How an update goes from pod to pod, against a small StatefulSet controller and kubelet that act in any order."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app import manifests
from berth_core.app.hook_rules import HookState
from berth_core.app.observed import Observed
from berth_core.app.plan import hand_made, make_plan, stateful_set_change
from berth_core.app.pod_revision import HASH, UPDATING, Mark, Target, ends_for
from berth_core.app.update import begins, roll
from berth_core.app.update_rules import UpdateRules, update_rules
from berth_core.app.update_step import BEGIN, CREATE, DELETE, MARK, PATCH, RESIZE
from berth_core.app.wanted import parse_app
from berth_core.errors import InputError, StateError
from berth_core.model.labels import LabelSelector
from berth_core.model.times import age
from tests.core.app import update_moves as moves
from tests.core.app.samples import GOOD, changed

OWN = Mark("annotations", "berth.dev/revision")


def template(image="db:1", cpu="500m", labels=None, **container):
    main = {"name": "db", "image": image, "resources": {"requests": {"cpu": cpu}}, **container}
    return {"metadata": {"labels": {"app": "db", **(labels or {})}}, "spec": {"containers": [main]}}


def rules(strategy="in_place_if_possible", partition=0, unavailable=1, **more):
    return UpdateRules(strategy, partition, unavailable, **more)


ROLE = LabelSelector.from_labels({"role": "primary"})


class Cluster:
    """Pods of one app. ``templates``: by revision; the last one is what the StatefulSet has."""

    def __init__(self, replicas, **templates):
        self.replicas, self.templates, self.mark = replicas, dict(templates), HASH
        self.revision, self.counter, self.bare = next(reversed(templates)), 0, False
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.pods = {}
        first = next(iter(templates))
        for ordinal in range(replicas):
            self.make(ordinal, first)
            self.kubelet(ordinal)
        self.log = []

    def target(self):
        return Target(self.revision, self.templates[self.revision], self.templates, self.mark, not self.bare)

    def name(self, ordinal):
        return f"db-{ordinal}"

    def make(self, ordinal, revision):
        self.counter += 1
        body = copy.deepcopy(self.templates[revision])
        body["metadata"].update(name=self.name(ordinal), uid=str(self.counter), resourceVersion="1")
        body["metadata"].setdefault(self.mark.part, {})[self.mark.key] = revision
        body["status"] = {"conditions": [], "containerStatuses": [{"name": "db"}]}
        self.pods[self.name(ordinal)] = body

    def ready(self, ordinal):
        pod = self.pods.get(self.name(ordinal))
        return pod is not None and any(one["type"] == "Ready" for one in pod["status"]["conditions"])

    def kubelet(self, ordinal):
        """Start what the pod asks for; or the controller makes it anew."""
        pod = self.pods.get(self.name(ordinal))
        if pod is None:
            if not self.bare:
                self.make(ordinal, self.revision)
            return
        self.counter += 1
        container, status = pod["spec"]["containers"][0], pod["status"]["containerStatuses"][0]
        if status.get("runs") != container["image"]:
            status.update(runs=container["image"], containerID=f"containerd://{self.counter}")
        if not self.ready(ordinal):
            since = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            pod["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]

    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)

    def elect(self, *ordinals):
        for ordinal in range(self.replicas):
            self.pods[self.name(ordinal)]["metadata"]["labels"].pop("role", None)
        for ordinal in ordinals:
            self.pods[self.name(ordinal)]["metadata"]["labels"]["role"] = "primary"

    def roll(self, asked):
        return roll("db", range(self.replicas), self.pods, self.target(), asked, self.now)

    def act(self, act):
        name, pod = self.name(act.ordinal), self.pods.get(self.name(act.ordinal))
        self.log.append((act.do, act.ordinal))
        if act.do == DELETE:
            del self.pods[name]
        elif act.do == CREATE:
            self.make(act.ordinal, self.revision)
        else:
            before = pod["spec"]["containers"][0]["image"]
            merge(pod, act.body)
            if pod["spec"]["containers"][0]["image"] != before:  # the kubelet stops the old container first
                pod["status"]["conditions"] = []

    def finish(self, asked, steps=200):
        for _number in range(steps):
            rolled = self.roll(asked)
            if not rolled.acts and not rolled.waits:
                return
            for act in rolled.acts:
                self.act(act)
            self.meanwhile()
            self.wait(1)
        raise AssertionError(f"it does not end: {self.roll(asked)}, {self.log[-9:]}")

    def meanwhile(self):
        """What others do between two looks."""
        for ordinal in range(self.replicas):
            self.kubelet(ordinal)


def merge(live, patch):
    for key, value in patch.items():
        if value is None:
            live.pop(key, None)
        elif isinstance(value, dict):
            merge(live.setdefault(key, {}), value)
        else:
            live[key] = copy.deepcopy(value)


def test_an_image_goes_into_running_pods_from_the_highest_ordinal_on():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    uids = [pod["metadata"]["uid"] for pod in cluster.pods.values()]
    cluster.finish(rules())
    assert cluster.log == [(do, ordinal) for ordinal in (2, 1, 0) for do in (PATCH, MARK)]
    assert [pod["metadata"]["uid"] for pod in cluster.pods.values()] == uids
    for pod in cluster.pods.values():
        assert pod["spec"]["containers"][0]["image"] == "db:2"
        assert pod["metadata"]["labels"][HASH.key] == "two"
        assert UPDATING not in pod["metadata"]["annotations"]


def test_a_replica_is_done_when_its_container_is_another_one():
    cluster = Cluster(1, one=template(), two=template("db:2"))
    cluster.act(cluster.roll(rules()).acts[0])
    pod = cluster.pods["db-0"]
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]  # the kubelet has not looked yet
    rolled = cluster.roll(rules())
    assert (rolled.acts, rolled.waits) == ((), ("pod db-0 to start container db with its new image",))
    cluster.kubelet(0)
    assert [act.do for act in cluster.roll(rules()).acts] == [MARK]


def test_the_same_digest_under_a_new_tag_ends_too():
    """imageID is the same before and after: what tells is the kubelet's look, and that another container runs."""
    cluster = Cluster(1, one=template("db:1"), two=template("db:1.0"))
    pod = cluster.pods["db-0"]
    told = pod["status"]["containerStatuses"][0]
    told["imageID"] = "registry.example/db@sha256:5c1e"
    before = dict(told)
    cluster.act(cluster.roll(rules()).acts[0])
    pod["metadata"]["generation"], pod["status"]["observedGeneration"] = 2, 1
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]  # of the old container
    assert cluster.roll(rules())[:2] == ((), ("pod db-0 to be seen by its kubelet",))
    pod["status"]["observedGeneration"] = 2
    assert cluster.roll(rules())[:2] == ((), ("pod db-0 to start container db with its new image",))
    cluster.kubelet(0)
    assert told["imageID"] == before["imageID"]
    assert told["containerID"] != before["containerID"]
    assert [act.do for act in cluster.roll(rules()).acts] == [MARK]
    cluster.finish(rules())
    assert cluster.log == [(PATCH, 0), (MARK, 0)]


def test_a_sidecar_ends_too():
    """An init container that runs as long as the pod; one that has ended is not waited for."""
    first = [{"name": "beside", "image": "log:1", "restartPolicy": "Always"}, {"name": "once", "image": "init:1"}]
    then = [{**one, "image": one["image"].replace(":1", ":2")} for one in first]
    old, new = template(), template()
    old["spec"]["initContainers"], new["spec"]["initContainers"] = first, then
    cluster = Cluster(1, one=old, two=new)
    pod = cluster.pods["db-0"]
    statuses = [{"name": one["name"], "containerID": f"containerd://{one['name']}-1"} for one in first]
    pod["status"]["initContainerStatuses"] = statuses
    assert ends_for(pod, cluster.target())
    cluster.act(cluster.roll(rules()).acts[0])
    assert cluster.roll(rules())[:2] == ((), ("pod db-0 to start container beside with its new image",))
    statuses[0]["containerID"] = "containerd://beside-2"
    assert [act.do for act in cluster.roll(rules()).acts] == [MARK]


def test_an_older_observed_generation_is_waited_for():
    cluster = Cluster(1, one=template(), two=template(labels={"tier": "gold"}))
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.pods["db-0"]["metadata"]["generation"] = 2
    cluster.pods["db-0"]["status"]["observedGeneration"] = 1
    assert cluster.roll(rules()).waits == ("pod db-0 to be seen by its kubelet",)


def test_cpu_is_resized_and_followed():
    cluster = Cluster(1, one=template(), two=template(cpu="1"))
    cluster.act(cluster.roll(rules()).acts[0])
    (act,) = cluster.roll(rules()).acts
    assert act.do == RESIZE
    assert act.body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    cluster.act(act)
    cluster.act(cluster.roll(rules()).acts[0])
    pod = cluster.pods["db-0"]
    deferred = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room"}
    pod["status"]["conditions"].append(deferred)
    assert cluster.roll(rules()).waits == ("pod db-0 to be resized: Deferred: no room",)
    pod["status"]["conditions"].remove(deferred)
    cluster.finish(rules())
    assert [do for do, _ordinal in cluster.log] == [BEGIN, RESIZE, PATCH, MARK]


def test_a_resize_after_which_the_run_died_is_taken_back_with_the_template():
    cluster = Cluster(1, one=template(), two=template(cpu="1"))
    for _number in range(2):
        cluster.act(cluster.roll(rules()).acts[0])
    assert cluster.pods["db-0"]["spec"] == template(cpu="1")["spec"]
    cluster.revision = "one"
    cluster.finish(rules())
    assert cluster.pods["db-0"]["spec"] == template()["spec"]


def infeasible(cluster):
    for _number in range(2):
        cluster.act(cluster.roll(rules()).acts[0])
    told = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "node has 2 cpu"}
    cluster.pods["db-0"]["status"]["conditions"].append(told)


def test_what_the_node_cannot_resize_is_made_anew_there():
    cluster = Cluster(1, one=template(), two=template(cpu="1"))
    infeasible(cluster)
    cluster.finish(rules())
    assert [do for do, _ordinal in cluster.log] == [BEGIN, RESIZE, DELETE]


def test_what_the_node_cannot_resize_stops_where_only_in_place_is_allowed():
    cluster = Cluster(1, one=template(), two=template(cpu="1"))
    infeasible(cluster)
    with pytest.raises(StateError, match="node has 2 cpu"):
        cluster.roll(rules("in_place_only"))


@pytest.mark.parametrize(
    ("strategy", "new"),
    [("in_place_if_possible", template(command=["x"])), ("same_node", template("db:2"))],
)
def test_a_new_pod_after_the_other(strategy, new):
    cluster = Cluster(3, one=template(), two=new)
    cluster.finish(rules(strategy))
    assert cluster.log == [(DELETE, 2), (DELETE, 1), (DELETE, 0)]


def test_bare_pods_are_made_anew_by_us():
    cluster = Cluster(2, one=template(), two=template(command=["x"]))
    cluster.bare, cluster.mark = True, OWN
    for ordinal in range(2):
        cluster.make(ordinal, "one")
        cluster.kubelet(ordinal)
    cluster.finish(rules())
    assert cluster.log == [(DELETE, 1), (CREATE, 1), (DELETE, 0), (CREATE, 0)]


def test_what_only_in_place_forbids_is_named():
    cluster = Cluster(1, one=template(), two=template(command=["x"]))
    with pytest.raises(StateError, match=r"pod db-0 cannot be updated in place: spec.containers\[db\].command"):
        cluster.roll(rules("in_place_only"))


def test_a_template_that_is_forgotten_makes_a_pod_anew():
    cluster = Cluster(1, one=template(), two=template("db:2"))
    del cluster.templates["one"]
    cluster.finish(rules())
    assert cluster.log == [(DELETE, 0)]


def test_the_partition_keeps_lower_ordinals():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.finish(rules(partition=2))
    assert cluster.log == [(PATCH, 2), (MARK, 2)]


def test_others_that_are_not_ready_are_waited_for():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.pods["db-0"]["status"]["conditions"] = []
    rolled = cluster.roll(rules(partition=1))
    assert (rolled.acts, rolled.waits) == ((), ("pod db-0 to be Ready (max_unavailable is 1)",))


def test_a_replica_whose_disk_is_exchanged_is_left_alone_and_counts_as_down():
    cluster, asked = Cluster(3, one=template(), two=template("db:2")), rules()
    beside = {"now": cluster.now, "exchanged": (0,)}
    rolled = roll("db", (1, 2), cluster.pods, cluster.target(), asked, **beside)
    assert (rolled.acts, rolled.waits) == ((), ("pod db-0 to be Ready (max_unavailable is 1)",))
    rolled = roll("db", (1, 2), cluster.pods, cluster.target(), rules(unavailable=2), **beside)
    assert [(act.do, act.ordinal) for act in rolled.acts] == [(PATCH, 2)]
    rolled = roll("db", (1, 2), cluster.pods, cluster.target(), rules(unavailable=2, quorum=2), **beside)
    assert rolled.waits == ("pod db-0 to be Ready (max_unavailable is 2, quorum is 2)",)


def test_a_broken_replica_may_be_mended_by_the_update():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.pods["db-1"]["status"]["conditions"] = []
    assert [(act.do, act.ordinal) for act in cluster.roll(rules()).acts] == [(PATCH, 1)]


def test_a_replica_counts_when_it_has_been_ready_for_long_enough():
    cluster, asked = Cluster(2, one=template(), two=template("db:2")), rules(min_ready=10)
    cluster.wait(60)
    cluster.act(cluster.roll(asked).acts[0])
    cluster.kubelet(1)
    cluster.act(cluster.roll(asked).acts[0])
    assert cluster.log == [(PATCH, 1), (MARK, 1)]
    cluster.wait(4)
    assert cluster.roll(asked)[:3] == ((), ("pod db-1 to be Ready for 10 s",), 6.0)
    cluster.wait(6)
    assert [(act.do, act.ordinal) for act in cluster.roll(asked).acts] == [(PATCH, 0)]


def test_pods_that_have_just_become_ready_are_not_all_taken_at_once():
    """They do not count yet, but they work: only what does not work may be updated whatever the others do."""
    cluster, asked = Cluster(3, one=template(), two=template("db:2")), rules(min_ready=10)
    assert cluster.roll(asked)[:3] == ((), ("pod db-0, db-1, db-2 to be Ready for 10 s (max_unavailable is 1)",), 10.0)
    cluster.pods["db-0"]["status"]["conditions"] = []
    assert [(act.do, act.ordinal) for act in cluster.roll(asked).acts] == [(PATCH, 0)]


def test_a_clock_that_is_behind_waits_no_longer_than_asked_for():
    cluster, asked = Cluster(2, one=template(), two=template("db:2")), rules(min_ready=10)
    cluster.wait(-3600)
    assert cluster.roll(asked).again == 10.0


def test_the_last_replica_has_to_stay_ready_too():
    cluster, asked = Cluster(1, one=template(), two=template("db:2")), rules(min_ready=5)
    cluster.wait(60)
    cluster.finish(asked)
    (condition,) = cluster.pods["db-0"]["status"]["conditions"]
    assert age(condition["lastTransitionTime"], cluster.now) >= 5


def test_the_primary_is_last_whatever_its_ordinal():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.elect(2)
    cluster.finish(rules(primary=ROLE))
    assert cluster.log == [(do, ordinal) for ordinal in (1, 0, 2) for do in (PATCH, MARK)]


def test_the_primary_waits_for_all_others_whatever_may_be_down():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.elect(2)
    asked = rules(primary=ROLE, unavailable=3)
    assert [act.ordinal for act in cluster.roll(asked).acts] == [1, 0]
    for act in cluster.roll(asked).acts:
        cluster.act(act)
    cluster.kubelet(1)
    assert [(act.do, act.ordinal) for act in cluster.roll(asked).acts] == [(MARK, 1)]


def test_a_primary_that_moves_in_the_middle_is_found():
    cluster = Cluster(3, one=template(), two=template(command=["x"]))
    cluster.elect(0)
    asked = rules(primary=ROLE)
    cluster.act(cluster.roll(asked).acts[0])
    cluster.kubelet(2)
    cluster.kubelet(2)
    cluster.elect(1)
    cluster.finish(asked)
    assert cluster.log == [(DELETE, 2), (DELETE, 0), (DELETE, 1)]


def test_a_primary_that_is_down_is_mended_at_once():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.elect(0)
    cluster.pods["db-0"]["status"]["conditions"] = []
    assert [(act.do, act.ordinal) for act in cluster.roll(rules(primary=ROLE)).acts] == [(PATCH, 0)]


def test_paused_finishes_what_is_begun_and_begins_nothing():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.finish(rules(paused=True))
    assert cluster.log == [(PATCH, 2), (MARK, 2)]
    cluster.pods["db-0"]["status"]["conditions"] = []  # what is broken is not begun either
    assert cluster.roll(rules(paused=True))[:3] == ((), (), None)


def test_back_to_the_former_template_in_the_middle():
    cluster = Cluster(2, one=template(), two=template("bad:1", labels={"tier": "gold"}))
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.revision = "one"
    cluster.finish(rules())
    pod = cluster.pods["db-1"]
    assert pod["spec"]["containers"][0]["image"] == "db:1"
    assert pod["metadata"]["labels"] == {"app": "db", HASH.key: "one"}
    assert cluster.log == [(PATCH, 1), (PATCH, 1), (MARK, 1)]


def test_a_pod_that_another_run_has_taken_down_counts_before_its_kubelet_follows():
    """It says that it is Ready, with the container of before: no other one goes beside it."""
    cluster = Cluster(3, one=template(), two=template("db:2"), three=template("db:3"))
    cluster.revision = "two"
    cluster.pods["db-1"]["status"]["conditions"] = []
    (act,) = cluster.roll(rules()).acts
    assert (act.do, act.ordinal) == (PATCH, 1), "who is not Ready is mended first"
    merge(cluster.pods["db-1"], act.body)
    cluster.pods["db-1"]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    cluster.revision = "three"
    assert [(act.do, act.ordinal) for act in cluster.roll(rules()).acts] == [(PATCH, 1)]
    assert cluster.roll(rules(partition=2))[:2] == (
        (),
        ("pod db-1 to be Ready (max_unavailable is 1)",),
    ), "not beside one that the rules keep as it is, either"
    cluster.kubelet(1)
    assert [act.ordinal for act in cluster.roll(rules(partition=2)).acts] == [2]
    cluster.finish(rules())
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods.values()} == {"db:3"}


def test_an_annotation_that_is_no_json_is_an_update_to_nowhere():
    cluster = Cluster(1, one=template())
    cluster.pods["db-0"]["metadata"]["annotations"] = {UPDATING: "{"}
    cluster.finish(rules())
    assert UPDATING not in cluster.pods["db-0"]["metadata"]["annotations"]


def changed_template(image=1, **change):
    return template(f"db:{image}", **change)


@settings(deadline=None)
@given(st.data())
def test_any_order_of_events_keeps_the_promise(data):
    """A run that dies anywhere is continued; a second template comes in the middle; berth never takes too many down.

    tests/apiserver/app/test_update_moves.py has a sample of the same on a real API server.
    """

    def pick(options):
        return data.draw(st.sampled_from(options))

    drawn = moves.scenario(pick, range(1, 5), (0, 3), range(31))
    replicas, primary = drawn.replicas, ROLE if drawn.primary else None
    asked = rules(unavailable=drawn.unavailable, partition=drawn.partition, min_ready=drawn.min_ready, primary=primary)
    cluster = Cluster(replicas, one=template(), two=changed_template(**drawn.second))
    for what, value in drawn.moves:
        if what == moves.ACT:
            down = sum(not cluster.ready(ordinal) for ordinal in range(replicas))
            for act in cluster.roll(asked).acts[:value]:  # it dies after any of them
                was_ready = cluster.ready(act.ordinal)
                cluster.act(act)
                if was_ready and not cluster.ready(act.ordinal):
                    down += 1
                    assert down <= asked.unavailable
        elif what == moves.LATER:
            cluster.wait(2)
        elif what == moves.KUBELET:
            cluster.kubelet(value)
        elif what == moves.CHANGE:
            name, change = value
            cluster.templates.setdefault(name, changed_template(**change))
            cluster.revision = name
        else:
            cluster.pods.pop(cluster.name(value), None)
    cluster.finish(asked)
    for ordinal in range(asked.partition, replicas):
        pod = cluster.pods[cluster.name(ordinal)]
        wanted = cluster.templates[cluster.revision]
        assert pod["spec"] == wanted["spec"]
        assert pod["metadata"]["labels"] == {**wanted["metadata"]["labels"], HASH.key: cluster.revision}
        assert pod["metadata"].get("annotations", {}) == {}
        assert cluster.ready(ordinal)


@pytest.mark.parametrize(
    ("given_", "replicas", "expected"), [(None, 3, 1), ("2", 3, 2), (2, 3, 2), ("50%", 5, 2), ("10%", 3, 1)]
)
def test_max_unavailable(given_, replicas, expected):
    asked = update_rules({"update_strategy": "same_node", "max_unavailable": given_}, replicas, {})
    assert asked == UpdateRules("same_node", 0, expected, pre_pull=True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"update_strategy": "same_node", "partition": 4}, "partition is 4: expected 0 to 3"),
        ({"update_strategy": "same_node", "partition": -1}, "partition is -1"),
        *(
            ({"update_strategy": "same_node", "max_unavailable": bad}, "max_unavailable is ")
            for bad in ("0", "-1", "101%", "1.5", "many", "5%%", "")
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options, told):
    with pytest.raises(InputError, match=told):
        update_rules(options, 3, {})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"min_ready_seconds": -1}, "min_ready_seconds is '-1': expected 0 to 86400 seconds"),
        ({"min_ready_seconds": 3, "told": 4}, "keep one of them"),
        ({"told": "soon"}, "min_ready_seconds is 'soon'"),
        ({"update_order": "primary_last"}, "expected the label that the primary's pod has"),
        ({"update_order": "primary_last", "update_primary_label": "role"}, "update_primary_label is 'role': expected"),
        ({"update_order": "primary_last", "update_primary_label": "a/b/c=x"}, "is not a label's key"),
        ({"update_primary_label": "role=primary"}, "given with update_order reverse: use primary_last"),
        ({"update_primary_command": ["true"]}, "update_primary_command is given with update_order reverse"),
        (
            {"update_order": "primary_last", "update_primary_label": "a=b", "update_primary_command": ["true"]},
            "update_primary_label and update_primary_command are given",
        ),
        ({"update_order": "primary_last", "update_primary_command": []}, "expected a command and its arguments"),
        (
            {"update_strategy": "reschedule", "update_order": "primary_last", "update_primary_command": ["true"]},
            "update_primary_command is given with update_strategy reschedule",
        ),
    ],
)
def test_what_of_the_order_makes_no_sense_is_refused(options, told):
    options = {"update_strategy": "same_node", **options}
    with pytest.raises(InputError, match=told):
        update_rules(options, 3, {"minReadySeconds": options.pop("told", None)})


def test_min_ready_seconds_is_that_of_the_statefulset():
    own = parse_app(changed(template=stateful_set(minReadySeconds=7), update_strategy="same_node"))
    asked = parse_app(changed(min_ready_seconds=7, update_strategy="same_node"))
    assert own.update.min_ready == asked.update.min_ready == 7
    assert manifests.stateful_set(asked)["spec"]["minReadySeconds"] == 7
    assert own.set_revision == asked.set_revision


def test_what_the_rules_leave_is_told():
    partition = parse_app(changed(update_strategy="same_node", replicas=3, partition=2))
    paused = parse_app(changed(update_strategy="same_node", replicas=3, paused=True))
    seen = Observed("db", "default", pods={f"db-{ordinal}": {"metadata": {}} for ordinal in range(3)})
    assert [make_plan(app, seen).outdated for app in (partition, paused)] == [(1, 0), (2, 1, 0)]
    assert [make_plan(app, seen).update for app in (partition, paused)] == [(2,), ()]


def test_nothing_asked_for_is_in_place_where_that_is_possible():
    assert update_rules({}, 3, {}) == UpdateRules("in_place_if_possible", 0, 1, asked=False, pre_pull=True)


def test_the_default_waits_for_a_change_of_the_statefulset_where_a_word_of_it_does_not():
    """An app of an earlier release is not changed by the upgrade alone."""
    default, asked = parse_app(changed()), parse_app(changed(update_strategy="in_place_if_possible"))
    body = manifests.stateful_set(default)
    live = {**body, "spec": {**body["spec"], "updateStrategy": {"type": "RollingUpdate"}}}
    seen = Observed("db", "default", stateful_set=live)
    assert stateful_set_change(default, seen) is None
    assert stateful_set_change(asked, seen)["spec"]["updateStrategy"] == {"type": "OnDelete"}
    more = stateful_set_change(parse_app(changed(replicas=4)), seen)
    assert more["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_a_manifest_that_rolls_is_rolled_by_us_and_by_no_controller_beside():
    """Its pods are to be brought to the template, and an earlier release has left that to their controller."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    app = parse_app(changed(replicas=3, template=stateful_set(updateStrategy=rolling)))
    body = manifests.stateful_set(app)
    assert body["spec"]["updateStrategy"] == {"type": "OnDelete"}
    ours = {"manager": "berth", "fieldsV1": {"f:spec": {"f:updateStrategy": {"f:type": {}}}}}
    live = {
        **body,
        "metadata": {**body["metadata"], "generation": 1, "managedFields": [ours]},
        "spec": {**body["spec"], "updateStrategy": rolling},
        "status": {"observedGeneration": 1, "updateRevision": "two"},
    }
    pods = {f"db-{ordinal}": pod_of(ordinal, "two") for ordinal in range(3)}
    seen = Observed("db", "default", pods=pods, stateful_set=live)
    assert make_plan(app, seen).stateful_set is None, "the upgrade alone changes nothing"
    pods["db-0"] = pod_of(0, "one")
    plan = make_plan(app, seen)
    assert (plan.stateful_set, plan.update, plan.outdated) == (None, (), (0,)), "nor does what is left as it is"
    pods["db-1"] = pod_of(1, "one")
    plan = make_plan(app, seen)
    assert plan.stateful_set["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert (plan.update, plan.outdated) == ((1,), (0,))
    assert hand_made(app, seen, plan) == [], "nobody has changed it by hand"


def pod_of(ordinal, revision):
    meta = {"name": f"db-{ordinal}", "labels": {HASH.key: revision, "berth.dev/ordinal": str(ordinal)}}
    return {"metadata": meta, "spec": {}, "status": {}}


def stateful_set(**spec):
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": GOOD["template"], **spec}}


@pytest.mark.parametrize(
    ("options", "replicas", "told"),
    [
        ({"quorum": 4}, 3, "quorum is 4, and replicas is 3: expected 1 to 3"),
        ({"quorum": 0}, 3, "quorum is 0, and replicas is 3: expected 1 to 3"),
        ({"quorum": 3}, 3, "quorum is 3, max_unavailable is 1, and replicas is 3"),
        ({"quorum": 3, "max_unavailable": "50%"}, 4, "quorum is 3, max_unavailable is 2, and replicas is 4"),
    ],
)
def test_a_quorum_that_could_not_hold_is_refused(options, replicas, told):
    with pytest.raises(InputError, match=told):
        update_rules(options, replicas, {})


def test_who_is_no_part_of_an_update_counts_for_no_quorum():
    """The disk of one replica is being exchanged: of three two are left, and both have to stay."""
    cluster = Cluster(2, one=template(), two=template("db:2"))
    held = cluster.roll(rules(quorum=2))
    assert (held.acts, held.waits) == ((), ("other replicas to be Ready (max_unavailable is 1, quorum is 2)",))
    assert [act.ordinal for act in cluster.roll(rules(quorum=1)).acts] == [1]
    cluster.pods["db-1"]["status"]["conditions"] = []
    assert [act.ordinal for act in cluster.roll(rules(quorum=1)).acts] == [1], "which is down already"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_so_many_stay_ready_as_the_quorum_asks_for(data):
    replicas = data.draw(st.integers(2, 5))
    unavailable = data.draw(st.integers(1, replicas - 1))
    asked = rules("same_node", unavailable=unavailable, quorum=replicas - unavailable)
    cluster = Cluster(replicas, one=template(), two=template("db:2"))
    for _number in range(60):
        rolled = cluster.roll(asked)
        if not rolled.acts and not rolled.waits:
            break
        for act in rolled.acts:
            cluster.act(act)
        assert sum(cluster.ready(ordinal) for ordinal in range(replicas)) >= asked.quorum
        cluster.kubelet(data.draw(st.integers(0, replicas - 1)))


def test_a_replica_has_a_strategy_of_its_own_or_is_left_as_it_is():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    cluster.finish(rules(overrides=((0, ""), (2, "same_node"))))
    assert cluster.log == [(DELETE, 2), (PATCH, 1), (MARK, 1)]
    assert cluster.pods["db-0"]["metadata"]["labels"][HASH.key] == "one"
    cluster.finish(rules("same_node", overrides=((0, "in_place_only"),)))
    assert cluster.log[3:] == [(PATCH, 0), (MARK, 0)]


def test_what_one_replica_alone_forbids_is_named():
    cluster = Cluster(2, one=template(), two=template(command=["x"]))
    with pytest.raises(StateError, match="pod db-0 cannot be updated in place"):
        cluster.roll(rules(overrides=((0, "in_place_only"),)))


def test_who_is_left_as_it_is_is_outdated_in_the_plan():
    asked = changed(workload="Pod", disks=None, update_overrides=[{"ordinal": 1, "hold": True}])
    app = parse_app(asked)
    pods = {}
    for ordinal in range(3):
        meta = {"name": f"db-{ordinal}", "annotations": {OWN.key: "before"}, "labels": {}}
        pods[meta["name"]] = {"metadata": meta, "spec": {}, "status": {}}
    plan = make_plan(app, Observed("db", "default", pods=pods))
    assert (plan.update, plan.outdated) == ((2, 0), (1,))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ([{"ordinal": 3, "hold": True}], r"update_overrides\[0\].ordinal is '3', and replicas is 3: expected 0 to 2"),
        ([{"ordinal": 1, "hold": True}, {"ordinal": 1, "strategy": "same_node"}], "is 1 for a second time"),
        ([{"ordinal": 1}], "either strategy or hold"),
        ([{"ordinal": 1, "hold": True, "strategy": "same_node"}], "either strategy or hold"),
        ([{"ordinal": 1, "strategy": "reschedule"}], "replace has a single replica get another place"),
    ],
)
def test_overrides_that_mean_nothing_are_refused(overrides, told):
    with pytest.raises(InputError, match=told):
        update_rules({"update_overrides": overrides}, 3, {})


def test_a_pod_that_says_it_is_the_primary_is_last():
    cluster = Cluster(3, one=template(), two=template("db:2"))
    known = HookState(primaries=frozenset({cluster.pods["db-2"]["metadata"]["uid"]}))
    for _number in range(40):
        rolled = roll("db", range(3), cluster.pods, cluster.target(), rules(), cluster.now, known)
        if not rolled.acts and not rolled.waits:
            break
        touched = cluster.pods[f"db-{rolled.acts[0].ordinal}"]["metadata"]["labels"][HASH.key] == "one"
        first = touched and rolled.acts[0].do == PATCH
        assert begins(rolled.acts, cluster.pods, "db", cluster.target()) == first
        for act in rolled.acts:
            cluster.act(act)
        cluster.meanwhile()
    assert [ordinal for do, ordinal in cluster.log if do == MARK] == [1, 0, 2]
    asked = update_rules({"update_order": "primary_last", "update_primary_command": ["is", "it"]}, 3, {})
    assert (asked.primary, asked.primary_command) == (None, ("is", "it"))
