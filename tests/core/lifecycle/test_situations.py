"""Every phase in every situation: one row tells what is due, and gives a step. Writes come in the table's order."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from dataclasses import replace

import pytest

from berth_core.app import claims
from berth_core.lifecycle import back, lost, replacing, situations, states
from berth_core.lifecycle.lost import Loss
from berth_core.lifecycle.next_step import STEPS, next_step
from berth_core.lifecycle.replica import ReplicaOwner
from berth_core.lifecycle.step import CREATE, DONE, FORCE, PATCH, REMOVE, Choose, Look, Wait, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, POD, PVC
from tests.core.lifecycle.claim_exchange_world import CLAIM, Module, bound
from tests.core.lifecycle.replica_world import APP, NAME, Process, World, exchange, run

LOSS = Loss("h1", "its power is off", "default", "db", 0)
LEFT = replace(LOSS, left=True)
#: What the drivers do between the phases, and `follow` records.
OF_DRIVERS = {"stop", "create", "run"}


@pytest.fixture(scope="module")
def berths():
    """A replica's and a claim's, running: with an owner, and an exchange of its disk."""
    world = World()
    run(world, Process(world, "present"))
    replica = (replace(Process(world, "present").look(), owner=ReplicaOwner(APP, 0, told=True)), exchange())
    world, controller = bound(waits=False)
    module = Module(world)
    owner = controller._owner(world.get(PVC, CLAIM), None)
    of_claim = (replace(module.look(), owner=owner, exchange=None), module.exchange)
    return {"replica": replica, "claim": of_claim}


def in_phase(view, phase, going=False):
    if phase == states.ABSENT:
        return replace(view, berth=None)
    record = copy.deepcopy(dict(view.berth))
    replaced = {"claim": record["spec"]["disks"][0]["claim"], "from": "d0", "to": "d9"}
    more = {states.RELEASING: {"release": states.RETAIN}, states.REPLACING: {"replacing": replaced}}
    record["status"] = {"phase": phase, **more.get(phase, {})}
    record["metadata"].pop("deletionTimestamp", None)
    if going:
        record["metadata"]["deletionTimestamp"] = "now"
    return replace(view, berth=record)


def all_views(view, asked):
    """Of one berth, in each phase, whatever else is so of it."""
    others = (None, replace(asked, of=None), asked)
    facts = (
        (states.ABSENT, *states.RECORDED),
        (False, True),
        (view.owner, None),
        (None, LOSS, LEFT),
        (False, True),
        dict.fromkeys(repr(one) for one in others),
        ("", "StorageClass fast is gone"),
    )
    named = {repr(one): one for one in others}
    for phase, going, owner, loss, leaves, exchanged, unread in itertools.product(*facts):
        made = in_phase(replace(view, owner=owner, loss=loss, leaves=leaves, lost=unread), phase, going)
        yield replace(made, exchange=named[exchanged])


@pytest.fixture(scope="module")
def views(berths):
    """By phase and situation."""
    found = {}
    for each in itertools.chain.from_iterable(all_views(*one) for one in berths.values()):
        found.setdefault((situations.phase_of(each), situations.situation_of(each)), []).append(each)
    return found


def test_every_phase_in_every_situation_has_one_row_and_gives_a_step(views):
    rows = Counter((phase, row.situation) for row in situations.TABLE for phase in row.phases)
    assert set(rows.values()) == {1}, "twice"
    for each in itertools.chain.from_iterable(views.values()):
        assert isinstance(next_step(each), (Write, Choose, Wait, Look))
    assert set(views) == set(rows) == set(situations.DUE)
    everywhere = set(itertools.product((states.ABSENT, *states.RECORDED), situations.SITUATIONS))
    assert everywhere - set(views) == {(states.ABSENT, situations.ASKED), (states.ABSENT, situations.PARTING)}


@pytest.mark.parametrize("row", situations.TABLE, ids=lambda row: f"{row.situation}, {row.phases[0]}")
def test_without_a_row_there_is_no_step(views, row, monkeypatch):
    """So that a row that is taken out is missed, and not made up for elsewhere."""
    mine = [(phase, row.situation) for phase in row.phases]
    monkeypatch.setattr(situations, "DUE", {key: steps for key, steps in situations.DUE.items() if key not in mine})
    for key in mine:
        with pytest.raises(KeyError):
            next_step(views[key][0])


def test_of_all_that_is_so_the_gravest_decides(berths):
    view, asked = berths["claim"]
    owner = view.owner
    view = in_phase(replace(view, owner=None, loss=LOSS, leaves=True, lost="gone", exchange=asked), states.BOUND, True)
    after = [
        ({}, situations.UNREADABLE),
        ({"lost": ""}, situations.CLAIM_EXCHANGE),
        ({"exchange": replace(asked, of=None)}, situations.PARTING),
        ({"leaves": False}, situations.LOST),
        ({"loss": LEFT}, situations.LEFT),
        ({"loss": replace(LOSS, node="h2")}, situations.GONE),
        ({"owner": owner}, situations.ASKED),
        ({"berth": in_phase(view, states.BOUND).berth}, situations.EXCHANGE),
        ({"exchange": None}, situations.WANTED),
    ]
    for facts, situation in after:
        view = replace(view, **facts)
        assert situations.situation_of(view) == situation
    view = replace(view, berth=None, owner=None, loss=LOSS, leaves=True, exchange=replace(asked, of=None))
    for facts, situation in (
        ({}, situations.EXCHANGE),
        ({"exchange": None}, situations.GONE),
        ({"owner": owner}, situations.LOST),
        ({"loss": LEFT}, situations.LEFT),
        ({"loss": None}, situations.WANTED),
    ):
        view = replace(view, **facts)
        assert situations.situation_of(view) == situation


def test_a_berth_on_its_way_out_stays_on_it(berths):
    view, _asked = berths["replica"]
    view = in_phase(replace(view, owner=None, leaves=True), states.RELEASING)
    assert situations.situation_of(view) == situations.PARTING
    view.berth["status"]["release"] = states.LEAVE
    assert situations.situation_of(view) == situations.GONE


RELEASED = [row.situation for row in situations.TABLE if states.RELEASING in row.phases and row.steps[-1] == "forget"]


def test_what_is_released_from_berth_is_untied_in_every_situation_and_never_ended(views):
    """Its pod and its claims stay, also where somebody has it leave its node afterwards."""
    for situation in RELEASED:
        if situation == situations.CLAIM_EXCHANGE:
            continue
        (view, *_rest) = [each for each in views[states.RELEASING, situation] if each.pods]
        leaves = {**view.berth, "status": {"phase": states.RELEASING, "release": states.LEAVE}}
        step = next_step(replace(view, berth=leaves))
        assert (step.do, step.resource) == (PATCH, PVC), situation


def test_the_pod_of_a_berth_that_is_given_up_ends_before_its_locks_go(views):
    """Whoever is asked for it; where the owner is gone its pods have been stopped before, and a claim's are others'."""
    ended = set()
    for situation in RELEASED:
        for view in views[states.RELEASING, situation]:
            steps, node = [], {"spec": {"nodeName": view.berth["spec"]["nodeName"]}}
            view = replace(view, pods={name: {**pod, **node} for name, pod in view.pods.items()})
            for _number in range(6):
                step = next_step(view)
                if isinstance(step, Wait):
                    break
                steps.append((step.do, step.resource))
                meta = {**step.body["metadata"], "deletionTimestamp": "now", "deletionGracePeriodSeconds": 0}
                view = view.having(step.resource, {**step.body, "metadata": meta})
            if view.pods and claims.claim_of(view.berth) is None:
                ended |= {situation} if (REMOVE, POD) in steps or (FORCE, POD) in steps else set()
                assert isinstance(step, Wait)
            elif claims.claim_of(view.berth) is not None:
                assert not {(REMOVE, POD), (REMOVE, PVC)} & set(steps)
    assert ended == set(RELEASED) - {situations.CLAIM_EXCHANGE, situations.GONE}


def test_each_name_of_a_row_is_a_step_that_is_made_and_told():
    named = {name for row in situations.TABLE for name in row.steps}
    assert named == set(STEPS)
    assert set(states.STEPS) - named == OF_DRIVERS
    assert named - set(states.STEPS) == set(situations.BESIDE)
    assert {row.situation for row in situations.TABLE} == set(situations.SITUATIONS)


def test_a_step_of_a_row_begins_in_the_phase_of_the_row():
    """Or mends what is missing of a berth that is further on; who may not part is told so."""
    for row in situations.TABLE:
        for phase, name in itertools.product(row.phases, row.steps):
            step = states.STEPS.get(name)
            if step is None or name == "part":
                continue
            assert phase in step.sources or states.reached(phase, step.target), (row, phase, name)


def test_each_write_of_a_step_is_made_by_its_name_in_the_table():
    common = set(back._UNDO)
    for name in ("bury", "vacate"):
        writes = {(one.verb, one.what) for one in states.STEPS[name].writes}
        assert writes <= common | set(lost._UNDO)
        assert writes & {("delete", "Pod"), ("delete by force", "Pod")}
    assert set(replacing._OFF) <= {(one.verb, one.what) for one in states.STEPS["relock"].writes}


@pytest.mark.parametrize("phase", [states.SELECTED, states.RUNNING])
def test_no_disk_is_exchanged_before_it_is_locked(berths, phase):
    view, asked = berths["replica"]
    step = next_step(in_phase(replace(view, exchange=asked), phase))
    if phase == states.SELECTED:
        assert (step.reason, step.warn) == ("NotReserved", True)
        assert "run stateful_app to its end first; nothing was changed" in step.message
    else:
        assert (step.do, step.part) == ("replace", "cordon")


def test_a_phase_of_a_newer_release_is_left_alone(berths):
    view, _asked = berths["replica"]
    for owner in (view.owner, None):
        step = next_step(in_phase(replace(view, owner=owner), "Moving"))
        assert (step.reason, step.warn) == ("UnknownPhase", True)


#: How a write of the table reaches the API server.
WIRE = {"lock": "replace", "unlock": "replace", "cordon": "replace", "assign": "replace", "record": "status"}


def written(name):
    step = states.STEPS[name]
    return [(WIRE.get(one.verb, one.verb), one.what.split()[0]) for one in step.writes]


def lived(process):
    """Step by step, what is written; with the phase that a Berth comes to by it."""
    world, seen = process.world, []
    for _number in range(80):
        before = world.get(BERTH, NAME)
        step = process.step()
        if isinstance(step, Write):
            now = world.get(BERTH, NAME)
            phase = recorded(now) if now and (before is None or recorded(now) != recorded(before)) else None
            tied = (step.do, step.resource) == (PATCH, PVC)  # the controller of the StatefulSet has made it anew
            seen.append(((CREATE if tied else step.do, step.resource.kind), phase))
        elif step == DONE or (isinstance(step, Wait) and step.reason == "Pod"):
            return seen
        world.kubernetes()
        world.agent()
    raise AssertionError(f"it does not come to rest: {step}")


def check_order(seen, names):
    """The writes of these steps, one after the other: each ends with the phase that it comes to."""
    rest = list(seen)
    for name in names:
        target = states.STEPS[name].target
        ends = [index for index, (_write, phase) in enumerate(rest) if phase == target]
        cut = ends[0] + 1 if ends and target != states.ABSENT else len(rest)
        writes = [write for write, _phase in rest[:cut]]
        assert writes, name
        once = dict.fromkeys(writes) if name == "reserve" else [write for write, _each in itertools.groupby(writes)]
        assert in_order(once, written(name)), (name, writes)
        rest = rest[cut:]
    assert rest == []


def in_order(writes, told):
    """Whether all of them are told, in that order; what is not needed may be left out."""
    rest = iter(told)
    return all(write in rest for write in writes)


def test_a_berth_is_written_in_the_order_of_the_table():
    """Reserve alone goes from disk to disk: of its writes the first of each kind counts."""
    world = World()
    check_order(lived(Process(world, "present")), ("select", "reserve", "prebind", "create", "run"))
    run(world, Process(world, "present"))
    check_order(lived(Process(world, "exchange", exchange())), ("replace", "relock", "prebind", "create", "run"))
    check_order(lived(Process(world, "absent")), ("release", "forget"))
