"""Which rows say that something never starts as things are."""

from __future__ import annotations

import pytest

from berth_core.tasks.states import FINAL, STATES
from berth_core.tasks.told import NEVER, stuck


@pytest.mark.parametrize("state", STATES)
def test_what_waits_for_what_never_comes_is_stuck_whether_or_not_it_has_begun(state: str) -> None:
    """A TaskBatch that has begun is Running, and what is left of it may wait for ever."""
    assert [stuck({"state": state, "reason": reason}) for reason in NEVER] == [state not in FINAL] * len(NEVER)
    assert not any(stuck({"state": state, "reason": reason}) for reason in (None, "", "NoRoom", "NodeUnreachable"))
