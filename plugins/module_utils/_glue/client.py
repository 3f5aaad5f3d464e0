# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synchronous API client of the modules: JSON in, JSON out, every refusal an error of berth_core.

Plain requests to known paths over urllib3 (kubernetes' own transport): no discovery, no typed models. Counts its
requests by verb, so that a test can hold the cost of a module. Never decides anything.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Callable
from urllib.parse import urlencode

from ..berth_core.errors import NotFoundError, UnavailableError
from ..berth_core.model.api_errors import Request, api_error, warnings
from ..berth_core.model.resources import Resource
from .auth import Auth
from .transport import NEVER_MENDS, authority, connection_pool, unreachable

try:
    import urllib3
except ImportError:  # load_auth has already refused: kubernetes brings urllib3
    urllib3 = None

#: A list of objects; `list` is a method of the client.
Objects = list[dict[str, Any]]

FIELD_MANAGER = "berth"
WRITES = ("create", "replace", "apply", "patch", "delete")
#: How long an API server that restarts is waited for: a restart takes seconds, a dead one should not take minutes.
RETRY_SECONDS = 30.0
#: How long one that has never answered is waited for: a wrong address should be told soon.
FIRST_CONTACT_SECONDS = 3.0


class ApiClient:
    """One API server, one identity. Not shared between threads."""

    def __init__(
        self, auth: Auth, warn: Callable[[str], None], timeout: float = 30.0, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._auth = auth
        self._warn = warn
        self._timeout = timeout
        self._retry_seconds = retry_seconds
        self._host = str(auth.configuration.host).rstrip("/")
        self._pool = connection_pool(auth, self._host, timeout)
        self._reached = False
        self.requests: Counter[str] = Counter()
        #: writes that the API server carried out (not those of a dry run): whoever fails later has changed something
        self.written = 0

    def server(self) -> tuple[str, str]:
        """The server's URL, and the certificate authority that was named for it (PEM; empty: the machine's own)."""
        return self._host, authority(self._pool) if self._auth.configuration.ssl_ca_cert else ""

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        return self._send("get", "GET", resource, name, namespace)

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Like get, and None where there is no such object (or no such kind)."""
        try:
            return self.get(resource, name, namespace)
        except NotFoundError:
            return None

    def list(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> Objects:
        """One LIST, consistent (a quorum read), not paged: the API server answers it from its cache."""
        return self.list_with_version(resource, namespace, labels, fields)[0]

    def list_with_version(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> tuple[Objects, str]:
        """The items and the list's resourceVersion, from which a watch can go on."""
        query = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        answer = self._send("list", "GET", resource, None, namespace, query=query)
        items = answer.get("items") or []
        for item in items:  # a list's items carry neither; everything downstream wants whole objects
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return items, answer.get("metadata", {}).get("resourceVersion", "")

    def watch(
        self, resource: Resource, version: str, seconds: float, namespace: str | None = None, labels: str | None = None
    ) -> Iterable[dict[str, Any]]:
        """Events ``{type, object}`` for at most ``seconds``; the end of the stream, for whatever reason, ends them."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(max(1, int(seconds)))}
        if labels:
            query["labelSelector"] = labels
        self.requests["watch"] += 1
        url = self._url(resource.path(None, namespace), query)
        timeout = urllib3.Timeout(connect=self._timeout, read=max(1.0, seconds) + 5.0)
        try:
            response = self._pool.request(
                "GET", url, headers=self._headers(), preload_content=False, retries=False, timeout=timeout
            )
        except urllib3.exceptions.HTTPError as exc:
            raise unreachable(self._host, self._auth.source, exc) from exc
        try:
            if response.status >= 300:
                asked = Request("watch", resource, None, namespace, source=self._auth.source)
                raise api_error(response.status, response.read(), asked)
            yield from _events(response)
        finally:
            response.close()

    # -- writing ---------------------------------------------------------------------------------------------------

    def create(
        self, resource: Resource, body: Mapping[str, Any], dry_run: bool = False, subresource: str | None = None
    ) -> dict[str, Any]:
        """POST the body; with ``subresource`` (token, eviction) to that of the object that the body names."""
        meta = body["metadata"]
        name = meta["name"] if subresource else None
        return self._send(
            "create",
            "POST",
            resource,
            name,
            meta.get("namespace"),
            body=body,
            subresource=subresource,
            dry_run=dry_run,
            label=meta.get("name"),
        )

    def replace(
        self, resource: Resource, body: Mapping[str, Any], subresource: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """PUT with the body's resourceVersion: the compare-and-swap of every lock."""
        meta = body["metadata"]
        return self._send(
            "replace",
            "PUT",
            resource,
            meta["name"],
            meta.get("namespace"),
            body=body,
            subresource=subresource,
            dry_run=dry_run,
        )

    def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        subresource: str | None = None,
        dry_run: bool = False,
        manager: str = FIELD_MANAGER,
    ) -> dict[str, Any]:
        """Server-side apply: we own the fields of ``body``, and take back those that somebody else changed."""
        meta = body["metadata"]
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return self._send(
            "apply",
            "PATCH",
            resource,
            meta["name"],
            meta.get("namespace"),
            body=whole,
            subresource=subresource,
            dry_run=dry_run,
            query={"fieldManager": manager, "force": "true"},
            content_type="application/apply-patch+yaml",
        )

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any],
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """JSON merge patch. With ``metadata.resourceVersion`` in the body it is a compare-and-swap too."""
        return self._send(
            "patch",
            "PATCH",
            resource,
            name,
            namespace,
            body=body,
            subresource=subresource,
            content_type="application/merge-patch+json",
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        version: str | None = None,
        dry_run: bool = False,
    ) -> bool:
        """Delete just the object that was seen (``uid``, ``version``); False where it was gone already."""
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if preconditions:
            body["preconditions"] = preconditions
        try:
            self._send("delete", "DELETE", resource, name, namespace, body=body, dry_run=dry_run)
        except NotFoundError:
            return False
        return True

    @property
    def writes(self) -> int:
        return sum(self.requests[verb] for verb in WRITES)

    # -- the wire --------------------------------------------------------------------------------------------------

    def _headers(self, content_type: str | None = None) -> dict[str, str]:
        configuration = self._auth.configuration
        headers = {"accept": "application/json", "user-agent": "berth.stateful"}
        token = configuration.get_api_key_with_prefix("BearerToken") or configuration.get_api_key_with_prefix(
            "authorization"
        )
        if token:
            headers["authorization"] = token
        elif configuration.username and configuration.password:
            headers["authorization"] = configuration.get_basic_auth_token()
        if self._auth.impersonate_user:
            headers["impersonate-user"] = self._auth.impersonate_user
        if content_type:
            headers["content-type"] = content_type
        headers.update({key: value for key, value in self._auth.proxy_headers.items() if key != "proxy-authorization"})
        if not self._auth.impersonate_groups:
            return headers
        many = urllib3.HTTPHeaderDict(headers)
        for group in self._auth.impersonate_groups:
            many.add("impersonate-group", group)
        return many

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        return self._host + path + ("?" + urlencode(query) if query else "")

    def _send(
        self,
        verb: str,
        method: str,
        resource: Resource,
        name: str | None,
        namespace: str | None,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        subresource: str | None = None,
        content_type: str = "application/json",
        dry_run: bool = False,
        label: str | None = None,
    ) -> dict[str, Any]:
        asked = dict(query or {})
        if method in ("POST", "PUT", "PATCH"):
            asked.setdefault("fieldManager", FIELD_MANAGER)
            asked["fieldValidation"] = "Strict"
        if dry_run:
            asked["dryRun"] = "All"
        url = self._url(resource.path(name, namespace, subresource), asked)
        payload = None if body is None else json.dumps(body).encode()
        headers = self._headers(content_type if payload is not None else None)
        request = Request(verb, resource, label or name, namespace, subresource, self._auth.source)
        started, pause = time.monotonic(), 0.1
        while True:
            self.requests[verb] += 1
            try:
                answer = self._once(method, url, headers, payload, request)
                self.written += verb in WRITES and not dry_run
                return answer
            except UnavailableError as exc:
                # A write whose answer was lost is sent again too: its name, its resourceVersion or its idempotence
                # tells the caller (409) that the first one had arrived.
                patience = self._retry_seconds if self._reached else min(FIRST_CONTACT_SECONDS, self._retry_seconds)
                if exc.reason in NEVER_MENDS or time.monotonic() + pause > started + patience:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], payload: bytes | None, request: Request
    ) -> dict[str, Any]:
        try:
            response = self._pool.request(method, url, body=payload, headers=headers, retries=False)
        except urllib3.exceptions.HTTPError as exc:
            raise unreachable(self._host, self._auth.source, exc) from exc
        self._reached = True
        for warning in warnings(response.headers.getlist("warning")):
            self._warn(warning)
        if response.status >= 300:
            raise api_error(response.status, response.data, request)
        answer = json.loads(response.data) if response.data else {}
        return answer if isinstance(answer, dict) else {}


def _events(response: Any) -> Iterable[dict[str, Any]]:
    rest = b""
    try:
        for chunk in response.stream(65536, decode_content=True):
            rest += chunk
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
    except (urllib3.exceptions.HTTPError, ValueError):
        return
