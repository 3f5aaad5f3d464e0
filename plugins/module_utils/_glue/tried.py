# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries on the API server (dryRun=All) every object of an installation before the first of them is written, and writes.

Called by installing and node_agent; tried in check mode too. One request for each object that would be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..berth_core.app.compare import differences
from ..berth_core.errors import (
    AdmissionError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InputError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from ..berth_core.model.resources import NAMESPACE, Resource
from .base import Context
from .client import FIELD_MANAGER

Object = dict[str, Any]
#: Stands in for a namespace that the same run makes: a dry run makes none.
_STAND_IN = "default"


class Change(NamedTuple):
    """An object that is not as it should be; ``live`` None: there is none."""

    kind: Resource
    body: Object
    live: Object | None


def try_all(context: Context, found: Sequence[Change], manager: str = FIELD_MANAGER) -> list[Change]:
    """Those that would not be as they should be once they are applied: others have put something into their lists.

    Raises InputError for the first that the API server would refuse, and as it is what is no answer to an object.
    """
    left = []
    new = {each.body["metadata"]["name"] for each in found if each.kind == NAMESPACE and each.live is None}
    for change in found:
        stands_in = change.body["metadata"].get("namespace") in new
        try:
            made = context.client.apply(change.kind, _body(change, stands_in), dry_run=True, manager=manager)
        except (UnauthorizedError, UnavailableError, ConflictError):
            raise
        except ApiError as exc:
            if _counts(context, exc, stands_in):
                raise _refusal(change, exc) from exc
        else:
            if change.live is not None and differences(change.body, made):
                left.append(change)
    return left


def put(context: Context, change: Change, left: Sequence[Change], manager: str = FIELD_MANAGER) -> None:
    """Write it; ``left``: what `try_all` has told.

    Who applies takes away what he has applied himself, and nothing that `kubectl apply` has, by which an earlier
    release was installed. A merge patch has its lists as they are given.
    """
    kind, body, live = change
    if live is not None and any(change is one for one in left):
        meta = {**body["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
        context.client.patch(kind, meta["name"], meta.get("namespace"), {**body, "metadata": meta})
    context.client.apply(kind, body, manager=manager)


def _body(change: Change, stands_in: bool) -> Object:
    if not stands_in:
        return change.body
    return {**change.body, "metadata": {**change.body["metadata"], "namespace": _STAND_IN}}


def _counts(context: Context, refused: ApiError, stands_in: bool) -> bool:
    """Whether the write itself would be refused, as far as a dry run tells."""
    if isinstance(refused, NotFoundError):  # else: a kind that is not served, or a role that the same run makes
        return "namespaces" in refused.message
    if stands_in:  # rights, quotas and policies are those of another namespace
        return isinstance(refused, InvalidError) or refused.status == 400
    if context.check_mode and isinstance(refused, ForbiddenError) and not isinstance(refused, AdmissionError):
        context.warn(f"{refused.message}: whether the API server would take it is not known")
        return False
    return True


def _refusal(change: Change, refused: ApiError) -> InputError:
    meta = change.body["metadata"]
    described = change.kind.describe(meta["name"], meta.get("namespace"))
    fields = ", ".join(str(cause["field"]) for cause in refused.causes if cause.get("field"))
    where = f" ({fields})" if fields else ""
    return InputError(
        f"{described}{where}: {refused.message}; change the option from which it is made, or the rule that refuses it; "
        "it was tried beforehand, and nothing was written",
        status=refused.status,
        reason=refused.reason,
        causes=refused.causes,
    )
