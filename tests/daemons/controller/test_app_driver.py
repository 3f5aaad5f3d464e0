"""berth-controller's driver of a StatefulApp's berths: killed at any request, and beside a run of stateful_app.

The driver is the product's own, over the API server in a dictionary of tests/core/lifecycle, which checks after each
write that no disk has two holders and none that carries data is anybody's to take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_controller.apps.drive import Driver
from berth_core.errors import BerthError, NotFoundError
from berth_core.lifecycle import states
from berth_core.lifecycle.driving import reserved
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.step import CREATE, DONE, PATCH, REMOVE, REPLACE, STATUS, Choose, Wait, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, NAMESPACE, PV, PVC
from tests.core.app.samples import copied
from tests.core.lifecycle.replica_world import NAME, Process, World, locks, merged, run, volumes_of

pytestmark = pytest.mark.promise


class KilledError(Exception):
    """The process ends at a request."""


class Api:
    """Requests on the world. ``before``: called before each of them."""

    def __init__(self, world: Any, before: Callable[[], None]) -> None:
        self._world, self._before = world, before

    async def find(self, resource: Any, name: str, _namespace: str | None = None) -> Any:
        self._before()
        if resource == NAMESPACE:
            return {"metadata": {"name": name, "uid": self._world.tenant.namespace_uid}}
        return self._world.get(resource, name)

    async def list(self, resource: Any, _namespace: str | None = None, **_which: Any) -> Any:
        self._before()
        return self._world.all(resource)

    async def create(self, resource: Any, body: Any) -> Any:
        return self._write(CREATE, resource, lambda: body)

    async def replace(self, resource: Any, body: Any) -> Any:
        return self._write(REPLACE, resource, lambda: body)

    async def patch(self, resource: Any, name: str, _namespace: Any, body: Any, subresource: str | None = None) -> Any:
        body = {**body, "metadata": {**body["metadata"], "name": name}}
        if subresource is None:
            return self._write(PATCH, resource, lambda: body)

        def whole_status() -> Any:
            before = (self._world.get(resource, name) or {}).get("status")
            return {**body, "status": merged(before, body["status"])}

        return self._write(STATUS, resource, whole_status)

    async def delete(self, resource: Any, name: str, _namespace: str | None = None, uid: str | None = None) -> bool:
        try:
            self._write(REMOVE, resource, lambda: {"metadata": {"name": name, "uid": uid}})
        except NotFoundError:
            return False
        return True

    def _write(self, do: str, resource: Any, body: Callable[[], Any]) -> Any:
        self._before()
        return self._world.apply(Write(do, resource, body(), ""))


def visits(world: Any, goal: str, before: Callable[[], None], most: int = 40) -> None:
    """Looks at the app, one after the other, until it rests. Raises what ``before`` raises."""
    api: Any = Api(world, before)
    process = Process(world, goal)
    for _visit in range(most):
        if goal == "absent":
            process._stop()
        process.look()
        process._clear_stale()
        view = replace(process.look(), owner=process.owner())
        driven = asyncio.run(Driver(api).drive(view))
        process.chosen = None if driven.made else process.chosen
        if isinstance(driven.step, Choose):
            process.chosen = process._choose()
            if process.chosen is None:
                return
        elif isinstance(driven.step, Wait) and driven.step.reason == "Workload":
            world.wanted = True
        elif driven.step == DONE or (
            isinstance(driven.step, Wait) and (driven.step.warn or driven.step.reason == "Pod")
        ):
            return
        world.kubernetes()
        world.agent()
    raise AssertionError(f"it does not come to rest: {world.log[-12:]}; {driven.step}")


def whole(world: Any) -> None:
    """Running on the first two disks, and nothing else of it."""
    assert recorded(world.get(BERTH, NAME)) == states.RUNNING
    assert locks(world)[0] == {"data": "d0", "wal": "d1"}
    assert {one["metadata"]["name"] for one in world.all(PV)} == volumes_of(world)
    assert len(world.all(PVC)) == 2
    assert world.stale_locks() == []


def gone(world: Any) -> None:
    """Nothing is left of it but its data."""
    left = [one for one in world.store.values() if BERTH_ANNOTATION in (one["metadata"].get("annotations") or {})]
    assert (left, world.all(BERTH), world.stale_locks()) == ([], [], [])


def nothing() -> None:
    """Undisturbed."""


def killed_at(number: int) -> Callable[[], None]:
    left = [number]

    def before() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError

    return before


def cut(world: Any, goal: str, at: int) -> bool:
    """Whether it died before it came to rest."""
    try:
        visits(world, goal, killed_at(at))
    except KilledError:
        return True
    return False


@pytest.mark.parametrize("then", ["present", "absent"])
@pytest.mark.parametrize("first", ["present", "absent"])
def test_killed_at_any_request_it_is_continued_or_given_up(first: str, then: str) -> None:
    at, died = 0, True
    while died:
        world = World()
        if first == "absent":
            visits(world, "present", nothing)
            whole(world)
        died = cut(world, first, at)
        visits(world, then, nothing)
        if then == "present":
            whole(world)
        else:
            gone(world)
        at += 1
    assert at > 5, "it has made requests"


def at_request(number: int, act: Callable[[], None]) -> Callable[[], None]:
    """That is done once, right before that request."""
    left = [number]

    def before() -> None:
        left[0] -= 1
        if left[0] == -1:
            act()

    return before


@pytest.mark.parametrize("at", range(24))
def test_what_somebody_else_has_just_written_is_read_anew_and_it_goes_on(at: int) -> None:
    world = World()

    def touch() -> None:
        for key, one in list(world.store.items()):
            world._put(key[0], copied(one))

    visits(world, "present", at_request(at, touch))
    whole(world)


@pytest.mark.parametrize("at", range(1, 8))
def test_a_berth_that_is_deleted_by_force_while_it_locks_leaves_no_lock_behind(at: int) -> None:
    world = World()
    process = Process(world, "present")
    process.chosen = process._choose()
    dropped: list[Any] = []

    def drop() -> None:
        dropped.append(world.store.pop((BERTH, NAME), None))

    view = replace(process.look(), owner=process.owner())
    api: Any = Api(world, at_request(at, drop))
    asyncio.run(Driver(api).drive(view, reserved))
    assert dropped[0] is not None
    assert world.stale_locks() == []


#: What goes on between two of its requests.
BETWEEN = st.sampled_from(["", "", "other", "other", "kubernetes", "agent", "kill", "kill other"])


@settings(max_examples=60, deadline=None)
@given(st.lists(BETWEEN, max_size=80), st.sampled_from(["present", "absent"]), st.sampled_from(["present", "absent"]))
def test_beside_a_run_of_the_module_nothing_is_lost(actions: list[str], goal: str, other: str) -> None:
    world, left = World(), list(reversed(actions))
    beside = Process(world, other)

    def before() -> None:
        action = left.pop() if left else ""
        if action == "kill":
            raise KilledError
        if action == "other":
            beside.step()
        elif action == "kill other":
            beside.kill()
        elif action:
            getattr(world, action)()
        world.check()

    while left:
        try:
            visits(world, goal, before)
        except (KilledError, BerthError):
            continue
        if left:
            left.pop()
    run(world, Process(world, "absent"))
    gone(world)
