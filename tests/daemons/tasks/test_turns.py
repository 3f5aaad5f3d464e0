"""Turns: one after the other, once each, and whoever gives up delays nobody."""

from __future__ import annotations

import asyncio

from berth_tasks.turns import Turns


def test_each_has_one_turn_and_there_is_a_pause_between_two() -> None:
    async def tell() -> tuple[list[str], list[str]]:
        had: list[str] = []
        turns = Turns(lambda key, what: had.append(key + what), 3600.0)
        for key in ("first", "first", "second"):
            turns.ask(key, "!")
        turns.give_up("first")
        turns.ask("third", "?")
        assert ("third" in turns, "first" in turns) == (True, False)
        task = asyncio.ensure_future(turns.run())
        await asyncio.sleep(0.05)
        paused = list(had)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        turns.give_up("nobody")
        task = asyncio.ensure_future(turns.run())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return paused, had

    assert asyncio.run(tell()) == (["second!"], ["second!", "third?"])


def test_one_that_asks_later_is_heard_and_may_ask_again() -> None:
    async def tell() -> list[int]:
        had: list[int] = []
        turns = Turns(lambda _key, what: had.append(what), 0.0)
        task = asyncio.ensure_future(turns.run())
        for key in (1, 2, 1):
            turns.ask(key, key)
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return had

    assert asyncio.run(tell()) == [1, 2, 1]


def test_beside_many_other_writes_there_are_fewer_turns_but_never_none() -> None:
    """Counted in pauses, of which each ends when the next one begins: no clock is asked."""

    async def told(others: int) -> list[int]:
        pauses = 0
        had: list[int] = []

        async def pause(_seconds: float) -> None:
            nonlocal pauses
            pauses += 1
            for _write in range(others):
                turns.other()
            await asyncio.sleep(0)

        turns: Turns[int, None] = Turns(lambda _key, _what: had.append(pauses), 0.1, pause)
        for key in range(5):
            turns.ask(key, None)
        task = asyncio.ensure_future(turns.run())
        while len(had) < 5:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return had

    assert asyncio.run(told(0)) == [0, 1, 2, 3, 4]
    assert asyncio.run(told(1)) == [0, 1, 2, 3, 4]
    assert asyncio.run(told(2)) == [0, 10, 20, 30, 40]
