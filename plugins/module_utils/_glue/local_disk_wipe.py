# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wipe of one LocalDisk: asked for once, by name and identity, and waited for. The node agent is who wipes.

Called by the operation local_disk. Whether it may be asked for is decided in berth_core.app.disk_acts.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from ..berth_core.app.disk_acts import WipeOutcome, check_wipe, destroyed_by_wipe, wipe_outcome, wipe_request
from ..berth_core.app.disk_bounds import WIPE, check_texts
from ..berth_core.app.disk_change import read_identity, wanted_name
from ..berth_core.app.wipe import check_unspent
from ..berth_core.errors import ConflictError, IdentityError, StateError, TimeoutExpired
from ..berth_core.model.resources import LOCAL_DISK
from .base import Context
from .objects import poll

_ATTEMPTS = 8


def run_wipe(context: Context) -> dict[str, Any]:
    """Ask, and wait where that is wanted. The same ``request_id`` again asks for nothing more."""
    params, wipe = context.params, context.params["wipe"]
    name = wanted_name({**params, "identity": params["identity"] or wipe["identity"]}, "local_disk")
    _check(f"LocalDisk {name}: wipe", wipe)
    live = context.client.get(LOCAL_DISK, name)
    request = {
        "requestID": wipe["request_id"] or str(uuid4()),
        "requestedBy": wipe["requested_by"] or f"{getpass.getuser()}@{socket.gethostname()}",
        "method": wipe["method"],
    }
    under_way = _under_way(live, request["requestID"])
    destroyed = destroyed_by_wipe(live)
    header = f"LocalDisk {name}"
    diff = {
        "before_header": header,
        "after_header": header,
        "before": destroyed,
        "after": {"disk": name, "wiped": True},
    }
    if context.check_mode:
        if not under_way:
            check_wipe(live, wipe["identity"], bool(params["force_retained"]))
        return {"changed": not under_way, "destroyed": destroyed, "diff": [] if under_way else [diff]}
    if not under_way:
        live = _ask(context, live, request)
    done = _wait(context, name, under_way or request["requestID"], live) if params["wait"] else live
    return {
        "changed": not under_way,
        "destroyed": destroyed,
        "wipe": (done.get("status") or {}).get("lastWipe") if params["wait"] else done["spec"].get("wipe"),
        "diff": [] if under_way else [diff],
    }


def _check(where: str, wipe: Mapping[str, Any]) -> None:
    """What can be known to be wrong before the disk is read. Raises InputError, IdentityError."""
    check_texts(wipe, WIPE, where)
    identity = read_identity(wipe["identity"], where)
    if not identity.is_strong():
        raise IdentityError(
            f"{where}: identity is {identity.describe()}: name at least one of wwn, serial, by_path; nothing was wiped"
        )


def _under_way(live: Mapping[str, Any], request_id: str) -> str:
    """The request that makes another one needless: one that nobody has finished, or this very one.

    Raises InputError where this very one was carried out for data that was there before.
    """
    check_unspent(live, request_id)
    if (live.get("status") or {}).get("lastWipe", {}).get("requestID") == request_id:
        return request_id
    asked = str((live["spec"].get("wipe") or {}).get("requestID") or "")
    return asked if asked and not wipe_outcome(live, asked).done else ""


def _ask(context: Context, live: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the request by compare-and-swap; one that failed is taken back first, as a request never changes."""
    name, params = live["metadata"]["name"], context.params
    for _attempt in range(_ATTEMPTS):
        check_wipe(live, params["wipe"]["identity"], bool(params["force_retained"]))
        try:
            if live["spec"].get("wipe"):
                spec = {key: value for key, value in live["spec"].items() if key != "wipe"}
                live = context.client.replace(LOCAL_DISK, {**live, "spec": spec})
            asked = wipe_request(live, params["wipe"]["identity"], request, bool(params["force_retained"]))
            return context.client.replace(LOCAL_DISK, asked)
        except ConflictError:
            live = context.client.get(LOCAL_DISK, name)
    raise ConflictError(
        f"LocalDisk {name} changed before the write {_ATTEMPTS} times; no wipe was asked for", 409, "Conflict"
    )


def _wait(context: Context, name: str, request_id: str, live: dict[str, Any]) -> dict[str, Any]:
    """Until the agent is done with it. Raises StateError where it failed, TimeoutExpired with how far it came."""
    seen = {"disk": live}

    def look() -> WipeOutcome | None:
        seen["disk"] = context.client.get(LOCAL_DISK, name)
        outcome = wipe_outcome(seen["disk"], request_id)
        context.progress(f"LocalDisk {name}: {outcome.progress}")
        # The request goes with the outcome, in another write: only then is the disk free.
        settled = outcome.done and (outcome.failed or not seen["disk"]["spec"].get("wipe"))
        return outcome if settled else None

    outcome = poll(look, context.params["wait_timeout"], most=2.0)
    if outcome is None:
        progress = wipe_outcome(seen["disk"], request_id).progress
        raise TimeoutExpired(
            f"LocalDisk {name}: the wipe is not finished after {context.params['wait_timeout']} s ({progress}). It "
            f"goes on; run the task again with request_id: {request_id} to wait for it. Is the agent of node "
            f"{seen['disk']['spec']['nodeName']} running?",
            request_id=request_id,
        )
    if outcome.failed:
        raise StateError(f"LocalDisk {name}: the wipe failed: {outcome.failed}", request_id=request_id)
    return seen["disk"]
