"""A pod with the readiness gate leaves its Services before an update ends its containers, and comes back."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app.in_service import (
    GATE,
    gate_body,
    gated,
    is_open,
    is_shut,
    refuse_without_controller,
    to_open,
)
from berth_core.app.update_step import BEGIN, DELETE, MARK, OPEN, PATCH, RESIZE, SHUT, leaves_services
from berth_core.errors import InputError
from tests.core.app.test_update import Cluster, merge, rules, template

GATES = [{"conditionType": "example.com/other"}, {"conditionType": GATE}]


def with_gate(image="db:1", **more):
    body = template(image, **more)
    return {**body, "spec": {**body["spec"], "readinessGates": GATES}}


class Gated(Cluster):
    """A cluster whose kubelets count a pod as Ready while its gate is open, too; ``serves``: whose Services send to it.

    ``hit``: containers that were ended while their pod was in its Services.
    """

    def __init__(self, replicas, **templates):
        self.hit = []
        super().__init__(replicas, **templates)

    def controller(self, rolled=False):
        """What berth-controller does beside the steps of an update."""
        for pod in [*to_open(self.pods, rolled)]:
            merge(pod, gate_body(pod, True, self.now))

    def condition(self, pod, kind):
        return next((one for one in pod["status"]["conditions"] if one["type"] == kind), None)

    def ready(self, ordinal):
        pod = self.pods.get(self.name(ordinal))
        told = None if pod is None else self.condition(pod, "Ready")
        return told is not None and told["status"] == "True"

    def kubelet(self, ordinal):
        pod = self.pods.get(self.name(ordinal))
        if pod is None:
            super().kubelet(ordinal)
            return
        self.controller(rolled=True)
        container, status = pod["spec"]["containers"][0], pod["status"]["containerStatuses"][0]
        if status.get("runs") != container["image"]:
            self.counter += 1
            status.update(runs=container["image"], containerID=f"containerd://{self.counter}")
        since = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"type": "Ready", "status": "True" if is_open(pod) else "False", "lastTransitionTime": since}
        others = [one for one in pod["status"]["conditions"] if one["type"] != "Ready"]
        pod["status"]["conditions"] = [*others, told]

    def act(self, act):
        pod = self.pods.get(self.name(act.ordinal))
        before = None if pod is None else copy.deepcopy(pod)
        served = self.ready(act.ordinal)
        super().act(act)
        if act.do == PATCH and pod["spec"]["containers"][0]["image"] != before["spec"]["containers"][0]["image"]:
            pod["status"]["conditions"] = before["status"]["conditions"]
            if served:
                self.hit.append(act.ordinal)


def test_each_pod_leaves_its_services_first_and_comes_back_with_the_new_container():
    cluster = Gated(3, one=with_gate(), two=with_gate("db:2"))
    assert leaves_services(cluster.pods["db-0"], cluster.target())
    cluster.finish(rules())
    assert cluster.log == [(do, ordinal) for ordinal in (2, 1, 0) for do in (SHUT, PATCH, OPEN, MARK)]
    assert not cluster.hit
    assert all(is_open(pod) and cluster.ready(number) for number, pod in enumerate(cluster.pods.values()))


def test_labels_end_no_container():
    cluster = Gated(2, one=with_gate(), two=with_gate(labels={"tier": "gold"}))
    assert not leaves_services(cluster.pods["db-0"], cluster.target()), "a plan does not say so either"
    cluster.finish(rules())
    assert [do for do, _ordinal in cluster.log] == [PATCH, MARK] * 2


def test_a_pod_that_is_made_anew_needs_none_and_is_opened_when_it_is_there():
    cluster = Gated(2, one=with_gate(), two=with_gate("db:2"))
    cluster.finish(rules("same_node"))
    assert [do for do, _ordinal in cluster.log] == [DELETE] * 2
    assert all(is_open(pod) for pod in cluster.pods.values())


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        ("RestartContainer", [BEGIN, SHUT, RESIZE, PATCH, OPEN, MARK]),
        ("NotRequired", [BEGIN, RESIZE, PATCH, MARK]),
    ],
)
def test_a_resize_that_ends_the_container_is_as_a_new_image(policy, steps):
    policies = [{"resourceName": "cpu", "restartPolicy": policy}]
    cluster = Gated(1, one=with_gate(resizePolicy=policies), two=with_gate(cpu="1", resizePolicy=policies))
    assert leaves_services(cluster.pods["db-0"], cluster.target()) is (SHUT in steps)
    cluster.finish(rules())
    assert [do for do, _ordinal in cluster.log] == steps


def test_the_container_is_not_ended_while_the_kubelet_still_says_ready():
    cluster = Gated(2, one=with_gate(), two=with_gate("db:2"))
    (act,) = cluster.roll(rules()).acts
    cluster.act(act)
    rolled = cluster.roll(rules())
    assert (rolled.acts, rolled.waits) == ((), ("pod db-1 to leave its Services",))
    cluster.kubelet(1)
    assert [act.do for act in cluster.roll(rules()).acts] == [PATCH]


def test_what_is_out_of_its_services_is_finished_though_paused():
    cluster = Gated(2, one=with_gate(), two=with_gate("db:2"))
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.finish(rules(paused=True))
    assert cluster.log == [(do, 1) for do in (SHUT, PATCH, OPEN, MARK)]


def test_back_to_the_former_template_before_anything_was_ended():
    cluster = Gated(2, one=with_gate(), two=with_gate("db:2"))
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.revision = "one"
    cluster.finish(rules())
    assert cluster.log == [(SHUT, 1), (OPEN, 1)]


def test_other_conditions_stay():
    cluster = Gated(1, one=with_gate())
    pod = cluster.pods["db-0"]
    pod["status"]["conditions"].append({"type": "PodScheduled", "status": "True"})
    body = gate_body(pod, False, cluster.now)
    kinds = [(one["type"], one["status"]) for one in body["status"]["conditions"]]
    assert kinds == [("Ready", "True"), ("PodScheduled", "True"), (GATE, "False")]


def test_a_pod_without_the_gate_is_left_alone():
    cluster = Cluster(2, one=template(), two=template("db:2"))
    assert not leaves_services(cluster.pods["db-0"], cluster.target())
    assert not list(to_open(cluster.pods, False))
    cluster.finish(rules())
    assert {do for do, _ordinal in cluster.log} == {PATCH, MARK}


def test_what_an_update_has_left_outside_comes_back_when_none_is_under_way():
    cluster = Gated(1, one=with_gate(), two=with_gate("db:2"))
    pod = cluster.pods["db-0"]
    cluster.act(cluster.roll(rules()).acts[0])
    assert is_shut(pod)
    cluster.controller()
    assert is_open(pod)


def test_a_playbook_has_nobody_who_opens_it():
    refuse_without_controller(template(), False, True)
    with pytest.raises(InputError, match=rf"{GATE}, which berth-controller opens .* set driver: controller"):
        refuse_without_controller(with_gate(), False, False)


def test_an_app_that_is_handed_over_for_a_run_may_keep_it_and_is_not_waited_for():
    refuse_without_controller(with_gate(), True, False)
    with pytest.raises(InputError, match="wait: true would wait in vain"):
        refuse_without_controller(with_gate(), True, True)


def test_what_is_no_gate_is_none():
    assert not gated({"spec": {"readinessGates": ["strange"]}})


@settings(max_examples=60)
@given(st.data())
def test_no_container_is_ended_while_its_pod_serves_whatever_comes_in_between(data):
    cluster = Gated(3, one=with_gate(), two=with_gate("db:2"), three=with_gate("db:3", labels={"tier": "gold"}))
    asked = rules(unavailable=data.draw(st.integers(1, 2)))
    for _step in range(40):
        event = data.draw(st.sampled_from(["act", "act", "kubelet", "goes", "target", "look"]))
        if event == "act":
            for act in cluster.roll(asked).acts[:1]:
                cluster.act(act)
        elif event == "kubelet":
            cluster.kubelet(data.draw(st.integers(0, 2)))
        elif event == "goes":
            cluster.pods.pop(cluster.name(data.draw(st.integers(0, 2))), None)
        elif event == "target":
            cluster.revision = data.draw(st.sampled_from(sorted(cluster.templates)))
        else:
            cluster.controller(rolled=True)
    cluster.finish(asked)
    assert not cluster.hit
    assert all(is_open(pod) for pod in cluster.pods.values())
