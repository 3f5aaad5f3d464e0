"""An update and PodDisruptionBudgets, whose controller counts late, as the pods' kubelets and controllers do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app.budgets import Budget, refusal
from berth_core.app.hook_rules import BEFORE, Hooks, HookState
from berth_core.app.update import roll
from berth_core.app.update_budgets import LATER, SOON, Restrictions
from berth_core.app.update_rules import update_rules
from berth_core.app.update_step import BEGIN, DELETE, MARK, PATCH, RESIZE, under_way
from berth_core.errors import StateError, UnavailableError
from tests.core.app.test_update import Cluster, merge, rules, template

EVERY = rules("same_node", unavailable=5)


class Budgeted(Cluster):
    """With a PodDisruptionBudget for its pods. ``least``: how many have to be healthy."""

    def __init__(self, replicas, least, **templates):
        super().__init__(replicas, **templates)
        self.least, self.budgets = least, {}
        self.stopping = set()
        self.budget("db", minAvailable=least)
        self.count()

    def make(self, ordinal, revision):
        super().make(ordinal, revision)
        self.pods[self.name(ordinal)]["metadata"]["namespace"] = "shop"

    def budget(self, name, selector=None, **spec):
        spec["selector"] = {"matchLabels": {"app": "db"}} if selector is None else selector
        self.budgets[name] = {"metadata": {"name": name, "namespace": "shop", "generation": 1}, "spec": spec}

    def count(self):
        """The budgets' controller."""
        healthy = sum(self.ready(ordinal) for ordinal in range(self.replicas))
        for each in self.budgets.values():
            least = each["spec"]["minAvailable"]
            allowed = max(0, healthy - least)
            each["status"] = {"observedGeneration": 1, "disruptionsAllowed": allowed, "expectedPods": len(self.pods)}
            each["status"].update(currentHealthy=healthy, desiredHealthy=least)

    def kubelet(self, ordinal):
        """It stops a container first, and starts the new one at the next look."""
        pod = self.pods.get(self.name(ordinal))
        if pod is not None and self.ready(ordinal):
            runs = pod["status"]["containerStatuses"][0].get("runs")
            if runs != pod["spec"]["containers"][0]["image"]:
                pod["status"]["conditions"] = []
                return
        super().kubelet(ordinal)

    def roll(self, asked, read=True, **more):
        known = Restrictions([Budget.of(one) for one in self.budgets.values()]) if read else None
        return roll("db", range(self.replicas), self.pods, self.target(), asked, self.now, restrictions=known, **more)

    def act(self, act):
        """Evictions as the API server answers them."""
        if act.do == DELETE:
            status = self.budgets["db"]["status"]
            if self.ready(act.ordinal):
                assert status["disruptionsAllowed"] > 0, "no eviction is asked for in vain"
                status["disruptionsAllowed"] -= 1
            super().act(act)
        else:
            self.log.append((act.do, act.ordinal))
            merge(self.pods[self.name(act.ordinal)], act.body)

    def meanwhile(self):
        super().meanwhile()
        self.count()

    def healthy(self):
        return sum(self.ready(ordinal) for ordinal in range(self.replicas))


ANEW = {"one": template(), "two": template(command=["x"])}
IN_PLACE = {"one": template(), "two": template("db:2")}
PREFIX = "PodDisruptionBudget shop/db to allow the disruption of pod db-2 ("
PAST = "; disruption_budgets: ignore goes past it)"


@pytest.mark.parametrize("templates", [ANEW, IN_PLACE], ids=["anew", "in place"])
def test_a_pod_that_is_ready_waits_for_its_budget(templates):
    cluster = Budgeted(3, 2, **templates)
    cluster.pods["db-0"]["status"]["conditions"] = []
    cluster.pods["db-0"]["metadata"]["labels"]["controller-revision-hash"] = "two"  # not the update's business
    cluster.count()
    rolled = cluster.roll(rules(unavailable=2))
    told = f"{PREFIX}it allows 0 now, 2 of 3 pods are healthy, 2 have to be{PAST}"
    assert (rolled.acts, rolled.waits[-1]) == ((), told)
    assert rolled.again == SOON, "another pod came back just now"
    cluster.wait(60)
    assert cluster.roll(rules(unavailable=2)).again == LATER
    assert len(cluster.roll(rules(unavailable=2, budgets=False)).acts) == 1
    cluster.kubelet(0)
    cluster.count()
    assert [act.ordinal for act in cluster.roll(rules(unavailable=2)).acts] == [2]


