"""Whether the request of a wipe that is under way stands: what the watch has told may be behind what was read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from berth_agent.disks.wiping import _Follower, _NotBegun, _Paused
from berth_core.app.wipe import plan_wipe
from berth_core.errors import BerthError, UnavailableError
from tests.core.app.disk_samples import device, local_disk


def asked(request: str) -> dict[str, Any]:
    disk = local_disk()
    disk["spec"]["wipe"] = {"requestID": request, "identity": dict(disk["spec"]["identity"]), "requestedBy": "ann"}
    return disk


def check(told: dict[str, Any] | None, live: dict[str, Any] | Exception | None, begun: str = "") -> None:
    """``begun``: the request of which a process before this one has told that it begins."""

    async def find(_resource: Any, _name: str) -> dict[str, Any] | None:
        if isinstance(live, Exception):
            raise live
        return live

    disk = asked("r1")
    if begun:
        disk["status"] = {**disk.get("status", {}), "wipe": {"requestID": begun, "step": "Signatures", "offset": 0}}
    tools = SimpleNamespace(
        check=lambda: None, disks=lambda: {"h1-d0": told} if told else {}, client=SimpleNamespace(find=find)
    )
    follower = _Follower(SimpleNamespace(tools=tools), disk, plan_wipe(disk, [device()], False, "now"))  # type: ignore[arg-type]
    asyncio.run(follower._check_request())


def test_it_stands_where_watch_or_api_server_say_so() -> None:
    check(asked("r1"), AssertionError("nobody is asked"))
    check(local_disk(), asked("r1"))  # etcd was restored, and the watch has not told of it
    check(None, asked("r1"))


def test_it_was_taken_back_when_the_api_server_says_so_too() -> None:
    for live in (None, local_disk(), asked("r2")):
        with pytest.raises(BerthError, match="was taken back at byte 0"):
            check(local_disk(), live, begun="r1")


def test_what_is_taken_back_before_it_began_has_not_been_carried_out() -> None:
    """Else the same request, out of a backup, is taken for one whose data is gone."""
    for live in (None, local_disk(), asked("r2")):
        with pytest.raises(_NotBegun, match="before anything was wiped"):
            check(local_disk(), live)
    with pytest.raises(_NotBegun):
        check(local_disk(), local_disk(), begun="r0")


def test_it_waits_for_an_api_server_that_is_away() -> None:
    with pytest.raises(_Paused):
        check(local_disk(), UnavailableError("away"))
