# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers of a replica's berth have in common: what came of a drive, where it stops, what is refused. Pure.

The drivers themselves (_glue.app.driver, berth_controller.apps.driver) send what next_step says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Callable, NamedTuple

from ..errors import ConflictError, StateError
from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK
from . import states
from .owner import Owner
from .step import CREATE, Look, Step, Wait, Write
from .view import View, recorded

#: Writes and refusals of one drive. A berth's whole life has fewer; more means that somebody works against the drive.
STEPS = 200
#: Waiting reasons of a berth whose disk or lock is gone.
LOST = ("LockLost", "DiskGone")
Object = dict[str, Any]
#: Whether to stop in front of a step, in view of what is there.
Until = Callable[[View, Step], bool]


class Driven(NamedTuple):
    """``step``: what is next, and was not done. ``done``: the writes that were accepted, in order.

    ``asked``: it stopped where it was asked to.
    """

    view: View
    step: Step
    done: list[Write]
    asked: bool = False

    @property
    def made(self) -> bool:
        """Whether the Berth that is there was created by this drive."""
        return self.view.berth is not None and any((one.do, one.resource) == (CREATE, BERTH) for one in self.done)

    @property
    def why(self) -> str:
        """Why the berth was given up."""
        told = [one.why for one in self.done if (one.body.get("status") or {}).get("phase") == states.RELEASING]
        return told[-1] if told else "its berth was given up by another run of this app"


def refuse(title: str, step: Step) -> None:
    """Raise StateError where a person has to look before the berth can go on."""
    if not isinstance(step, Wait) or not step.warn:
        return
    if step.reason in LOST:
        raise StateError(f"berth {title} has lost what it held: {step.message}")
    if step.reason == "Differs":
        raise ConflictError(step.message, 409, "AlreadyExists")
    raise StateError(f"berth {title}: {step.message}")


def there(view: View, _step: Step) -> bool:
    """Until: there is a Berth that nobody is giving up."""
    return view.berth is not None and recorded(view.berth) != states.RELEASING


def given_up(view: View, owner: Owner | None) -> tuple[View, Until]:
    """The view as its berth is given up, and until when: at once, as nobody's, or with the replica of ``owner``.

    Nobody asks for another place where a run before has begun to give the berth up: its replica's pod may run there.
    """
    if view.loss is None and view.berth is not None and recorded(view.berth) == states.RELEASING:
        return replace(view, owner=owner), there
    return replace(view, owner=None), _to_the_end


def _to_the_end(_view: View, _step: Step) -> bool:
    return False


def reserved(view: View, step: Step) -> bool:
    """Until: what is next belongs to a berth that is Reserved already."""
    if view.berth is None or not states.reached(recorded(view.berth), states.RESERVED):
        return False
    locks = isinstance(step, Look) or (isinstance(step, Write) and step.resource in (LOCAL_DISK, LOCAL_DEVICE))
    return not locks and not (isinstance(step, Wait) and step.reason in LOST)


def berth_of(view: View, step: Write) -> Mapping[str, Any] | None:
    """The Berth that a step writes, as it was read; None where it is to be made."""
    return next((one for one in view.records() if one["metadata"]["name"] == step.ref.name), None)


def status_patch(view: View, step: Write) -> Object:
    """The fields of the status that change, as a merge patch on the version that was read."""
    known = berth_of(view, step) if step.resource == BERTH else view.disks.get(step.ref.name)
    before: Mapping[str, Any] = known or {}
    old, new = before.get("status") or {}, step.body.get("status") or {}
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    changed.update({key: None for key in old if key not in new})
    meta = step.body["metadata"]
    return {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}, "status": changed}