def test_budgets_are_asked_for_only_where_a_pod_is_taken_down():
    cluster = Budgeted(3, 2, **ANEW)
    unread = cluster.roll(rules(), read=False)
    assert (unread.asks, unread.acts) == (True, ())
    assert not cluster.roll(rules(budgets=False), read=False).asks
    labels = Budgeted(3, 3, one=template(), two=template(labels={"tier": "gold"}))
    rolled = labels.roll(rules(), read=False)
    assert (rolled.asks, [act.do for act in rolled.acts]) == (False, [PATCH])
    labels.finish(rules())


def test_a_resize_needs_leave_where_containers_are_started_anew_for_it():
    asked = {"one": template(), "two": template(cpu="1")}
    cluster = Budgeted(2, 2, **asked)
    assert [act.do for act in cluster.roll(rules()).acts] == [BEGIN]
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    cluster = Budgeted(
        2, 2, **{key: template(cpu=cpu, resizePolicy=policy) for key, cpu in (("one", "1"), ("two", "2"))}
    )
    with pytest.raises(StateError, match="PodDisruptionBudget shop/db never allows its disruption"):
        cluster.roll(rules())
    cluster.act(cluster.roll(rules(budgets=False)).acts[0])
    with pytest.raises(StateError):
        cluster.roll(rules())  # nothing has been taken from it yet
    cluster.act(cluster.roll(rules(budgets=False)).acts[0])
    assert cluster.log == [(BEGIN, 1), (RESIZE, 1)]


def test_what_is_begun_is_brought_to_its_end():
    cluster = Budgeted(2, 1, **IN_PLACE)
    cluster.act(cluster.roll(rules()).acts[0])
    assert under_way(cluster.pods["db-1"], cluster.target())
    cluster.least = cluster.budgets["db"]["spec"]["minAvailable"] = 2
    cluster.meanwhile()
    cluster.meanwhile()
    assert [(act.do, act.ordinal) for act in cluster.roll(rules()).acts] == [(MARK, 1)]


