"""Where the hooks stand among the steps of an update, and which options of theirs are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app.hook_rules import AFTER, BEFORE, OWED, Hooks, HookState, hook_rules, owes, with_debt
from berth_core.app.observed import Observed
from berth_core.app.plan import make_plan
from berth_core.app.update import roll
from berth_core.app.update_step import BEGIN, DELETE, MARK, PATCH, RESIZE, first_touch
from berth_core.app.wanted import parse_app
from berth_core.errors import InputError
from tests.core.app.samples import changed
from tests.core.app.test_update import Cluster, rules, template

HOOKS = Hooks(("drain",), ("undrain",))


class Hooked(Cluster):
    """A cluster, and a run with hooks; ``run_anew`` forgets what the run knew, as one that died."""

    def __init__(self, replicas, hooks=HOOKS, **templates):
        super().__init__(replicas, **templates)
        self.hooks, self.ran, self.owed = hooks, set(), set()

    def run_anew(self):
        self.ran = set()

    def state(self):
        return HookState(self.hooks, frozenset(self.ran), frozenset(self.owed))

    def roll(self, asked):
        return roll("db", range(self.replicas), self.pods, self.target(), asked, self.now, self.state())

    def act(self, act):
        pod = self.pods.get(self.name(act.ordinal))
        if act.do in (BEFORE, AFTER):
            self.log.append((act.do, act.ordinal))
            if act.do == BEFORE:
                assert self.ready(act.ordinal)
                self.ran.add(pod["metadata"]["uid"])
            else:
                assert self.target().mark.of(pod) == self.revision
                self.owed.discard(act.ordinal)
            return
        if pod is not None and first_touch(act, pod, self.target()) and self.hooks.after:
            self.owed.add(act.ordinal)
        super().act(act)


def test_each_replica_has_its_hooks_around_its_steps():
    cluster = Hooked(2, one=template(), two=template("db:2"))
    cluster.finish(rules())
    assert cluster.log == [(do, ordinal) for ordinal in (1, 0) for do in (BEFORE, PATCH, MARK, AFTER)]
    assert not cluster.owed


def test_a_pod_that_is_made_anew_has_them_too():
    cluster = Hooked(2, one=template(), two=template(command=["x"]))
    cluster.finish(rules())
    assert cluster.log == [(do, ordinal) for ordinal in (1, 0) for do in (BEFORE, DELETE, AFTER)]


def test_a_resize_begins_after_the_hook():
    cluster = Hooked(1, one=template(), two=template(cpu="1"))
    cluster.finish(rules())
    assert cluster.log == [(do, 0) for do in (BEFORE, BEGIN, RESIZE, PATCH, MARK, AFTER)]


@pytest.mark.parametrize(
    ("hooks", "steps"),
    [(Hooks(before=("a",)), (BEFORE, PATCH, MARK)), (Hooks(after=("a",)), (PATCH, MARK, AFTER))],
)
def test_one_of_them_alone(hooks, steps):
    cluster = Hooked(1, hooks, one=template(), two=template("db:2"))
    cluster.finish(rules())
    assert [do for do, _ordinal in cluster.log] == list(steps)


def test_a_replica_that_is_not_ready_has_no_hook_before_it():
    cluster = Hooked(2, one=template(), two=template("db:2"))
    cluster.pods["db-1"]["status"]["conditions"] = []
    cluster.finish(rules())
    assert cluster.log[:3] == [(PATCH, 1), (MARK, 1), (AFTER, 1)]


def test_the_next_replica_waits_for_the_hook_after():
    cluster = Hooked(2, one=template(), two=template("db:2"))
    for do in (BEFORE, PATCH, MARK):
        (act,) = cluster.roll(rules()).acts
        assert (act.do, act.ordinal) == (do, 1)
        cluster.act(act)
        cluster.kubelet(1)
    for _failed in range(2):  # a hook that fails is the next step again
        assert [(act.do, act.ordinal) for act in cluster.roll(rules()).acts] == [(AFTER, 1)]
        cluster.run_anew()
    assert [act.do for act in cluster.roll(rules(paused=True)).acts] == [AFTER], "it is begun"


def test_a_hook_that_failed_is_run_again_by_the_next_run_and_then_no_more():
    cluster = Hooked(1, one=template(), two=template("db:2"))
    (act,) = cluster.roll(rules()).acts
    cluster.run_anew()
    assert cluster.roll(rules()).acts == (act,)
    cluster.act(act)
    assert [one.do for one in cluster.roll(rules()).acts] == [PATCH]
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.kubelet(0)
    cluster.run_anew()
    assert [one.do for one in cluster.roll(rules()).acts] == [MARK], "the pod is touched already"


def test_a_pod_that_the_hook_drained_goes_on():
    cluster = Hooked(2, one=template(), two=template("db:2"))
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.pods["db-1"]["status"]["conditions"] = []
    assert [(act.do, act.ordinal) for act in cluster.roll(rules()).acts] == [(PATCH, 1)]


def test_the_hook_after_waits_until_the_replica_counts():
    cluster = Hooked(1, one=template(), two=template("db:2"))
    asked = rules(min_ready=30)
    cluster.wait(60)
    for _step in range(2):
        cluster.act(cluster.roll(asked).acts[0])
    cluster.kubelet(0)
    cluster.act(cluster.roll(asked).acts[0])
    assert cluster.roll(asked).acts == ()
    assert cluster.roll(asked).again == 30
    cluster.wait(30)
    assert [act.do for act in cluster.roll(asked).acts] == [AFTER]


def test_what_is_paused_or_below_the_partition_has_no_hook():
    cluster = Hooked(2, one=template(), two=template("db:2"))
    assert cluster.roll(rules(paused=True)).acts == ()
    cluster.owed.add(0)
    cluster.finish(rules(partition=1))
    assert {ordinal for _do, ordinal in cluster.log} == {1}
    assert cluster.owed == {0}


@settings(max_examples=80)
@given(st.data())
def test_whatever_happens_the_hooks_stand_around_the_touch(data):
    replicas = data.draw(st.integers(1, 4))
    new = data.draw(st.sampled_from([template("db:2"), template(cpu="1"), template(command=["x"])]))
    cluster = Hooked(replicas, one=template(), two=new)
    asked = rules(unavailable=data.draw(st.integers(1, 2)))
    for _number in range(400):
        rolled = cluster.roll(asked)
        if not rolled.acts and not rolled.waits:
            break
        if rolled.acts and data.draw(st.booleans()):
            cluster.act(data.draw(st.sampled_from(rolled.acts)))
        if data.draw(st.booleans()):
            cluster.kubelet(data.draw(st.integers(0, replicas - 1)))
        if data.draw(st.integers(0, 9)) == 0:
            cluster.run_anew()
    cluster.finish(asked)
    assert not cluster.owed
    for ordinal in range(replicas):
        steps = [do for do, of in cluster.log if of == ordinal]
        assert steps[0] == BEFORE
        assert steps[-1] == AFTER
        assert steps.count(AFTER) == 1
        touch = next(place for place, do in enumerate(steps) if do != BEFORE)
        assert BEFORE not in steps[touch:], "never again once it is touched"


def test_the_same_template_under_another_revision_is_no_touch():
    cluster = Hooked(1, one=template(), two=template())
    cluster.finish(rules())
    assert [do for do, _ordinal in cluster.log] == [PATCH, MARK]


def berth(ordinal, **annotations):
    meta = {"name": f"db-{ordinal}", "uid": str(ordinal), "annotations": annotations}
    return {"metadata": meta, "spec": {"ordinal": ordinal, "nodeName": "n"}, "status": {"phase": "Running"}}


def test_what_is_owed_is_written_in_the_berth_and_nothing_else_changes():
    before = berth(0, mine="x")
    owing = with_debt(before, True)
    assert owes(owing)
    assert not owes(before)
    assert owing["metadata"]["annotations"] == {"mine": "x", OWED: "true"}
    assert with_debt(owing, False) == before
    assert "annotations" not in with_debt(with_debt(berth(0), True), False)["metadata"]
    assert not owes(None)


@pytest.mark.parametrize(
    ("more", "due"), [({}, (1,)), ({"partition": 2}, ()), ({"update_hooks": {"before": ["a"]}}, ())]
)
def test_a_hook_that_is_owed_is_a_plan_by_itself(more, due):
    wanted = {"replicas": 2, "workload": "Pod", "update_hooks": {"after": ["a"]}, **more}
    app = parse_app(changed(**wanted))
    pods = {
        f"db-{ordinal}": {"metadata": {"annotations": {"berth.dev/revision": app.revision}}} for ordinal in range(2)
    }
    seen = Observed("db", "default", berths={0: berth(0), 1: berth(1, **{OWED: "true"})}, pods=pods)
    seen.berths[0]["spec"]["disks"] = seen.berths[1]["spec"]["disks"] = [{"claim": "data", "name": "d", "size": 1}]
    assert make_plan(app, seen).update == due


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({}, "names no command"),
        ({"before": []}, "update_hooks.before is "),
        ({"before": [""]}, "update_hooks.before is "),
        ({"after": ["a", "b\0c"]}, "update_hooks.after has a NUL character"),
        ({"before": ["a"], "timeout": 0}, "update_hooks.timeout is '0': expected 1 to 86400 seconds"),
        ({"before": ["a"], "container": "A b"}, "update_hooks.container is 'A b'"),
        ({"after": ["a"], "container": "web"}, "the template has the containers db"),
    ],
)
def test_what_makes_no_sense_is_refused(option, told):
    with pytest.raises(InputError, match=told):
        hook_rules(option, template())


def test_what_is_asked_for():
    assert hook_rules(None, template()) is None
    found = hook_rules({"before": ["a", "b"], "container": "old", "timeout": None}, template())
    assert found == Hooks(("a", "b"), (), "old", 60), "the hook before runs with the old template"
