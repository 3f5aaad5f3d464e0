# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request to the API server is, and when it may be sent once more: the one table of both API clients.

The modules' client (_glue/client.py) and the daemons' (berth_kube) read verbs, headers and answers here. Sends
nothing, and chance comes in as an argument. How long a client goes on trying is its own: a task waits for an API server
that restarts, a daemon has a queue that comes back.
"""

from __future__ import annotations

from collections.abc import Mapping

#: the client's verb -> the method of HTTP
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "replace": "PUT",
    "apply": "PATCH",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
WRITES = ("create", "replace", "apply", "patch", "delete", "deletecollection")
JSON, APPLY_PATCH = "application/json", "application/apply-patch+yaml"
#: kind of a patch -> its content type
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

# What became of one try.
UNSENT = "unsent"  #: nothing of it has left: no connection
HOPELESS = "hopeless"  #: no patience mends it: a certificate that does not verify, a name that does not resolve
LOST = "lost"  #: it was sent, and no whole answer came: it may have been carried out
BUSY = "busy"  #: 429: the server has not begun
FAILED = "failed"  #: 500, 502, 503, 504: it may have been carried out
PERMANENT = "permanent"  #: 500 that speaks of the request itself: the next one is answered the same
SETTLED = "settled"  #: any other answer
OUTCOMES = (UNSENT, HOPELESS, LOST, BUSY, FAILED, PERMANENT, SETTLED)

# What is asked for, as far as sending it twice goes.
READ, CREATE, POST, EVICT, REPLACE, APPLY, MERGE, OPERATIONS, DELETE = (
    "read",
    "create",
    "post to a subresource",
    "evict",
    "replace",
    "apply",
    "merge patch",
    "patch of operations",
    "delete",
)
NO, YES, CHECKED = "no", "yes", "by who checks"
_OF_ALL = {UNSENT: YES, HOPELESS: NO, PERMANENT: NO, SETTLED: NO}
_TWICE = {**_OF_ALL, LOST: YES, BUSY: YES, FAILED: YES}
_ONCE = {**_OF_ALL, LOST: NO, BUSY: YES, FAILED: NO}
#: For each kind and outcome whether the same request may be sent again; `CHECKED`: by a caller who does what `CHECKS`
#: says.
RESEND: Mapping[str, Mapping[str, str]] = {
    READ: _TWICE,
    CREATE: {**_ONCE, LOST: CHECKED, FAILED: CHECKED},
    POST: _ONCE,
    EVICT: {**_ONCE, BUSY: NO},  # 429 is a disruption budget's answer, and no "later"
    REPLACE: _TWICE,
    APPLY: _TWICE,
    MERGE: _TWICE,
    OPERATIONS: _ONCE,
    DELETE: _TWICE,
}
#: What the answer to a second try may mean besides what it says.
CHECKS: Mapping[str, str] = {
    READ: "",
    CREATE: "ConflictError: the first try may have created the object; read it and compare it with what was sent",
    POST: "never sent twice where it may have been carried out: read the object it was posted to",
    EVICT: "never sent twice where it may have been carried out: read the pod",
    REPLACE: "ConflictError: the first try may have changed the resourceVersion; read the object and decide anew",
    APPLY: "",
    MERGE: "ConflictError, with a resourceVersion in the body: as of a replace",
    OPERATIONS: "never sent twice where it may have been carried out: read the object",
    DELETE: "NotFoundError: the first try may have deleted the object; with a uid ConflictError: another has its name",
}

#: How the API server says that a schema has no such field: to a create or update, and (with 500) to an apply.
UNKNOWN_FIELD = ("unknown field", "field not declared in schema")
#: How an apply says (with 500, too) that the object does not fit its schema otherwise.
NOT_TYPED = "failed to create typed patch object"
LATER = (500, 502, 503, 504)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def kind_of(verb: str, subresource: str | None = None, patch: str = "merge") -> str:
    """The kind of a request. ``patch``: which, of the verb patch."""
    if verb in ("get", "list", "watch"):
        return READ
    if verb == "create":
        return {None: CREATE, "": CREATE, "eviction": EVICT}.get(subresource, POST)
    if verb == "patch":
        return MERGE if patch == "merge" else OPERATIONS
    return {"replace": REPLACE, "apply": APPLY}.get(verb, DELETE)


def outcome_of(status: int, message: str = "") -> str:
    """What became of a try that was answered. ``message``: of the answer's Status."""
    if status == 429:
        return BUSY
    if status not in LATER:
        return SETTLED
    return PERMANENT if status == 500 and any(words in message for words in (*UNKNOWN_FIELD, NOT_TYPED)) else FAILED


def may_resend(kind: str, outcome: str, checks: bool = False) -> bool:
    """Whether the same request may be sent once more. ``checks``: the caller does what `CHECKS` says of its kind."""
    word = RESEND[kind][outcome]
    return word == YES or (word == CHECKED and checks)


def pause(attempt: int, retry_after: str, chance: float) -> float:
    """Seconds before try ``attempt`` + 1 (the first try is 0). The server's word, where it gave one, is the least.

    ``chance``: in [0, 1).
    """
    grown = min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** min(attempt, 30)))
    asked = float(retry_after) if retry_after.isdigit() else 0.0
    return max(grown * (0.5 + chance), asked)


def parameters(verb: str, query: Mapping[str, str] | None, manager: str, dry_run: bool = False) -> dict[str, str]:
    """The query of a request: a write says who writes, and a field that a schema lacks is an error."""
    found = dict(query or {})
    if METHODS[verb] in ("POST", "PUT", "PATCH"):
        found.setdefault("fieldManager", manager)
        found["fieldValidation"] = "Strict"
    if dry_run:
        found["dryRun"] = "All"
    return found


def headers(verb: str, patch: str = "merge", body: bool = True) -> dict[str, str]:
    """What a request says of bodies: of the answer's, and of its own where it has one. ``patch``: see `PATCHES`."""
    own = {"apply": APPLY_PATCH, "patch": PATCHES[patch]}.get(verb, JSON)
    return {"accept": JSON, "content-type": own} if body else {"accept": JSON}


def delete_options(
    uid: str | None = None, version: str | None = None, propagation: str = "Background", grace: int | None = None
) -> dict[str, object]:
    """The body of a delete: of just the object that was seen. ``grace``: seconds until its end; None: its own."""
    preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
    body: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
    body.update({} if grace is None else {"gracePeriodSeconds": grace})
    return {**body, "preconditions": preconditions} if preconditions else body
