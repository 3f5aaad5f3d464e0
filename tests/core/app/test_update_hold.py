"""A replica's room is held while an update makes its pod anew: by which pod, and where that stands in an update.

The cluster here has a node for each replica, with room for just that, and a pod of the same priority that waits for it.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app import helper_pods, manifests, update_hold
from berth_core.app.hook_rules import NO_HOOKS, Hooks
from berth_core.app.observed import Observed
from berth_core.app.plan import make_plan, removal_plan
from berth_core.app.scheduler_install import SHIPPED
from berth_core.app.update import roll
from berth_core.app.update_hold import CLASS, SEEN, Holds, hold_pod, verdict
from berth_core.app.update_rules import update_rules
from berth_core.app.update_step import CREATE, DELETE, DROP, HOLD, MARK, NOMINATE, PATCH
from berth_core.app.wanted import parse_app
from berth_core.errors import StateError
from berth_core.model.labels import LabelSelector
from tests.core.app.samples import changed
from tests.core.app.test_update import merge, rules, template
from tests.core.app.test_update_hooks import BEFORE, Hooked

ASKED = rules(hold=True)
ANEW = template(command=["x"])
STEPS = [HOLD, NOMINATE, DELETE, NOMINATE]


def berth(ordinal, **spec):
    metadata = {"name": f"db-{ordinal}", "uid": f"b{ordinal}"}
    return {"metadata": metadata, "spec": {"nodeName": f"n{ordinal}", "requests": {"cpu": "500m"}, **spec}}


def not_scheduled(reason="Unschedulable", message="Insufficient cpu"):
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


class Holding(Hooked):
    """``taken``: the ordinals whose rooms the others have got."""

    def __init__(self, replicas, hooks=NO_HOOKS.hooks, **templates):
        self.values, self.without, self.taken, self.half = {CLASS: 0}, set(), set(), False
        self.berths = {ordinal: berth(ordinal) for ordinal in range(replicas)}
        super().__init__(replicas, hooks, **templates)

    def make(self, ordinal, revision):
        super().make(ordinal, revision)
        if not hasattr(self, "log"):  # it was there before
            self.pods[self.name(ordinal)]["spec"]["nodeName"] = f"n{ordinal}"

    @property
    def holds(self):
        return helper_pods.of_app(self.pods, "db", helper_pods.HOLD)

    def roll(self, asked):
        holds = Holds(self.holds, self.berths, self.values, frozenset(self.without))
        return roll(*("db", range(self.replicas), self.pods, self.target(), asked, self.now, self.state()), holds=holds)

    def act(self, act):
        if act.do == HOLD:
            body = copy.deepcopy(act.body)
            body["metadata"].update(creationTimestamp=self.now.strftime("%Y-%m-%dT%H:%M:%SZ"), uid=f"h{self.counter}")
            self.counter += 1
            assert self.pods.setdefault(body["metadata"]["name"], body) is body, "there is one already"
        elif act.do == DROP:
            del self.pods[act.body["metadata"]["name"]]
        elif act.do == NOMINATE:
            merge(self.pods[act.nomination.pod["metadata"]["name"]], {"status": act.nomination.patch["status"]})
            for pod in () if self.half else act.nomination.drop:
                del self.pods[pod["metadata"]["name"]]
        else:
            super().act(act)
            return
        self.log.append((act.do, act.ordinal))

    def kubelet(self, ordinal):
        pod = self.pods.get(self.name(ordinal))
        if pod is None or pod["spec"].get("nodeName"):
            super().kubelet(ordinal)

    def held(self, ordinal):
        """Whether kube-scheduler counts a hold pod there."""
        pods = helper_pods.of_ordinal(self.holds, ordinal)
        return any((pod.get("status") or {}).get("nominatedNodeName") == f"n{ordinal}" for pod in pods)

    def scheduler(self, ordinal):
        for pod in helper_pods.of_ordinal(self.holds, ordinal):
            pod.setdefault("status", {})["conditions"] = [not_scheduled()]
        pod = self.pods.get(self.name(ordinal))
        if pod is None or pod["spec"].get("nodeName"):
            return
        if ordinal in self.taken or self.held(ordinal):
            pod["status"]["conditions"] = [not_scheduled()]
            pod["status"].pop("nominatedNodeName", None)  # nobody is preempted, so nobody waits for that
        else:
            pod["spec"]["nodeName"], pod["status"]["conditions"] = f"n{ordinal}", []

    def others(self, ordinal):
        """A pod of the same priority, which is tried now."""
        pod = self.pods.get(self.name(ordinal))
        there = pod is not None and pod["spec"].get("nodeName")
        nominated = pod is not None and pod["status"].get("nominatedNodeName")
        if not (there or nominated or self.held(ordinal)):
            self.taken.add(ordinal)

    def meanwhile(self):
        for each in (self.others, self.kubelet, self.others, self.scheduler, self.others, self.kubelet):
            for ordinal in range(self.replicas):
                each(ordinal)

    def go(self, asked):
        self.finish(asked, steps=60)


# -- where it stands in an update


@pytest.mark.parametrize("bare", [False, True])
def test_the_room_is_held_from_before_the_pod_goes_until_the_new_one_has_it(bare):
    cluster = Holding(2, one=template(), two=ANEW)
    cluster.bare = bare
    cluster.go(ASKED)
    steps = [*STEPS[:3], CREATE, NOMINATE] if bare else STEPS
    assert cluster.log == [(do, ordinal) for ordinal in (1, 0) for do in steps]
    assert not cluster.taken
    assert not cluster.holds


def test_without_it_the_others_get_the_room():
    cluster = Holding(1, one=template(), two=ANEW)
    with pytest.raises(AssertionError, match=r"Ready with the new template \(Insufficient cpu\)"):
        cluster.go(rules())
    assert cluster.taken == {0}
    assert cluster.log == [(DELETE, 0)]


def test_a_pod_that_is_updated_in_place_keeps_its_room_by_itself():
    cluster = Holding(1, one=template(), two=template("db:2"))
    cluster.go(ASKED)
    assert cluster.log == [(PATCH, 0), (MARK, 0)]


def test_the_hook_before_has_been_run_when_the_room_is_held():
    cluster = Holding(1, Hooks(before=("drain",)), one=template(), two=ANEW)
    cluster.go(ASKED)
    assert [do for do, _ordinal in cluster.log] == [BEFORE, *STEPS]


def test_a_room_is_held_for_one_replica_after_the_other():
    cluster = Holding(3, one=template(), two=ANEW)
    cluster.act(cluster.roll(ASKED).acts[0])
    rolled = cluster.roll(ASKED)
    assert rolled.acts == ()
    (name,) = cluster.holds
    words = "scheduler default-scheduler has not looked at it"
    assert rolled.waits == (f"the room of pod db-2 on node n2 to be held (pod {name}: {words})",)
    assert rolled.again == SEEN
    cluster.scheduler(2)
    assert [(act.do, act.ordinal) for act in cluster.roll(ASKED).acts] == [(NOMINATE, 2)]


def test_where_room_is_enough_for_both_the_hold_goes_when_the_pod_has_come():
    cluster = Holding(1, one=template(), two=ANEW)
    for _number in range(3):
        cluster.act(cluster.roll(ASKED).acts[0])
        cluster.scheduler(0)
    cluster.make(0, "two")
    cluster.pods["db-0"]["spec"]["nodeName"] = "n0"
    assert [(act.do, act.ordinal) for act in cluster.roll(ASKED).acts] == [(DROP, 0)]


def at(step):
    """A cluster after so many of the four steps, and the new pod is there after the third."""
    cluster = Holding(1, one=template(), two=ANEW)
    for number in range(step):
        cluster.act(cluster.roll(ASKED).acts[0])
        if number == 2:
            cluster.make(0, "two")
        cluster.scheduler(0)
    return cluster


@pytest.mark.parametrize(("step", "then"), [(1, [DROP]), (2, [DROP]), (3, [DELETE, NOMINATE])])
@pytest.mark.parametrize("asked", [ASKED, rules(), rules(hold=True, unavailable=2)])
def test_an_update_that_is_taken_back_leaves_no_hold(step, then, asked):
    cluster = at(step)
    cluster.revision, cluster.log = "one", []
    cluster.go(asked)
    assert [do for do, _ordinal in cluster.log] == then
    assert not cluster.holds
    assert not cluster.taken


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("asked", [rules(paused=True), rules(partition=1), rules(hold=True, paused=True)])
def test_who_is_not_begun_has_no_hold_and_who_is_comes_home(step, asked):
    cluster = at(step)
    cluster.log = []
    for _number in range(9):
        for act in cluster.roll(asked).acts:
            cluster.act(act)
        cluster.others(0)
        cluster.scheduler(0)
        cluster.kubelet(0)
    assert (cluster.holds, cluster.taken) == ({}, set())
    assert cluster.ready(0)
    assert {do for do, _ordinal in cluster.log} <= {DROP, NOMINATE}


def test_a_pod_that_goes_by_itself_comes_home_into_the_room_that_was_held():
    cluster = at(2)
    del cluster.pods["db-0"]
    cluster.others(0)
    cluster.make(0, "two")
    cluster.others(0)
    cluster.go(ASKED)
    assert not cluster.taken
    assert not cluster.holds


def test_a_new_pod_is_not_nominated_before_it_was_tried():
    """The end of a try that has failed takes a nomination back that was written meanwhile."""
    cluster = at(3)
    cluster.pods["db-0"]["status"]["conditions"] = []
    rolled = cluster.roll(ASKED)
    assert (rolled.acts, rolled.waits) == ((), ("pod db-0 to be Ready with the new template",))
    cluster.scheduler(0)
    cluster.pods["db-0"]["metadata"]["resourceVersion"] = "7"
    (act,) = cluster.roll(ASKED).acts
    assert (act.do, act.nomination.node, len(act.nomination.drop)) == (NOMINATE, "n0", 1)
    assert act.nomination.patch == {
        "metadata": {"uid": cluster.pods["db-0"]["metadata"]["uid"], "resourceVersion": "7"},
        "status": {"nominatedNodeName": "n0"},
    }


def test_a_run_that_died_between_nominating_and_dropping_is_continued():
    cluster = at(3)
    cluster.half = True
    cluster.act(cluster.roll(ASKED).acts[0])
    assert [act.do for act in cluster.roll(ASKED).acts] == [DROP]
    cluster.scheduler(0)  # it was tried meanwhile
    cluster.half = False
    assert [act.do for act in cluster.roll(ASKED).acts] == [NOMINATE]


def test_a_hold_that_lost_its_nomination_gets_it_again():
    cluster = at(2)
    (hold,) = cluster.holds.values()
    del hold["status"]["nominatedNodeName"]
    assert [act.do for act in cluster.roll(ASKED).acts] == [NOMINATE]


def test_a_changed_need_makes_another_hold():
    cluster = at(2)
    cluster.berths = {0: berth(0, requests={"cpu": "2"})}
    assert [act.do for act in cluster.roll(ASKED).acts] == [DROP]
    cluster.go(ASKED)
    assert [do for do, _ordinal in cluster.log] == [HOLD, NOMINATE, DROP, *STEPS]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, "within 30 s scheduler default-scheduler has not looked at it"),
        ({"conditions": [not_scheduled("SchedulingGated", "gates")]}, "has not looked at it (gates)"),
        ({"phase": "Failed", "reason": "Shutdown"}, "Failed (Shutdown)"),
    ],
)
def test_a_hold_that_holds_nothing_stops_no_update(status, words):
    cluster = at(1)
    (hold,) = cluster.holds.values()
    hold["status"] = status
    cluster.wait(SEEN)
    rolled = cluster.roll(ASKED)
    assert [act.do for act in rolled.acts] == [DELETE]
    assert rolled.notes[0].startswith("pod db-0 is made anew without its room being held: ")
    assert words in rolled.notes[0]
    cluster.act(rolled.acts[0])
    cluster.make(0, "two")
    cluster.pods["db-0"]["spec"]["nodeName"] = "n0"
    assert [act.do for act in cluster.roll(ASKED).acts] == [DROP]


@pytest.mark.parametrize("step", [0, 1, 2])
def test_where_it_is_refused_the_update_goes_on(step):
    cluster = at(step)
    cluster.without, cluster.log = {0}, []
    assert [act.do for act in cluster.roll(ASKED).acts] == [DELETE]


def test_a_pod_without_a_node_has_no_room_that_could_be_held():
    cluster = Holding(1, one=template(), two=ANEW)
    del cluster.pods["db-0"]["spec"]["nodeName"]
    assert [act.do for act in cluster.roll(ASKED).acts] == [DELETE]


TEMPLATES = st.sampled_from([template("db:2"), template(command=["x"]), template(command=["y"], cpu="1")])


@settings(deadline=None)
@given(st.data())
def test_in_any_order_of_events_nobody_gets_the_room(data):
    """A driver that dies after any write, schedulers that try whom they like, and templates that change in between."""
    replicas = data.draw(st.integers(1, 2))
    cluster = Holding(replicas, one=template(), two=data.draw(TEMPLATES))
    cluster.bare = data.draw(st.booleans())
    asked = rules(hold=True, unavailable=data.draw(st.integers(1, 2)))
    for _number in range(data.draw(st.integers(0, 40))):
        ordinal = data.draw(st.integers(0, replicas - 1))
        move = data.draw(st.sampled_from(["act", "act", "scheduler", "others", "kubelet", "change"]))
        if move == "act":
            acts = cluster.roll(asked).acts
            cluster.half = data.draw(st.booleans())
            for act in acts[: data.draw(st.integers(0, len(acts)))]:
                cluster.act(act)
        elif move == "change":
            # A pod that has been given the room, and has not taken it yet, would be deleted without a hold.
            if not any(map(given_away, replicas_of(cluster))):
                cluster.revision = data.draw(st.sampled_from(["one", "two", "three"]))
                cluster.templates.setdefault(cluster.revision, data.draw(TEMPLATES))
        else:
            getattr(cluster, move)(ordinal)
    cluster.half = False
    cluster.go(asked)
    for pod in replicas_of(cluster):
        assert pod["metadata"]["labels"]["controller-revision-hash"] == cluster.revision
    assert (cluster.taken, cluster.holds) == (set(), {})


def replicas_of(cluster):
    return [pod for name, pod in cluster.pods.items() if name not in cluster.holds]


def given_away(pod):
    return bool(pod["status"].get("nominatedNodeName")) and not pod["spec"].get("nodeName")


# -- the pod


def made(record=None, pod=None, **spec):
    own = {"metadata": {"name": "db-0", "uid": "u", "namespace": "d"}, "spec": {"nodeName": "n0", **(pod or {})}}
    return hold_pod("db", 0, own, {"spec": {**template()["spec"], **spec}}, record or berth(0))


def test_a_hold_pod_is_nobodys_replica_and_no_node_takes_it():
    pod = made(pod={"schedulerName": "own"}, serviceAccountName="db", nodeSelector={"a": "b"}, volumes=[{"name": "v"}])
    meta, spec = pod["metadata"], pod["spec"]
    assert not LabelSelector.from_labels({"berth.dev/app": "db"}).matches(meta["labels"])
    assert helper_pods.replica_of(meta["name"]) == "db-0"
    assert helper_pods.ordinal_of(pod) == 0
    assert [(one["kind"], one["uid"]) for one in meta["ownerReferences"]] == [("Berth", "b0")]
    assert (spec["schedulerName"], spec["priorityClassName"], spec["serviceAccountName"]) == ("own", CLASS, "db")
    assert spec["nodeSelector"] == {"berth.dev/hold": "never"}
    assert spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    }
    assert "volumes" not in spec
    assert "nodeName" not in spec
    assert "schedulingGates" not in spec, "kube-scheduler would count no nomination"


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"requests": {"cpu": "500m", "memory": "1Gi"}}, {"cpu": "500m", "memory": "1Gi"}),
        ({"requests": {"x.dev/gpu": "2", "cpu": "1"}}, {"x.dev/gpu": "2", "cpu": "1", "memory": "0"}),
        ({"requests": {"pods": "1", "attachable-volumes-csi": "1"}}, {"cpu": "0", "memory": "0"}),
        ({"requests": None}, {"cpu": "0", "memory": "0"}),
    ],
)
def test_it_asks_for_what_the_berth_says_that_the_replica_takes(spec, amounts):
    (container,) = made(berth(0, **spec))["spec"]["containers"]
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert "ports" not in container


def test_it_has_the_ports_of_the_host():
    ports = [{"port": 80}, {"port": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"port": 1, "hostIP": "0.0.0.0"}]
    (container,) = made(berth(0, hostPorts=ports))["spec"]["containers"]
    assert [(one["hostPort"], one["protocol"], one.get("hostIP")) for one in container["ports"]] == [
        (80, "TCP", None),
        (53, "UDP", "10.0.0.1"),
        (1, "TCP", None),
    ]


@pytest.mark.parametrize(
    ("status", "spec", "state"),
    [
        ({}, {}, update_hold.WAITING),
        ({"nominatedNodeName": "n0"}, {}, update_hold.WAITING),
        ({"conditions": [not_scheduled()]}, {}, update_hold.TO_NOMINATE),
        ({"conditions": [not_scheduled()], "nominatedNodeName": "n1"}, {}, update_hold.TO_NOMINATE),
        ({"conditions": [not_scheduled()], "nominatedNodeName": "n0"}, {}, update_hold.HELD),
        ({"conditions": [not_scheduled("SchedulingGated")]}, {}, update_hold.WAITING),
        ({"conditions": [not_scheduled("SchedulerError")]}, {}, update_hold.WAITING),
        ({"phase": "Failed"}, {}, update_hold.VOID),
        ({}, {"nodeName": "n0"}, update_hold.VOID),
    ],
)
def test_what_its_status_says(status, spec, state):
    cluster = Holding(1, one=template())
    pod = made()
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    pod["status"] = status
    pod["spec"].update(spec)
    assert verdict(pod, "n0", cluster.now).state == state
    late = verdict(pod, "n0", cluster.now + timedelta(seconds=SEEN)).state
    assert late == (update_hold.VOID if state == update_hold.WAITING else state)


# -- priorities


def the_class(value=0, policy="Never"):
    return {"value": value, **({"preemptionPolicy": policy} if policy else {})}


def test_without_the_class_nothing_is_touched():
    with pytest.raises(StateError, match=r"PriorityClass berth-hold is not there.*run the module crds"):
        update_hold.values({CLASS: None})
    for policy in (None, "PreemptLowerPriority"):
        with pytest.raises(StateError, match="has preemptionPolicy PreemptLowerPriority: expected Never"):
            update_hold.values({CLASS: the_class(policy=policy)})
    assert update_hold.values({CLASS: the_class(7), "high": {"value": 9}, "gone": None}) == {CLASS: 7, "high": 9}


@pytest.mark.parametrize(
    ("given", "running", "names"),
    [(None, "a", [CLASS]), ("a", "a", [CLASS]), ("b", "a", [CLASS, "b"]), ("b", None, [CLASS, "b"])],
)
def test_which_classes_are_read(given, running, names):
    spec = {"priorityClassName": running} if running else {}
    assert update_hold.classes({"spec": {"priorityClassName": given}}, [{"spec": spec}]) == names


@pytest.mark.parametrize(
    ("pod", "given", "priority"),
    [
        ({}, None, 0),
        ({"priority": 5, "priorityClassName": "a"}, None, 5),
        ({"priority": 5, "priorityClassName": "a"}, "a", 5),
        ({"priority": 5, "priorityClassName": "a"}, "b", 9),
        ({"priority": -5, "priorityClassName": "a"}, "not known", -5),
    ],
)
def test_a_pods_priority(pod, given, priority):
    assert update_hold.priority_of({"spec": pod}, {"spec": {"priorityClassName": given}}, {"b": 9}) == priority


@pytest.mark.parametrize(("priority", "value", "held"), [(0, 0, True), (-1, 0, True), (1, 0, False), (9, 9, True)])
def test_a_priority_above_the_classs_is_not_held_and_a_warning_says_so(priority, value, held):
    cluster = Holding(1, one=template(), two=ANEW)
    cluster.values = {CLASS: value}
    cluster.pods["db-0"]["spec"]["priority"] = priority
    rolled = cluster.roll(ASKED)
    assert [act.do for act in rolled.acts] == [HOLD if held else DELETE]
    assert bool(rolled.notes) is not held
    assert held or f"its priority is {priority}, and PriorityClass berth-hold has the value {value}" in rolled.notes[0]


@pytest.mark.parametrize(
    ("held", "runs", "asked", "fields", "who"),
    [
        (True, "default-scheduler", "default-scheduler", (), "hold_pod"),
        (False, None, None, (), "nobody"),
        (False, "default-scheduler", "default-scheduler", (), "nobody"),
        (False, "berth-scheduler", "berth-scheduler", (), "berth"),
        (False, "berth-scheduler", "default-scheduler", (), "berth"),  # given to it by a policy
        (False, "berth-scheduler", "default-scheduler", ("spec.schedulerName",), "nobody"),
        (False, "default-scheduler", "berth-scheduler", ("spec.schedulerName",), "berth"),
        (False, "volcano", "volcano", (), "unknown"),
    ],
)
def test_who_holds_the_room_of_a_replica_that_has_no_pod(held, runs, asked, fields, who):
    pod, target = ({"spec": {"schedulerName": name} if name else {}} for name in (runs, asked))
    assert update_hold.holder(held, pod, target, fields) == who


def test_the_shipped_scheduler_has_the_name_that_is_known_here():
    assert SHIPPED == update_hold.OURS


def test_where_the_classes_may_not_be_read_nothing_is_held():
    cluster = Holding(1, one=template(), two=ANEW)
    cluster.values = {}
    assert [act.do for act in cluster.roll(ASKED).acts] == [DELETE]


# -- options and leftovers


def test_it_is_not_the_default():
    assert not update_rules({}, 3, {}).hold
    assert update_rules({"update_hold": True}, 3, {}).hold


def test_a_hold_of_a_run_that_died_is_work_for_the_next_look():
    app = parse_app(changed(replicas=1))
    pod = made()
    seen = Observed("db", "default", stateful_set=manifests.stateful_set(app), helpers={pod["metadata"]["name"]: pod})
    plan = make_plan(app, seen)
    assert (plan.held, plan.helpers, plan.update, plan.empty) == ((0,), (), (), False)
    for more in ({"suspended": True}, {"replicas": 0}):
        plan = make_plan(parse_app(changed(**{"replicas": 1, **more})), seen)
        assert (plan.held, plan.helpers) == ((), (pod,)), more
    assert removal_plan(seen).helpers == (pod,)
    assert not seen.empty


def test_an_app_whose_statefulset_rolls_by_itself_has_no_use_for_one():
    app = replace(parse_app(changed(replicas=1)), update=None)
    pod = made()
    seen = Observed("db", "default", helpers={pod["metadata"]["name"]: pod})
    assert (make_plan(app, seen).held, make_plan(app, seen).helpers) == ((), (pod,))
