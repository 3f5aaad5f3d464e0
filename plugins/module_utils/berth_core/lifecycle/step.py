# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a berth needs next: a write, a choice, a wait, a look. Drivers carry it out and ask again, deciding nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable, NamedTuple, Union

from ..model.resources import Resource
from .states import Effect

CREATE, REPLACE, STATUS, PATCH, REMOVE = "create", "replace", "status", "patch", "delete"
#: A delete without waiting for a kubelet. Of a pod alone, and only where it is proven that its node runs nothing.
FORCE = "delete by force"


class Ref(NamedTuple):
    """One object of the API server."""

    resource: Resource
    name: str
    namespace: str | None = None

    @classmethod
    def of(cls, resource: Resource, thing: Mapping[str, Any]) -> Ref:
        """That of an object, or of a manifest."""
        meta = thing["metadata"]
        return cls(resource, meta["name"], meta.get("namespace"))


class Write(NamedTuple):
    """One request. ``body`` of a delete is the object that is meant: its uid is the precondition.

    ``status``, ``replace`` and ``patch`` are compare-and-swaps on the body's resourceVersion; a patch is a merge patch.
    ``why`` is for people; ``part`` is the step of an exchange of disks (replacing.STEPS) that the write belongs to.
    """

    do: str
    resource: Resource
    body: dict[str, Any]
    why: str
    part: str = ""

    @property
    def ref(self) -> Ref:
        """The object that is written."""
        return Ref.of(self.resource, self.body)


class Choose(NamedTuple):
    """Node and disks have to be chosen; ask again with the choice in the view. ``why`` the last choice was lost."""

    why: str = ""


class Wait(NamedTuple):
    """Nothing to write until something changes; without a reason, all is done. ``warn``: a person may have to act.

    ``on``: the object that will change by itself, so that it may be waited for.
    """

    reason: str = ""
    message: str = ""
    warn: bool = False
    on: Ref | None = None
    part: str = ""


class Look(NamedTuple):
    """The Namespace has to be read, now that the Berth is there, before a disk is locked: it may be a new one of an old
    name. Ask again with ``View.tenant``."""

    namespace: str
    part: str = ""


DONE = Wait()
Step = Union[Write, Choose, Wait, Look]


def first_due(
    writes: Iterable[Effect], made_by: Mapping[tuple[str, str], Callable[..., Step | None]], *args: Any
) -> Step | None:
    """The first of a step's writes that is still to be made, in the table's order. None: all of them have been.

    ``made_by``: how, by verb and what; those that it does not name are made elsewhere.
    """
    for effect in writes:
        make = made_by.get((effect.verb, effect.what))
        step = make(*args) if make is not None else None
        if step is not None:
            return step
    return None
