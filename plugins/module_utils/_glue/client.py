# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synchronous API client of the modules: JSON in, JSON out, every refusal an error of berth_core.

Plain requests to known paths over urllib3 (kubernetes' own transport): no discovery, no typed models. Counts its
requests by
verb, so that a test can hold the cost of a module. Never decides anything.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Callable
from urllib.parse import urlencode, urlsplit

from ..berth_core.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InputError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from .auth import Auth
from .resources import Resource

try:
    import urllib3
except ImportError:  # load_auth has already refused: kubernetes brings urllib3
    urllib3 = None

FIELD_MANAGER = "berth"
WRITES = ("create", "replace", "apply", "patch", "delete")
#: How long an API server that is restarting is waited for (a restart takes seconds; a dead one should not take
#: minutes).
RETRY_SECONDS = 30.0
#: How long one that has never answered is waited for: a wrong address should be told soon.
FIRST_CONTACT_SECONDS = 3.0
_ERRORS = {401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 409: ConflictError, 422: InvalidError}
_LATER = (429, 500, 502, 503, 504)
#: Failures of the transport that no patience mends: a certificate that does not verify, a name that does not resolve.
_NEVER_MENDS = ("SSLError", "SSLCertVerificationError", "NameResolutionError", "LocationParseError", "InvalidHeader")


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
        self._pool = _pool(auth, self._host, timeout)
        self._reached = False
        self.requests: Counter[str] = Counter()
        #: writes that the API server carried out (not those of a dry run): whoever fails later has changed something
        self.written = 0

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
    ) -> list[dict[str, Any]]:
        """One LIST, consistent (a quorum read), not paged: the API server answers it from its cache."""
        return self.list_with_version(resource, namespace, labels, fields)[0]

    def list_with_version(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[dict[str, Any]], str]:
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
        """Events ``{type, object}`` for at most ``seconds``. The end of the stream, for whatever reason, ends the
        iteration."""
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
            raise _unreachable(self._host, self._auth.source, exc) from exc
        try:
            if response.status >= 300:
                raise _api_error(response.status, response.read(), "watch", resource, None, namespace)
            yield from _events(response)
        finally:
            response.close()

    # -- writing ---------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, body: Mapping[str, Any], dry_run: bool = False) -> dict[str, Any]:
        meta = body["metadata"]
        return self._send(
            "create", "POST", resource, None, meta.get("namespace"), body=body, dry_run=dry_run, label=meta["name"]
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
        return many  # type: ignore[return-value]

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
        started, pause = time.monotonic(), 0.1
        while True:
            self.requests[verb] += 1
            try:
                answer = self._once(verb, method, url, headers, payload, resource, label or name, namespace)
                self.written += verb in WRITES and not dry_run
                return answer
            except UnavailableError as exc:
                # A write whose answer was lost is sent again too: its name, its resourceVersion or its idempotence
                # tells the caller (409) that the first one had arrived.
                patience = self._retry_seconds if self._reached else min(FIRST_CONTACT_SECONDS, self._retry_seconds)
                if exc.reason in _NEVER_MENDS or time.monotonic() + pause > started + patience:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    def _once(
        self,
        verb: str,
        method: str,
        url: str,
        headers: Mapping[str, str],
        payload: bytes | None,
        resource: Resource,
        name: str | None,
        namespace: str | None,
    ) -> dict[str, Any]:
        try:
            response = self._pool.request(method, url, body=payload, headers=headers, retries=False)
        except urllib3.exceptions.HTTPError as exc:
            raise _unreachable(self._host, self._auth.source, exc) from exc
        self._reached = True
        for warning in _warnings(response.headers.getlist("warning")):
            self._warn(warning)
        if response.status >= 300:
            raise _api_error(response.status, response.data, verb, resource, name, namespace)
        answer = json.loads(response.data) if response.data else {}
        return answer if isinstance(answer, dict) else {}


def _pool(auth: Auth, host: str, timeout: float) -> Any:
    configuration = auth.configuration
    if urlsplit(host).scheme not in ("http", "https"):
        raise InputError(f"host {host!r} is not a URL: expected https://NAME:PORT")
    options: dict[str, Any] = {"maxsize": 4, "timeout": urllib3.Timeout(connect=min(timeout, 10.0), read=timeout)}
    if host.startswith("https"):
        options["cert_reqs"] = "CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE"
        options["ca_certs"] = configuration.ssl_ca_cert
        options["cert_file"] = configuration.cert_file
        options["key_file"] = configuration.key_file
        if configuration.assert_hostname is not None:
            options["assert_hostname"] = configuration.assert_hostname
        if getattr(configuration, "tls_server_name", None):
            options["server_hostname"] = configuration.tls_server_name
        if not configuration.verify_ssl:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if configuration.proxy and not _bypasses(host, auth.no_proxy or configuration.no_proxy):
        proxy_headers = {key: value for key, value in auth.proxy_headers.items() if key == "proxy-authorization"}
        return urllib3.ProxyManager(
            configuration.proxy, proxy_headers=proxy_headers or configuration.proxy_headers, **options
        )
    return urllib3.PoolManager(**options)


def _bypasses(host: str, no_proxy: str | None) -> bool:
    name = urlsplit(host).hostname or ""
    parts = [part.strip().lstrip(".") for part in (no_proxy or "").split(",") if part.strip()]
    return any(part == "*" or name == part or name.endswith("." + part) for part in parts)


def _unreachable(host: str, source: str, exc: Exception) -> UnavailableError:
    cause = exc.reason if isinstance(getattr(exc, "reason", None), Exception) else exc
    return UnavailableError(
        f"the API server {host} (from {source}) cannot be reached: {type(cause).__name__}: {cause}",
        reason=type(cause).__name__,
    )


def _api_error(
    status: int, data: bytes, verb: str, resource: Resource, name: str | None, namespace: str | None
) -> ApiError:
    """The API's Status object, as an error that names the object and keeps status, reason and causes."""
    try:
        body = json.loads(data)
        if not isinstance(body, dict):
            raise ValueError
    except ValueError:
        body = {"message": data[:300].decode(errors="replace").strip()}
    causes = (body.get("details") or {}).get("causes") or []
    what = resource.describe(name, namespace)
    text = body.get("message") or body.get("reason") or f"HTTP {status}"
    if status in _LATER:
        return UnavailableError(
            f"cannot {verb} {what}: the API server answers {status}: {text}", status, body.get("reason", ""), causes
        )
    if status == 404 and ((not name and verb == "list") or text.strip() == "404 page not found"):
        hint = f"the API server does not serve {resource.plural}.{resource.group or 'core'}/{resource.version}"
        if resource.group == "berth.dev":
            hint += ": the CRDs are not installed; run berth.stateful.crds first"
        return NotFoundError(f"cannot {verb} {what}: {hint}", status, body.get("reason", "NotFound"), causes)
    if status == 403 and body.get("reason") == "Forbidden":
        where = f" in namespace {namespace}" if resource.namespaced and namespace else ""
        group = f".{resource.group}" if resource.group else ""
        text = f"RBAC does not allow it (verb {_RBAC[verb]} on {resource.plural}{group}{where}): {text}"
    return _ERRORS.get(status, ApiError)(f"cannot {verb} {what}: {text}", status, body.get("reason", ""), causes)


_RBAC = {
    "get": "get",
    "list": "list",
    "watch": "watch",
    "create": "create",
    "replace": "update",
    "apply": "patch",
    "patch": "patch",
    "delete": "delete",
}


def _warnings(headers: Iterable[str]) -> list[str]:
    """The texts of RFC 7234 Warning headers: ``299 - "text"``."""
    return [
        header.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"') if '"' in header else header for header in headers
    ]


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
