"""A verb on a resource becomes one HTTP request, not yet sent. client.py alone calls me; I am pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Callable, NamedTuple
from urllib.parse import urlencode

from berth_core.model.api_errors import Request

_METHOD = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "replace": "PUT", "delete": "DELETE"}
#: What may be carried out twice: the second time changes nothing, or is told so by its resourceVersion.
_IDEMPOTENT = ("get", "list", "watch", "replace", "apply", "patch", "delete")
WRITES = ("create", "replace", "apply", "patch", "delete")
#: From JSON's values to bytes.
Encode = Callable[[object], bytes]
_text = json.JSONEncoder(separators=(",", ":")).encode


def encode(body: object) -> bytes:
    """By json of the standard library; json_fast.py has another."""
    return _text(body).encode()


class Call(NamedTuple):
    """One request, whole but for the credentials. ``idempotent``: may be sent twice."""

    asked: Request
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    idempotent: bool

    @property
    def writes(self) -> bool:
        """True when it changes something."""
        return self.asked.verb in WRITES and "dryRun=All" not in self.target

    @property
    def evicts(self) -> bool:
        """True for an eviction, which a disruption budget refuses with 429: that is an answer, not a "later"."""
        return self.asked.subresource == "eviction"


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
    content_type: str = "application/json",
    collection: bool = False,
    encode: Encode = encode,
) -> Call:
    """The request. ``collection``: POST to the kind's collection, the name in ``asked`` is only for messages."""
    method = _METHOD.get(asked.verb, "PATCH")
    parameters = dict(query or {})
    if method in ("POST", "PUT", "PATCH"):
        parameters.setdefault("fieldManager", manager)
        parameters["fieldValidation"] = "Strict"
    if dry_run:
        parameters["dryRun"] = "All"
    path = asked.resource.path(None if collection else asked.name, asked.namespace, asked.subresource)
    headers = {"accept": "application/json"}
    payload = None
    if body is not None:
        payload = encode(body)
        headers["content-type"] = content_type
    target = path + ("?" + _query(tuple(parameters.items())) if parameters else "")
    return Call(asked, method, target, headers, payload, asked.verb in _IDEMPOTENT)


def plain_get(path: str, asked: Request) -> Call:
    """GET of a path that is no object of the API."""
    return Call(asked, "GET", path, {}, None, idempotent=True)
