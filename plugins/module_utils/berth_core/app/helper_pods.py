# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that an update makes beside an app's own, and how they are told from its replicas. Pure.

A pull pod has the node pull the new images (app.pre_pull); a hold pod holds the room of a replica while it has no pod
(app.update_hold). Whether one is there, and what its status says, is all that a driver remembers of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import ApiError, ConflictError, GoneError, NotFoundError, UnauthorizedError, UnavailableError
from .wanted import APP_LABEL, MANAGED_LABEL, ORDINAL_LABEL

Object = Mapping[str, Any]
#: Behind the app's name in the label `berth.dev/app`: no app has that name, so no selector of one finds a helper pod.
#: Of a label's 63 characters a bare pod's app may have 61.
_MARK = ".p"
PULL, HOLD = "pull", "hold"
_NAME = re.compile(rf"(.+-[0-9]+)-({PULL}|{HOLD})-[0-9a-f]{{8}}")
#: What of every helper pod's spec is the same: it starts nothing, and tells its containers nothing.
COMMON: Mapping[str, Any] = {
    "restartPolicy": "Never",
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "terminationGracePeriodSeconds": 0,
}
#: Nothing, said aloud: a quota that wants every container to say it is content, and no LimitRange fills it in.
NOTHING: Mapping[str, str] = {"cpu": "0", "memory": "0"}


class Verdict(NamedTuple):
    """What a helper pod's status says. ``words``: of the cluster. ``again``: seconds after which time alone makes it
    another verdict."""

    state: str
    words: str = ""
    again: float = 0.0


def selector(app: str) -> str:
    """Finds the pods of an app's replicas and its helper pods by one question."""
    return f"{APP_LABEL} in ({app},{app}{_MARK})"


def of_app(pods: Mapping[str, Object], app: str, kind: str | None = None) -> dict[str, Object]:
    """Those of ``pods`` that help a replica of the app; ``kind``: PULL or HOLD alone."""
    mark = f"{app}{_MARK}"
    ours = {name: pod for name, pod in pods.items() if (pod["metadata"].get("labels") or {}).get(APP_LABEL) == mark}
    return ours if kind is None else {name: pod for name, pod in ours.items() if _kind_of(name) == kind}


def of_ordinal(pods: Mapping[str, Object], ordinal: int) -> list[Object]:
    """Those of helper pods that are for that replica."""
    return [pod for _name, pod in sorted(pods.items()) if ordinal_of(pod) == ordinal]


def ordinal_of(pod: Object) -> int:
    """The replica of a helper pod."""
    return int(pod["metadata"]["labels"][ORDINAL_LABEL])


def replica_of(name: str) -> str:
    """The name of the replica's pod for which the helper pod of that name is; any other name as it is."""
    found = _NAME.fullmatch(name)
    return found[1] if found else name


def _kind_of(name: str) -> str:
    found = _NAME.fullmatch(name)
    return found[2] if found else ""


def going(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def left_over(pods: Mapping[str, Object], wanted: Iterable[str | None]) -> list[Object]:
    """The helper pods that are of no use any more, whatever became of them, and are not going yet."""
    names = set(wanted)
    return [pod for name, pod in sorted(pods.items()) if name not in names and not going(pod)]


def helper_pod(
    app: str, ordinal: int, kind: str, pod: Object, spec: Mapping[str, Any], owner: Mapping[str, Any]
) -> dict[str, Any]:
    """The helper pod of that kind for the replica of which ``pod`` is.

    Its name tells one pod and what is done for it from every other.
    """
    meta = pod["metadata"]
    text = json.dumps([meta["uid"], spec], sort_keys=True)
    metadata = {
        "name": f"{app}-{ordinal}-{kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}",
        "namespace": meta.get("namespace"),
        "labels": {APP_LABEL: f"{app}{_MARK}", ORDINAL_LABEL: str(ordinal), MANAGED_LABEL: "berth"},
        "ownerReferences": [dict(owner)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(spec)}


def refused(exc: ApiError) -> bool:
    """Whether the API server wants no such pod (quota, admission, rights), so that the update goes on without."""
    return not isinstance(exc, (UnauthorizedError, NotFoundError, ConflictError, GoneError, UnavailableError))
