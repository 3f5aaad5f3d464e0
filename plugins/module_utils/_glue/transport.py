# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to one API server: TLS, proxy, and what a failure to connect means. Called by client.py alone.

Sends nothing by itself and knows nothing of the API.
"""

from __future__ import annotations

import re
import ssl
from typing import Any
from urllib.parse import urlsplit

from ..berth_core.errors import ApiError, InputError, UnavailableError
from ..berth_core.model.api_requests import HOPELESS, LOST, UNSENT
from ..berth_core.model.names import shown
from .auth import Auth, forget_temporary_files

try:
    import urllib3
    from urllib3.util.ssl_ import create_urllib3_context
except ImportError:  # load_auth has already refused: kubernetes brings urllib3
    urllib3 = create_urllib3_context = None

#: Failures that no patience mends: a certificate that does not verify, a name that does not resolve.
_NEVER_MENDS = ("SSLError", "SSLCertVerificationError", "NameResolutionError", "LocationParseError", "InvalidHeader")
#: Failures of connecting: nothing was sent.
_UNSENT = ("NewConnectionError", "ConnectTimeoutError", "ConnectionRefusedError", "ProxyError", "EmptyPoolError")


def connection_pool(auth: Auth, host: str, timeout: float) -> Any:
    """A urllib3 pool for the host. Raises InputError for what can be known to be wrong without connecting."""
    configuration = auth.configuration
    if not _is_url(host):
        raise InputError(f"host {shown(host)} is not a URL: expected https://NAME:PORT")
    options: dict[str, Any] = {"maxsize": 4, "timeout": urllib3.Timeout(connect=min(timeout, 10.0), read=timeout)}
    if host.startswith("https"):
        options.update(_tls(configuration, auth.source))
    if configuration.proxy and not _bypasses(host, auth.no_proxy or configuration.no_proxy):
        proxy_headers = {key: value for key, value in auth.proxy_headers.items() if key == "proxy-authorization"}
        try:
            return urllib3.ProxyManager(
                configuration.proxy, proxy_headers=proxy_headers or configuration.proxy_headers, **options
            )
        except (urllib3.exceptions.HTTPError, ValueError) as exc:
            raise InputError(f"proxy is no URL of a proxy: expected http://NAME:PORT ({exc})") from exc
    return urllib3.PoolManager(**options)


def _is_url(host: str) -> bool:
    """Whether urllib3 can be given it. ``urlsplit`` reads the port, and refuses one that is none, when it is asked."""
    try:
        parts = urlsplit(host)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and host.isprintable()
    except ValueError:
        return False


def no_kubernetes(host: str, source: str, why: str) -> InputError:
    """For who answers, and not as an API server does."""
    return InputError(
        f"{host} (from {source}) answers, but is no Kubernetes API server: {why}; see that host, or the server of the "
        "kubeconfig, names the API server, with its port and path"
    )


def _tls(configuration: Any, source: str) -> dict[str, Any]:
    """Options for verified TLS. The certificates are read here, so that no file with a key outlives this function."""
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE)
    try:
        if configuration.verify_ssl and configuration.ssl_ca_cert:
            context.load_verify_locations(cafile=configuration.ssl_ca_cert)
        elif configuration.verify_ssl:
            context.load_default_certs()
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    except (OSError, ValueError) as exc:
        raise InputError(f"a certificate or key of {source} cannot be used: {exc}") from exc
    finally:
        forget_temporary_files()
    options: dict[str, Any] = {
        "ssl_context": context,
        "cert_reqs": "CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE",
    }
    if configuration.assert_hostname is not None:
        options["assert_hostname"] = configuration.assert_hostname
    if getattr(configuration, "tls_server_name", None):
        options["server_hostname"] = configuration.tls_server_name
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return options


def is_direct(pool: Any) -> bool:
    """Whether no proxy stands between."""
    return pool.proxy is None


def dial(pool: Any, host: str) -> Any:
    """The socket of a new connection, verified as those of the pool are. Raises HTTPError of urllib3, and OSError."""
    connection = pool.connection_from_url(host)._new_conn()
    connection.connect()
    return connection.sock


def authority(pool: Any) -> str:
    """The certificates that a pool's server is verified with, PEM. Their file is gone by now."""
    context = pool.connection_pool_kw.get("ssl_context")
    found = context.get_ca_certs(binary_form=True) if context is not None else []
    return "".join(ssl.DER_cert_to_PEM_cert(certificate) for certificate in found)


def _bypasses(host: str, no_proxy: str | None) -> bool:
    name = urlsplit(host).hostname or ""
    parts = [part.strip().lstrip(".") for part in (no_proxy or "").split(",") if part.strip()]
    return any(part == "*" or name == part or name.endswith("." + part) for part in parts)


def unreachable(host: str, source: str, exc: Exception) -> UnavailableError:
    """An error for people out of one of urllib3's; ``reason`` is the cause's class, for `outcome_of`."""
    reason = getattr(exc, "reason", None)
    cause = reason if isinstance(reason, Exception) else exc
    kind, text = type(cause).__name__, re.sub(r"^HTTPS?Connection(Pool)?\([^)]*\): ", "", str(cause))
    advice = "see that it runs and that the address is right"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        advice = "its certificate is not to be trusted: give the certificate authority (ca_cert, or the kubeconfig's)"
    return UnavailableError(f"the API server {host} (from {source}) cannot be reached: {text}; {advice}", reason=kind)


def outcome_of(failure: ApiError) -> str:
    """What became of a try that was not answered, by the name that `unreachable` gave it."""
    if failure.reason in _NEVER_MENDS:
        return HOPELESS
    return UNSENT if failure.reason in _UNSENT else LOST
