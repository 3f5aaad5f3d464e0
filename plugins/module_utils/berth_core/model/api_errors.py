# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server's refusals mean, as errors: the one place where a Status becomes one.

Called by the API clients, the modules' and the daemons'. Sends nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import (
    AdmissionError,
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from .api_requests import BUSY, FAILED, PERMANENT, UNKNOWN_FIELD, outcome_of
from .resources import Resource

_ERRORS: dict[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
}
#: the client's verb -> the verb of an RBAC rule
_RBAC = {"replace": "update", "apply": "patch"}
#: How admission says no with a 403: the authorizer names the user right behind "is forbidden".
_BY_ADMISSION = re.compile(r' is forbidden: (?!User ")|^admission webhook "')


class Request(NamedTuple):
    """What was asked, as far as a message needs it. ``source`` says where the credentials came from."""

    verb: str
    resource: Resource
    name: str | None
    namespace: str | None
    subresource: str | None = None
    source: str = ""


def api_error(status: int, data: bytes, asked: Request) -> ApiError:
    """The API's Status object, as an error that names the object and keeps status, reason and causes."""
    body = _status(data)
    causes, reason = (body.get("details") or {}).get("causes") or [], str(body.get("reason") or "")
    text = str(body.get("message") or reason or f"HTTP {status}")
    outcome = outcome_of(status, text)
    later = outcome in (BUSY, FAILED)
    kind = UnavailableError if later else InvalidError if outcome == PERMANENT else _ERRORS.get(status, ApiError)
    if later:
        text = f"the API server answers {status}: {text}"
    elif status == 401:
        text = (
            f"the API server does not accept the credentials of {asked.source}: they are wrong or have expired ({text})"
        )
    elif status == 403 and _BY_ADMISSION.search(text):
        kind, text = AdmissionError, f"admission refuses it: {text}"
    elif status == 403 and reason == "Forbidden":
        text = f"RBAC does not allow it ({_rule(asked)}): {text}"
    elif status == 404 and ((not asked.name and asked.verb == "list") or text.strip() == "404 page not found"):
        text, reason = not_served(asked.resource), reason or "NotFound"
    if asked.resource.group == "berth.dev" and any(words in text for words in UNKNOWN_FIELD):
        text += (
            ". The custom resources in the cluster do not know this field: they are older than this release; "
            "run berth.stateful.crds of this release first"
        )
    return kind(
        f"cannot {asked.verb} {asked.resource.describe(asked.name, asked.namespace)}: {text}", status, reason, causes
    )


def warnings(headers: Iterable[str]) -> list[str]:
    """The texts of RFC 7234 Warning headers: ``299 - "text"``."""
    return [
        header.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"') if '"' in header else header for header in headers
    ]


def _status(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"message": data[:300].decode(errors="replace").strip()}


def _rule(asked: Request) -> str:
    """The RBAC rule that is missing: ``verb update on localdisks/status.berth.dev in namespace x``."""
    resource = asked.resource
    what = (
        resource.plural
        + (f"/{asked.subresource}" if asked.subresource else "")
        + (f".{resource.group}" if resource.group else "")
    )
    where = f" in namespace {asked.namespace}" if resource.namespaced and asked.namespace else ""
    return f"verb {_RBAC.get(asked.verb, asked.verb)} on {what}{where}"


def not_served(resource: Resource) -> str:
    """What the message of such an error says: who has found nothing can tell by it that there is no such kind."""
    hint = f"the API server does not serve {resource.plural}.{resource.group or 'core'}/{resource.version}"
    if resource.group == "berth.dev":
        hint += ": the CRDs are not installed; run berth.stateful.crds first"
    return hint
