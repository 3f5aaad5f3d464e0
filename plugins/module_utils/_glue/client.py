# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synchronous API client of the modules: JSON in, JSON out, every refusal an error of berth_core.

Plain requests to known paths over urllib3 (kubernetes' own transport): no discovery, no typed models. Counts its
requests by verb, so that a test can hold the cost of a module. Never decides anything.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable
from urllib.parse import urlencode

from ..berth_core.app.compare import differences
from ..berth_core.errors import ApiError, ConflictError, InputError, NotFoundError
from ..berth_core.model.api_errors import Request, api_error, warnings
from ..berth_core.model.api_requests import (
    FAILED,
    LOST,
    METHODS,
    WRITES,
    delete_options,
    kind_of,
    may_resend,
    outcome_of,
    parameters,
    pause,
)
from ..berth_core.model.api_requests import headers as common_headers
from ..berth_core.model.resources import Resource
from .auth import Auth
from .transport import authority, connection_pool, dial, is_direct, no_kubernetes, unreachable
from .transport import outcome_of as not_answered

try:
    import urllib3
except ImportError:  # load_auth has already refused: kubernetes brings urllib3
    urllib3 = None

#: A list of objects; `list` is a method of the client.
Objects = list[dict[str, Any]]

FIELD_MANAGER = "berth"
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
        self._retry_after = ""
        #: whether an earlier try of the last request may have been carried out
        self._in_doubt = False
        #: by verb; those that only try are ``dry_run``
        self.requests: Counter[str] = Counter()
        #: writes that the API server carried out (not those of a dry run): whoever fails later has changed something
        self.written = 0

    def server(self) -> tuple[str, str]:
        """The server's URL, and the certificate authority that was named for it (PEM; empty: the machine's own)."""
        return self._host, authority(self._pool) if self._auth.configuration.ssl_ca_cert else ""

    @property
    def source(self) -> str:
        """Where the address and the credentials come from, for people."""
        return self._auth.source

    # -- a connection of its own -----------------------------------------------------------------------------------

    def check_direct(self, what: str) -> None:
        """Raise InputError where a proxy stands between, which ``dial`` does not speak with."""
        if not is_direct(self._pool):
            raise InputError(
                f"{what} cannot be asked for through a proxy: the API server {self._host} (from {self._auth.source}) "
                "is reached by one; run from where it is reached directly, or name it in no_proxy"
            )

    def dial(self, path: str, query: Sequence[tuple[str, str]]) -> tuple[Any, str, list[str]]:
        """A new connection for a request that turns into a stream: its socket, the URL, and the headers' lines.

        Raises UnavailableError. For who has called ``check_direct``.
        """
        self.requests["connect"] += 1
        headers = self._headers({})
        lines = [f"{name}: {value}" for name, value in headers.items()]
        try:
            return dial(self._pool, self._host), f"{self._host}{path}?{urlencode(query)}", lines
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise unreachable(self._host, self._auth.source, exc) from exc

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        return self._send("get", resource, name, namespace)

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
        answer = self._send("list", resource, None, namespace, query=query)
        if "items" not in answer:
            raise self._no_kubernetes(f"it answers a list of {resource.plural} with something else")
        items = answer["items"] or []
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
                "GET",
                url,
                headers=self._headers(common_headers("watch", body=False)),
                preload_content=False,
                retries=False,
                timeout=timeout,
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
        try:
            return self._send(
                "create",
                resource,
                name,
                meta.get("namespace"),
                body=body,
                subresource=subresource,
                dry_run=dry_run,
                label=meta.get("name"),
            )
        except ConflictError:
            sure = not self._in_doubt or subresource or dry_run
            made = None if sure else self._made_before(resource, body)
            if made is None:
                raise
            return made

    def _made_before(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The object, where it is what the first try, whose answer was lost, would have made."""
        meta = body["metadata"]
        found = self.find(resource, meta["name"], meta.get("namespace"))
        if found is None or differences(body, found):
            return None
        self.written += 1
        return found

    def replace(
        self, resource: Resource, body: Mapping[str, Any], subresource: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """PUT with the body's resourceVersion: the compare-and-swap of every lock."""
        meta = body["metadata"]
        return self._send(
            "replace",
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
        """Server-side apply: ``manager`` owns the fields of ``body``, and takes back those that others changed."""
        meta = body["metadata"]
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return self._send(
            "apply",
            resource,
            meta["name"],
            meta.get("namespace"),
            body=whole,
            subresource=subresource,
            dry_run=dry_run,
            query={"fieldManager": manager, "force": "true"},
        )

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any],
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """JSON merge patch. With ``metadata.resourceVersion`` in the body it is a compare-and-swap too."""
        return self._send("patch", resource, name, namespace, body=body, subresource=subresource, dry_run=dry_run)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        version: str | None = None,
        dry_run: bool = False,
        grace: int | None = None,
    ) -> bool:
        """Delete just the object that was seen (``uid``, ``version``); False where it was gone already."""
        body = delete_options(uid, version, grace=grace)
        try:
            self._send("delete", resource, name, namespace, body=body, dry_run=dry_run)
        except NotFoundError:
            return False
        return True

    @property
    def writes(self) -> int:
        return sum(self.requests[verb] for verb in WRITES)

    # -- the wire --------------------------------------------------------------------------------------------------

    def _headers(self, common: Mapping[str, str]) -> dict[str, str]:
        configuration = self._auth.configuration
        headers = {**common, "user-agent": "berth.stateful"}
        token = configuration.get_api_key_with_prefix("BearerToken") or configuration.get_api_key_with_prefix(
            "authorization"
        )
        if token:
            headers["authorization"] = token
        elif configuration.username and configuration.password:
            headers["authorization"] = configuration.get_basic_auth_token()
        if self._auth.impersonate_user:
            headers["impersonate-user"] = self._auth.impersonate_user
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
        resource: Resource,
        name: str | None,
        namespace: str | None,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        label: str | None = None,
    ) -> dict[str, Any]:
        url = self._url(resource.path(name, namespace, subresource), parameters(verb, query, FIELD_MANAGER, dry_run))
        payload = None if body is None else json.dumps(body).encode()
        headers = self._headers(common_headers(verb, body=body is not None))
        request = Request(verb, resource, label or name, namespace, subresource, self._auth.source)
        kind, started, attempt, self._in_doubt = kind_of(verb, subresource), time.monotonic(), 0, False
        while True:
            self.requests["dry_run" if dry_run else verb] += 1
            self._retry_after = ""
            try:
                answer = self._once(METHODS[verb], url, headers, payload, request)
                self.written += verb in WRITES and not dry_run
                return answer
            except ApiError as exc:
                outcome = outcome_of(exc.status, exc.message) if exc.status else not_answered(exc)
                wait = pause(attempt, self._retry_after, random.random())  # noqa: S311 - spreads load, guards nothing
                patience = self._retry_seconds if self._reached else min(FIRST_CONTACT_SECONDS, self._retry_seconds)
                if time.monotonic() + wait > started + patience or not may_resend(kind, outcome, checks=True):
                    raise
                self._in_doubt = self._in_doubt or outcome in (LOST, FAILED)
            time.sleep(wait)
            attempt += 1

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
            self._retry_after = response.headers.get("retry-after", "")
            self._refuse_strangers(response)
            raise api_error(response.status, response.data, request)
        answer = _json(response.data) if response.data else {}
        if answer is None:
            raise self._no_kubernetes("it answers with something that is no JSON object")
        return answer

    def _refuse_strangers(self, response: Any) -> None:
        """Raises InputError for a redirect, and for a 404 that no API server gives.

        What an API server does not serve it answers as any server written in Go does: there /version tells.
        """
        if response.status < 400:
            raise self._no_kubernetes(f"it answers {response.status}, to go to {response.headers.get('location', '')}")
        if response.status != 404 or _json(response.data) is not None:
            return
        if response.data.strip() != b"404 page not found" or not self._has_a_version():
            raise self._no_kubernetes("it answers 404 as an API server does not")

    def _has_a_version(self) -> bool:
        """Also where it may not be read: an API server refuses in JSON. Who does not answer this time is not judged."""
        headers = self._headers(common_headers("get", body=False))
        try:
            about = self._pool.request("GET", self._url("/version", None), headers=headers, retries=False)
        except urllib3.exceptions.HTTPError:
            return True
        return about.status != 404 and _json(about.data) is not None

    def _no_kubernetes(self, why: str) -> InputError:
        return no_kubernetes(self._host, self._auth.source, why)


def _json(data: bytes) -> dict[str, Any] | None:
    """The JSON object; None for what is none."""
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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
