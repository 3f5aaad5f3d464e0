"""Every state with every event: what is not in the table changes nothing, and what is final stays so."""

from __future__ import annotations

import itertools

from berth_core.tasks import states
from berth_core.tasks.states import (
    CHANGE,
    EVENTS,
    FAIL,
    FAILED,
    FINAL,
    KILL,
    KILLED,
    LOSE,
    OLD_POD_ENDED,
    REFUSE,
    RETRY,
    RUNNING,
    START,
    STATES,
    SUBMITTED,
    SUCCEED,
    SUCCEEDED,
    TABLE,
    UPDATED,
    after,
)

WANTED = {
    SUBMITTED: {START: RUNNING, REFUSE: FAILED, KILL: KILLED},
    RUNNING: {
        CHANGE: UPDATED,
        REFUSE: FAILED,
        LOSE: SUBMITTED,
        SUCCEED: SUCCEEDED,
        RETRY: SUBMITTED,
        FAIL: FAILED,
        KILL: KILLED,
    },
    UPDATED: {
        OLD_POD_ENDED: RUNNING,
        LOSE: RUNNING,
        SUCCEED: SUCCEEDED,
        RETRY: SUBMITTED,
        FAIL: FAILED,
        REFUSE: FAILED,
        KILL: KILLED,
    },
    SUCCEEDED: {},
    FAILED: {},
    KILLED: {},
}


def test_every_state_with_every_event() -> None:
    for state, event in itertools.product(STATES, EVENTS):
        assert after(state, event) == WANTED[state].get(event, state), (state, event)


def test_no_row_twice_and_none_out_of_a_final_state() -> None:
    assert len({(row.source, row.event) for row in TABLE}) == len(TABLE)
    assert not [row for row in TABLE if row.source in FINAL]
    assert {row.event for row in TABLE} == set(EVENTS)
    assert all(row.source in STATES and row.target in STATES for row in TABLE)


def test_the_docs_show_every_row() -> None:
    drawn, told = states.diagram(), states.table()
    for row in TABLE:
        assert f"    {row.source} --> {row.target}: {row.event}\n" in drawn
        assert f"| {row.source} | {row.event} | {row.target} | {row.meaning} |" in told
