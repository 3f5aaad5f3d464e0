"""Anything that may be asked of an app, in any order, with deaths, lost nodes and a second driver beside it."""

from __future__ import annotations

import re
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from ansible_collections.berth.stateful.plugins.module_utils.berth_core import errors
from berth_core.app.stateful_app_status import READY, STALLED, condition
from berth_core.lifecycle import states
from berth_core.lifecycle.view import disks_of, recorded
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC, STATEFUL_APP
from tests.core.app.samples import changed
from tests.core.lifecycle import life_moves as moves
from tests.core.lifecycle.life_checks import busy
from tests.core.lifecycle.life_drivers import Controller, Exchange, Playbook, defaults
from tests.core.lifecycle.life_world import LifeWorld

pytestmark = pytest.mark.promise
ALSO = (moves.TOGETHER, moves.BESIDE, moves.EXCHANGE, moves.HAND_OVER, moves.TAKE_BACK)
CLAIMS = ("data", "wal")
#: Runs until the last request is carried out, or refused for good.
RUNS = 60
#: What a refusal names.
OBJECT = re.compile(r"\bdb(-\d)?\b|\bn\d(-d\d)?\b")
BASE: dict = {}


def base(claims, unavailable, quorum):
    """The options of a task but those of Asked. Checked once: that takes longer than a run."""
    key = (claims, unavailable, quorum)
    if key not in BASE:
        disks = [{"name": name, "size": "1Gi", "storage_class": "fast"} for name in CLAIMS[:claims]]
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in CLAIMS[:claims]]
        template = {"spec": {"containers": [{"name": "db", "image": "db:1", "volumeMounts": mounts}]}}
        BASE[key] = defaults(
            **{key: one for key, one in changed(disks=disks, template=template).items() if key != "devices"},
            pod_management_policy="Parallel",
            max_unavailable=str(unavailable),
            quorum=quorum,
            pre_pull=False,
            wait_timeout=0,
        )
    return BASE[key]


def with_template(options, change):
    container = {**options["template"]["spec"]["containers"][0], "image": f"db:{change.get('image', 1)}"}
    if "command" in change:
        container["command"] = change["command"]
    template = {"metadata": {"labels": dict(change.get("labels") or {})}, "spec": {"containers": [container]}}
    return {**options, "template": template}


