# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rolling restart: another text in an annotation of the template, as ``kubectl rollout restart`` has it. Pure.

Whoever asks for none later keeps the text that is there: to leave the option out restarts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import InputError
from ..model.names import shown
from .observed import Observed
from .pod_change import RESTARTED, without_annotation
from .wanted import AppWanted

Object = Mapping[str, Any]


def restarted(app: AppWanted, asked: str | None, observed: Observed) -> AppWanted:
    """The app whose template has the text that is asked for, else its own, else the one that is there.

    Raises InputError.
    """
    own = _of(app.template)
    if asked is not None and not asked.strip():
        raise InputError("restarted_at is empty: expected a text that no restart has had yet, such as the time")
    if asked is not None and own not in (None, asked):
        raise InputError(
            f"restarted_at is {shown(asked)}, and metadata.annotations of the template has {RESTARTED}: {shown(own)}: "
            "keep one of them"
        )
    text = asked or own or _there(observed)
    return app if text in (None, own) else replace(app, template=_with(app.template, text))


def without_restart(template: Object) -> dict[str, Any]:
    """The template as it would be if nobody had asked for a restart."""
    return without_annotation(template, RESTARTED)


def _with(template: Object, text: str | None) -> dict[str, Any]:
    metadata = template["metadata"]
    return {**template, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), RESTARTED: text}}}


def _there(observed: Observed) -> str | None:
    """Of the StatefulSet, or of the bare pod that was made last: a restart makes each anew."""
    if observed.stateful_set is not None:
        return _of(observed.stateful_set["spec"]["template"])
    bare = sorted(observed.pods.values(), key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    return _of(bare[-1]) if bare else None


def _of(thing: Object) -> str | None:
    found = ((thing.get("metadata") or {}).get("annotations") or {}).get(RESTARTED)
    return None if found is None else str(found)
