"""Who waits for something can be told to stop at any moment. Needs no cluster."""

from __future__ import annotations

import asyncio

import pytest

from berth_agent.waiting import wait_for


async def cancelled_as_it_ends(seconds: float) -> bool:
    """Whether a task is cancelled which waits for an event that is set in the same moment."""
    event = asyncio.Event()
    task = asyncio.ensure_future(wait_for(event.wait(), seconds))
    await asyncio.sleep(0.01)
    event.set()
    for _turn in range(3):
        await asyncio.sleep(0)
        if task.cancel():
            break
    await asyncio.wait([task])
    return task.cancelled()


def test_a_cancellation_is_not_lost_when_what_is_waited_for_ends_in_the_same_moment() -> None:
    """An agent whose cancellation is lost works on, and its stop waits for it until it is killed."""
    assert asyncio.run(cancelled_as_it_ends(30))


def test_it_answers_and_it_ends() -> None:
    async def story() -> str:
        assert await wait_for(asyncio.sleep(0, "answer"), 30) == "answer"
        with pytest.raises(ZeroDivisionError):
            await wait_for(fails(), 30)
        never = asyncio.ensure_future(asyncio.Event().wait())
        with pytest.raises(asyncio.TimeoutError):
            await wait_for(never, 0.01)
        return "cancelled" if never.cancelled() else "left behind"

    async def fails() -> None:
        raise ZeroDivisionError

    assert asyncio.run(story()) == "cancelled"