class Ground:
    """A life, as it goes on."""

    def __init__(self, life):
        options = base(life.claims, life.unavailable, life.quorum)
        self.world = LifeWorld()
        self.asked = moves.Asked(first=lambda asked: with_template(options, asked.template))
        self.world.asked_of_app = self.asked
        self.first, self.second = Playbook(self.world, "first"), Playbook(self.world, "second")
        self.controller, self.exchange = Controller(self.world), Exchange(self.world)
        self.first.asked = self.second.asked = self.asked

    @property
    def everybody(self):
        return (self.first, self.second, self.controller, self.exchange)

    def end(self):
        for each in self.everybody:
            each.kill()

    # -- moves -------------------------------------------------------------------------------------------------------

    def make(self, move):
        what, value = move
        world = self.world
        world.trace.append(str(move))
        if what in (*moves.REQUESTS, moves.HAND_OVER, moves.TAKE_BACK):
            self.ask(move)
        elif what == moves.RUN:
            self.carry_out(*value)
        elif what == moves.TOGETHER:
            self.together(value)
        elif what == moves.BESIDE:
            getattr(world, value)()
        elif what == moves.EXCHANGE:
            self.exchanged(*value)
        elif what == moves.POD_GOES:
            world.remove(POD, f"db-{value}")
        elif what == moves.HOME:
            self.home()
        else:
            self.lose(what, value)

    def ask(self, move):
        asked = moves.asked_after(self.asked, move, self.world.places(), frozenset(self.world.off))
        if self.asked.driver == "controller" != asked.driver:
            self.told_to_let_go()
        self.second.asked, self.first.asked, self.asked = self.first.asked, asked, asked

    def told_to_let_go(self):
        """As a person does it: kubectl patch statefulapp."""
        if self.world.get(STATEFUL_APP, "db") is not None:
            self.world.patch(STATEFUL_APP, "db", {"spec": {"driver": "playbook"}})

    def carry_out(self, kill_at=0, waits=True):
        """A run of the playbook; then a look of the controller, where it has the app."""
        self.first.at_once(0 if self.asked.driver == "controller" else kill_at, waits)
        if self.asked.driver == "controller":
            self.controller.at_once(kill_at)

    def together(self, turns):
        """``first`` carries out what is asked now, ``second`` what was asked before, or it is the controller."""
        other = self.controller if self.asked.driver == "controller" else self.second
        if self.asked.driver == "controller" and not self.first.under_way:
            self.first.at_once()
        for who, number in turns:
            if who == "beside":
                self.world.all_turns()
            else:
                for _request in range(number):
                    (self.first if who == "first" else other).step()

    def exchanged(self, ordinal, requests):
        record = self.world.get(BERTH, f"db-{ordinal}")
        disks = [each["name"] for each in disks_of(record)] if record is not None else []
        if not disks or (LOCAL_DISK, f"{disks[0]}-new") in self.world.store:
            return
        self.exchange.kill()
        self.exchange.old = disks[0]
        for _request in range(requests):
            self.exchange.step()

    def lose(self, what, value):
        ordinal, taint = value if what == moves.OFF else (value, False)
        node = self.world.places().get(ordinal)
        if node is None or len(self.world.lost | {node}) > 2:
            return
        if what == moves.OFF:
            self.world.switch_off(node, taint)
        else:
            self.world.lose(node)

    def home(self):
        """Nobody switches a machine on while a run gives up what it holds: a run that has begun has ended."""
        for each in self.everybody:
            each.kill()
        for node in sorted(self.world.lost):
            self.world.bring_back(node)
        asked = moves.asked_after(self.asked, (moves.HOME, None), {}, frozenset())
        self.second.asked = self.first.asked = self.asked = asked

    # -- the end -----------------------------------------------------------------------------------------------------

    def mend(self):
        """All nodes are back, people let the disks be used again, and nobody asks for another place any more."""
        self.home()
        for disk in self.world.all(LOCAL_DISK):
            self.world.uncordon(disk["metadata"]["name"])
        plain = replace(self.asked, once={}, named=frozenset(), strategy="in_place_if_possible", rollback=False)
        self.first.asked = self.asked = plain
        if plain.driver == "playbook":
            self.told_to_let_go()

    def come_to_rest(self):
        """Runs of the last request, and everything beside, until a run writes nothing and nothing else happens.
        Returns what that run came to."""
        return self.rest_without_exchanges(self.finish_exchanges)

    def rest_without_exchanges(self, also=lambda: None):
        """Likewise, where nobody ends an exchange that was begun."""
        for each in self.everybody:
            each.kill()
        for _number in range(RUNS):
            before = self.world.count
            also()
            self.carry_out()
            wrote = self.first.wrote + (self.controller.wrote if self.asked.driver == "controller" else 0)
            self.world.all_turns()
            if not wrote and self.world.count == before:
                return self.first.outcome
        raise AssertionError(f"it does not come to rest: {self.first.outcome!r}, {self.world.log[-12:]}")

    def finish_exchanges(self):
        """Who has begun one runs disk_replace again."""
        for record in self.world.all(BERTH):
            if recorded(record) == states.REPLACING:
                self.exchange.old = record["status"]["replacing"]["from"]
                self.exchange.at_once()

    def refused(self, outcome):
        """Why it is not as asked; empty where it is."""
        if isinstance(outcome, errors.BerthError):
            return outcome.message
        if self.asked.driver != "controller":
            return ""
        live = self.world.get(STATEFUL_APP, "db")
        told = [condition(live, kind) for kind in (STALLED, READY)]
        return "" if told[1].get("status") == "True" else "; ".join(str(one.get("message")) for one in told)

    def is_as_asked(self):
        """Every replica runs in its berth with the template that is asked for, and nothing else is there."""
        world, asked = self.world, self.asked
        records = {one["spec"]["ordinal"]: one for one in world.all(BERTH)}
        assert sorted(records) == list(range(asked.replicas))
        pods = {pod["metadata"]["name"]: pod for pod in world.all(POD)}
        assert sorted(pods) == ([] if asked.suspended else [f"db-{ordinal}" for ordinal in range(asked.replicas)])
        for ordinal, record in records.items():
            name, phase = record["metadata"]["name"], recorded(record)
            if phase == states.REPLACING and record["spec"]["nodeName"] in world.lost:
                continue  # who exchanges its disk waits for the node
            held = {
                one["metadata"]["name"] for one in world.all(LOCAL_DISK) if holder(one) == record["metadata"]["uid"]
            }
            assert held == {each["name"] for each in disks_of(record)}
            if asked.suspended:
                assert states.reached(phase, states.BOUND), (name, phase)
                continue
            assert phase == states.RUNNING, (name, phase)
            assert not busy(pods[name])
            assert f"{name}@{record['spec']['nodeName']}" in world.pods
            if not asked.rollback:
                wanted = asked.params()["template"]["spec"]["containers"][0]
                there = pods[name]["spec"]["containers"][0]
                assert (there["image"], there.get("command")) == (wanted["image"], wanted.get("command")), ordinal
        assert world.stale_locks() == []
        assert [one for one in world.orphans() if one.repair] == []