def test_a_pod_that_is_not_ready_is_judged_as_the_eviction_api_does():
    cluster = Budgeted(3, 2, **ANEW)
    for ordinal in (2, 1):
        cluster.pods[f"db-{ordinal}"]["status"]["conditions"] = []
    cluster.count()
    rolled = cluster.roll(rules())
    assert not rolled.acts, "IfHealthyBudget, the default: 1 is healthy, and 2 have to be"
    assert f"{PREFIX}which is not Ready: it allows 0 now, 1 of 3 pods are healthy, 2 have to be{PAST}" in rolled.waits
    cluster.pods["db-2"]["status"]["phase"] = "Pending"
    assert [act.ordinal for act in cluster.roll(rules()).acts] == [2], "of such a pod no budget is asked"
    cluster.budgets["db"]["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    assert [act.ordinal for act in cluster.roll(rules()).acts] == [2, 1]
    in_place = Budgeted(3, 2, **IN_PLACE)
    for ordinal in (2, 1):
        in_place.pods[f"db-{ordinal}"]["status"]["conditions"] = []
    in_place.count()
    assert [act.ordinal for act in in_place.roll(rules()).acts] == [2, 1], "it is no healthy one less"


@pytest.mark.parametrize(("replicas", "least"), [(1, 1), (3, 3)])
@pytest.mark.parametrize("templates", [ANEW, IN_PLACE], ids=["anew", "in place"])
def test_a_budget_that_never_allows_it_is_refused(replicas, least, templates):
    cluster = Budgeted(replicas, least, **templates)
    told = (
        rf"pod db-{replicas - 1} is not updated: .* \({least} of {least} pods have to be healthy\), so no waiting helps"
    )
    with pytest.raises(StateError, match=f"{told}.*disruption_budgets: ignore"):
        cluster.roll(rules())


def test_a_budget_that_has_counted_while_a_pod_was_missing_is_waited_for():
    """minAvailable 2 of the 2 that it found is no budget that never allows anything."""
    cluster = Budgeted(3, 2, **ANEW)
    cluster.pods["db-0"]["metadata"]["labels"]["controller-revision-hash"] = "two"
    gone = cluster.pods.pop("db-0")
    cluster.count()
    assert cluster.roll(EVERY).waits[-2].startswith(PREFIX)
    cluster.pods["db-0"] = gone
    assert cluster.roll(EVERY).waits[0].startswith(PREFIX), "it is back, and not counted yet"


def test_a_budget_that_was_changed_is_waited_for():
    cluster = Budgeted(3, 2, **ANEW)
    cluster.budgets["db"]["metadata"]["generation"] = 2
    assert cluster.roll(rules()).waits == (f"{PREFIX}it was changed, and its pods are still to be counted{PAST}",)


def test_several_budgets_for_a_pod():
    cluster = Budgeted(3, 2, **ANEW)
    cluster.budget("all", {}, minAvailable=1)
    cluster.count()
    with pytest.raises(StateError, match=r"several PodDisruptionBudgets \(shop/db, shop/all\), and the API"):
        cluster.roll(rules())
    cluster = Budgeted(3, 2, **IN_PLACE)
    cluster.budget("all", {}, minAvailable=2)
    cluster.count()
    assert [act.ordinal for act in cluster.roll(rules()).acts] == [2], "in place nobody evicts"
    cluster.budgets["all"]["status"]["disruptionsAllowed"] = 0
    assert cluster.roll(rules()).waits[0].startswith("PodDisruptionBudget shop/all to allow")


def test_a_hook_is_not_run_in_front_of_a_budget_that_forbids():
    cluster = Budgeted(3, 2, **ANEW)
    known = HookState(hooks=Hooks(("drain",), (), None, 1.0))
    assert [act.do for act in cluster.roll(rules(), hooks=known).acts] == [BEFORE]
    cluster.budgets["db"]["status"]["disruptionsAllowed"] = 0
    assert cluster.roll(rules(), hooks=known).acts == ()


def test_a_pod_behind_one_that_waits_does_not_overtake_it():
    cluster = Budgeted(3, 2, **ANEW)
    cluster.budgets["db"]["spec"]["selector"] = {"matchLabels": {"pod": "2"}}
    cluster.pods["db-2"]["metadata"]["labels"]["pod"] = "2"
    cluster.budgets["db"]["status"]["disruptionsAllowed"] = 0
    assert (cluster.roll(rules()).acts, len(cluster.roll(rules()).waits)) == ((), 1)
    assert [act.ordinal for act in cluster.roll(rules(unavailable=2)).acts] == [1]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_more_pods_are_away_than_the_budget_allows(data):
    """Whatever is counted late; with max_unavailable above what the budget allows."""
    replicas = data.draw(st.integers(2, 4))
    least = data.draw(st.integers(1, replicas - 1))
    cluster = Budgeted(replicas, least, **data.draw(st.sampled_from([ANEW, IN_PLACE])))
    asked = rules(unavailable=replicas)
    for _number in range(data.draw(st.integers(5, 40))):
        step = data.draw(st.sampled_from(["roll", "count", *range(replicas)]))
        if step == "roll":
            for act in cluster.roll(asked).acts:
                cluster.act(act)
        elif step == "count":
            cluster.count()
        else:
            cluster.kubelet(step)
        assert cluster.healthy() >= least, cluster.log
    cluster.finish(asked)


def test_the_option():
    assert update_rules({}, 3, {}).budgets
    assert update_rules({"disruption_budgets": "respect"}, 3, {}).budgets
    found = update_rules({"disruption_budgets": "ignore"}, 3, {})
    assert (found.budgets, found.asked) == (False, True)


def test_what_an_eviction_was_answered():
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget db needs 2 healthy pods"}
    assert refusal(UnavailableError("busy", 429, causes=[cause])) == cause["message"]
    assert refusal(UnavailableError("busy", 429)) == "busy"
    with pytest.raises(UnavailableError):
        refusal(UnavailableError("away", 503))
