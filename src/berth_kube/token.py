"""Keeps the token of a daemon on a host fresh: a TokenRequest for its own service account, bound to its own node.

Started by agent and scheduler for --renew-token. In a pod the kubelet does this. The token is written beside its file
and then renamed, with mode 0600; the API client reads the file again when it changes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from berth_core.errors import BerthError, StateError
from berth_core.model.resources import SERVICE_ACCOUNT

from .client import KubeClient

LOG = logging.getLogger(__name__)
#: What is asked for; a token is renewed when a third of its life is over, so that a day without API server is survived.
LIFE = 7 * 86400
_SHARE = 1 / 3
_RETRY = 60.0
_LONGEST = 3600.0


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says of itself, unverified: only the API server can know. Raises StateError."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if not isinstance(found, dict):
            raise TypeError
    except (IndexError, ValueError, TypeError):
        raise StateError("the token is no service account token: expected a JSON Web Token") from None
    return found


def renew_at(claims: Mapping[str, Any]) -> float:
    """Seconds since the epoch at which a token is to be renewed."""
    issued, ends = float(claims.get("iat") or 0), float(claims.get("exp") or 0)
    return issued + (ends - issued) * _SHARE


async def renew_token(client: KubeClient, path: Path, now: Callable[[], float] = time.time) -> None:
    """Until cancelled. A failure is told and tried again; the token in the file stays until then."""
    while True:
        try:
            wait = renew_at(claims_of(path.read_text(encoding="utf-8"))) - now()
            if wait <= 0:
                await _renew(client, path)
                wait = _RETRY
        except (BerthError, OSError) as exc:
            LOG.warning("the token in %s is not renewed: %s", path, exc)
            wait = _RETRY
        await asyncio.sleep(min(wait, _LONGEST))


async def _renew(client: KubeClient, path: Path) -> None:
    claims = claims_of(path.read_text(encoding="utf-8"))
    _system, _kind, namespace, name = str(claims.get("sub") or ":::").split(":", 3)
    # A token of a Node that was deleted is worth nothing: the one that it names is the one that is there.
    node = (claims.get("kubernetes.io") or {}).get("node") or {}
    if not node.get("uid"):
        raise StateError("it is bound to no Node: expected one of the module node_agent_token")
    spec = {
        "audiences": claims.get("aud") or [],
        "expirationSeconds": LIFE,
        "boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": node["name"], "uid": node["uid"]},
    }
    answer = await client.create(SERVICE_ACCOUNT, {"spec": spec}, name=name, namespace=namespace, subresource="token")
    _write(path, answer["status"]["token"])
    LOG.info("the token in %s is renewed", path)


def _write(path: Path, token: str) -> None:
    fresh = path.with_name(path.name + ".new")
    with open(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(token)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
