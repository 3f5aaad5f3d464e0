"""A verb on a resource becomes one HTTP request, not yet sent. Called by client.py alone. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Callable, NamedTuple
from urllib.parse import urlencode

from berth_core.model import api_requests
from berth_core.model.api_errors import Request
from berth_core.model.api_requests import METHODS, WRITES

#: From JSON's values to bytes.
Encode = Callable[[object], bytes]
_text = json.JSONEncoder(separators=(",", ":")).encode


def encode(body: object) -> bytes:
    """By json of the standard library; json_fast.py has another."""
    return _text(body).encode()


class Call(NamedTuple):
    """One request, whole but for the credentials.

    ``kind``: what berth_core.model.api_requests calls it, whose table says when it may be sent again; ``checks``: who
    sends it does what the table says of that.
    """

    asked: Request
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    kind: str
    checks: bool = False

    @property
    def writes(self) -> bool:
        """True when it changes something."""
        return self.asked.verb in WRITES and "dryRun=All" not in self.target

    def may_resend(self, outcome: str) -> bool:
        """Whether it may be sent once more after a try that ended so."""
        return api_requests.may_resend(self.kind, outcome, self.checks)


@lru_cache(maxsize=64)
def _query(parameters: tuple[tuple[str, str], ...]) -> str:
    """Those of a daemon's writes are nearly always the same."""
    return urlencode(parameters)


def make_call(
    asked: Request,
    manager: str,
    *,
    query: Mapping[str, str] | None = None,
    body: object = None,
    dry_run: bool = False,
    patch: str = "merge",
    collection: bool = False,
    encode: Encode = encode,
) -> Call:
    """The request. ``patch``: of the verb patch, which (api_requests.PATCHES).

    ``collection``: POST to the kind's collection, the name in ``asked`` is only for messages.
    """
    parameters = api_requests.parameters(asked.verb, query, manager, dry_run)
    path = asked.resource.path(None if collection else asked.name, asked.namespace, asked.subresource)
    headers = api_requests.headers(asked.verb, patch, body is not None)
    payload = None if body is None else encode(body)
    kind = api_requests.kind_of(asked.verb, asked.subresource, patch)
    target = path + ("?" + _query(tuple(parameters.items())) if parameters else "")
    return Call(asked, METHODS[asked.verb], target, headers, payload, kind)


def plain_get(path: str, asked: Request) -> Call:
    """GET of a path that is no object of the API."""
    return Call(asked, "GET", path, {}, None, api_requests.READ)
