"""The state table is whole: every phase is reached, every step has a way back, and the words in it are the schema's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from berth_core.lifecycle import back, states
from berth_core.lifecycle.recording import record_phase

CRDS = Path(__file__).parents[3] / "deploy" / "crds"


def test_forward_passes_every_phase_once():
    assert [step.source for step in states.FORWARD] == [states.ABSENT, *states.PHASES[:-1]]
    assert [step.target for step in states.FORWARD] == list(states.PHASES)


def test_backward_ends_where_nothing_is_left():
    assert states.BACKWARD[0].source == states.CREATED
    assert [step.target for step in states.REPLACEMENT] == [states.REPLACING, states.RESERVED]
    for step, following in zip(states.BACKWARD, states.BACKWARD[1:], strict=False):
        assert step.target == following.source
    assert states.BACKWARD[-1].target == states.ABSENT


def test_the_record_is_made_first_and_goes_last():
    assert states.FORWARD[0].writes == (states.Effect("create", "Berth", "berth"),)
    assert states.BACKWARD[-1].writes[-1] == states.Effect("delete", "Berth", "berth")


def test_the_phases_are_those_of_the_schema():
    crd = yaml.safe_load((CRDS / "berths.berth.dev.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]["properties"]
    assert tuple(status["phase"]["enum"]) == states.RECORDED
    assert tuple(status["release"]["enum"]) == states.OUTCOMES


def test_reached_orders_the_phases():
    assert states.reached(states.BOUND, states.RESERVED)
    assert not states.reached(states.SELECTED, states.RESERVED)
    assert not states.reached(states.ABSENT, states.SELECTED)


def test_forward_from_names_what_is_left():
    assert [step.name for step in states.forward_from(states.RESERVED)] == ["prebind", "create", "run"]
    assert states.forward_from(states.RUNNING) == states.forward_from(states.RELEASING) == ()


def test_the_diagram_shows_every_transition():
    text = states.diagram()
    for step in states.TABLE:
        assert f": {step.name}\n" in text


@pytest.mark.parametrize("phase", states.RECORDED)
def test_no_phase_goes_back_and_none_comes_out_of_releasing(phase):
    following = {other for other in states.RECORDED if states.may_follow(phase, other)}
    assert states.SELECTED not in following
    if phase == states.RELEASING:
        assert following == set()
    elif phase == states.REPLACING:
        assert following == {states.RESERVED, states.RELEASING}
    else:
        later = set(states.PHASES[states.PHASES.index(phase) + 1 :])
        replacing = {states.REPLACING} if states.reached(phase, states.RESERVED) else set()
        assert following == later | replacing | {states.RELEASING}


def test_each_write_of_the_ways_back_is_made_by_its_name_in_the_table():
    named = {(one.verb, one.what) for steps in (states.BACKWARD, states.WAY_OUT) for one in steps[-1].writes}
    assert named == set(back._UNDO)


@pytest.mark.parametrize("phase", states.RECORDED)
@pytest.mark.parametrize("following", states.RECORDED)
def test_no_phase_is_recorded_that_the_table_does_not_let_follow(phase, following):
    record = {"metadata": {"name": "db-0"}, "status": {"phase": phase, "podName": "db-0"}}
    if phase == following or states.may_follow(phase, following):
        written = record_phase(record, following, "so it is", podName=None)
        assert (written.body["status"], written.why) == ({"phase": following}, "so it is")
    else:
        with pytest.raises(AssertionError, match=f"Berth db-0 is {phase}, which {following} does not follow"):
            record_phase(record, following)