def holder(disk):
    return (disk["spec"].get("claimRef") or {}).get("uid")


def live(life):
    """A life from its first run to its last; what it came to is told of as it stands, and when all is well again."""
    ground = Ground(life)
    try:
        assert isinstance(ground.come_to_rest(), dict), ground.first.outcome
        ground.is_as_asked()
        for move in life.moves:
            ground.make(move)
        why = ground.refused(ground.come_to_rest())
        if why:
            assert OBJECT.search(why), why
        else:
            ground.is_as_asked()
        ground.mend()
        left = ground.refused(ground.come_to_rest())
        assert not left, left
        ground.is_as_asked()
        return ground, why
    finally:
        ground.end()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_life_keeps_every_promise(data):
    """`life_checks` at every write, `race_checks` after every change, and it ends as asked, or says why not."""
    live(moves.life(lambda choices: data.draw(st.sampled_from(choices)), range(2, 9), ALSO))


# -- what such lives have found ----------------------------------------------------------------------------------------


@pytest.fixture
def ground():
    made = Ground(moves.Life(1, 1, None, ()))
    made.come_to_rest()
    yield made
    made.end()


@pytest.mark.parametrize("requests", range(1, 14))
def test_claims_of_a_berth_that_is_made_meanwhile_are_not_taken_for_stale(ground, requests):
    """A run looks while another one makes a Berth and its claims: what it has listed before is not all there is."""
    ground.make((moves.SCALE, 4))
    ground.second.asked = ground.asked
    for _request in range(requests):
        ground.second.step()
    ground.first.at_once()
    claim = ground.world.get(PVC, "data-db-3")["metadata"]["uid"]
    while ground.second.under_way:
        ground.second.step()
    live = ground.world.get(PVC, "data-db-3")["metadata"]
    assert (live["uid"], live.get("deletionTimestamp")) == (claim, None)


def test_an_update_takes_nobody_down_beside_a_replica_whose_disk_is_exchanged(ground):
    """Whoever drives it: db-0 is down, and no more than one may be."""
    ground.exchanged(0, 40)
    assert recorded(ground.world.get(BERTH, "db-0")) == states.REPLACING
    ground.make((moves.TEMPLATE, {"image": 2, "command": ["y"]}))
    for _run in range(3):
        ground.carry_out()
        ground.world.all_turns()
    assert "pod db-0 to be Ready (max_unavailable is 1)" in ground.first.outcome.message
    ground.make((moves.HAND_OVER, None))
    assert "pod db-0 to be Ready (max_unavailable is 1)" in ground.refused(ground.rest_without_exchanges())
    assert ground.refused(ground.come_to_rest()) == ""
    ground.is_as_asked()


@pytest.mark.parametrize("driver", ["playbook", "controller"])
def test_who_ends_what_another_run_began_takes_the_disks_that_it_has_given_up(ground, driver):
    """It has unlocked them itself: what it saw before tells of a lock that is gone, and of a race that nobody runs."""
    world = ground.world
    ground.make((moves.SCALE, 2))
    while [one for one in world.all(PV) if one["spec"]["claimRef"]["name"] == "data-db-2"]:
        ground.carry_out(1)
        world.all_turns()
    assert recorded(world.get(BERTH, "db-2")) == states.RELEASING
    assert world.get(BERTH, "db-2")["metadata"]["uid"] == holder(world.get(LOCAL_DISK, "n3-d0"))
    ground.make((moves.SCALE, 3))
    if driver == "controller":
        ground.make((moves.HAND_OVER, None))
    begun = len(world.trace)
    ground.carry_out()
    assert [line for line in world.trace[begun:] if "create Berth db-2" in line] != []
    assert len([line for line in world.trace[begun:] if line.endswith("Berth db-2 status Releasing")]) == 0
    assert holder(world.get(LOCAL_DISK, "n3-d0")) == world.get(BERTH, "db-2")["metadata"]["uid"]


def test_an_app_is_suspended_though_a_run_died_when_a_replica_had_no_berth(ground):
    """Its StatefulSet has made the pod, which waits; a place is chosen for when the app goes on."""
    world = ground.world
    ground.make((moves.LEAVE, (0, True)))
    while world.get(BERTH, "db-0") is not None:
        ground.carry_out(1)
        world.all_turns()
    assert world.get(POD, "db-0") is not None
    ground.make((moves.SUSPEND, None))
    ground.carry_out()
    assert ground.refused(ground.come_to_rest()) == ""
    ground.is_as_asked()
