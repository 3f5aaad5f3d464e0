"""The state table is whole: every phase is reached, every step has a way back, and the words in it are the schema's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from berth_core.lifecycle import states

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
    assert states.forward_from(states.RUNNING) == ()


def test_the_diagram_shows_every_transition():
    text = states.diagram()
    every = (*states.FORWARD, *states.REPLACEMENT, *states.BACKWARD, *states.LOSS, *states.LEAVING, *states.WAY_OUT)
    for step in every:
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
