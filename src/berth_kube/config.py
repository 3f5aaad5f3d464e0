"""Who a daemon is to the API server, and where it is: from a kubeconfig, or from the pod's service account.

The composition roots of the daemons call `load`. Everything that can be known to be wrong without connecting is refused
here, by name. Makes no requests.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from berth_core.errors import InputError
from berth_core.model.addresses import is_host, server_of
from berth_core.model.names import shown

from .credentials import PLUGIN_API, Credentials, Plugin, Static, TokenFile
from .exchange import Endpoint
from .option_values import check_namespace
from .tls import Pair, Pem, Tls

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
DEFAULT_KUBECONFIG = "~/.kube/config"
#: What client-go knows and berth_kube does not: refused rather than passed over.
UNKNOWN_USER = ("username", "password", "auth-provider", "as-groups", "as-uid", "as-user-extra")
UNKNOWN_CLUSTER = ("proxy-url",)


class Config(NamedTuple):
    """Everything that a client needs. ``source`` is for messages; ``namespace`` is that of the context or pod."""

    endpoint: Endpoint
    tls: Tls | None
    credentials: Credentials
    source: str
    namespace: str

    @property
    def server(self) -> str:
        """The server's address, for people."""
        scheme = "https" if self.endpoint.tls else "http"
        return f"{scheme}://{self.endpoint.authority}{self.endpoint.prefix}"


def load(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    allow_insecure: bool = False,
) -> Config:
    """The named kubeconfig, else $KUBECONFIG, else the pod's service account, else ~/.kube/config.

    ``allow_insecure``: obey a kubeconfig's insecure-skip-tls-verify, or a server without TLS; both are refused
    otherwise. Raises InputError.
    """
    environ = os.environ if environ is None else environ
    path = kubeconfig or environ.get("KUBECONFIG")
    if not path and environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    return from_kubeconfig(path or DEFAULT_KUBECONFIG, context, allow_insecure=allow_insecure)


def in_cluster(environ: Mapping[str, str], folder: str = SERVICE_ACCOUNT) -> Config:
    """The service account that the kubelet put into the pod; its token is read again when it is rotated."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, authority = os.path.join(folder, "token"), os.path.join(folder, "ca.crt")
    for path in (token, authority):
        if not os.path.exists(path):
            raise InputError(f"the pod's service account has no {path}: is automountServiceAccountToken off?")
    source = "the pod's service account"
    if not host or not port.isdigit():
        raise InputError(f"KUBERNETES_SERVICE_HOST {host!r} and _PORT {port!r} name no server: give a kubeconfig")
    tls = Tls(source, Pem(path=authority), None)
    return Config(Endpoint(host, int(port)), tls, TokenFile(token, {}), source, _namespace(folder))


def _namespace(folder: str) -> str:
    try:
        with open(os.path.join(folder, "namespace"), encoding="utf-8") as file:
            return file.read().strip() or "default"
    except OSError:
        return "default"


def from_kubeconfig(path: str, context: str | None = None, *, allow_insecure: bool = False) -> Config:
    """One kubeconfig file, its current or the named context. Files that it names are relative to its own folder."""
    import yaml

    path = os.path.expanduser(path)
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        raise InputError(f"the kubeconfig {path} cannot be read: {why}; expected a kubeconfig file", path=path) from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise InputError(f"the kubeconfig {path} is not YAML: {' '.join(str(exc).split())}", path=path) from exc
    if not isinstance(content, dict):
        raise InputError(f"the kubeconfig {path} is not a mapping", path=path)
    return from_mapping(content, f"the kubeconfig {path}", os.path.dirname(path), context, allow_insecure)


def from_mapping(
    content: Mapping[str, Any], source: str, folder: str, context: str | None, allow_insecure: bool
) -> Config:
    """A kubeconfig's content."""
    chosen = context or content.get("current-context")
    if not chosen:
        raise InputError(f"{source} has no current-context: name one")
    use = _entry(content, "context", str(chosen), source)
    cluster = _entry(content, "cluster", str(use.get("cluster") or ""), source)
    user = _entry(content, "user", str(use["user"]), source) if use.get("user") else {}
    _refuse_unknown(cluster, UNKNOWN_CLUSTER, source)
    _refuse_unknown(user, UNKNOWN_USER, source)
    insecure = bool(cluster.get("insecure-skip-tls-verify"))
    server_name = cluster.get("tls-server-name")
    if server_name and not (isinstance(server_name, str) and is_host(server_name)):
        raise InputError(f"tls-server-name of {source} is {shown(server_name)}: expected the name of a host")
    where = endpoint(str(cluster.get("server") or ""), source, server_name)
    if (insecure or not where.tls) and not allow_insecure:
        what = "insecure-skip-tls-verify" if insecure else "a server without TLS"
        raise InputError(f"{source} asks for {what}, which is refused unless it is explicitly allowed")
    trust = _pem(cluster, "certificate-authority", folder, source)
    tls = Tls(source, trust, _pair(user, folder, source), insecure) if where.tls else None
    if tls is not None:
        tls.context()  # what cannot be used is refused now, not with the first request
    namespace = str(use.get("namespace") or "default")
    check_namespace(f"namespace of {source}", namespace)
    return Config(where, tls, _credentials(user, cluster, folder, source), source, namespace)


def endpoint(server: str, source: str, server_name: str | None = None) -> Endpoint:
    """An address ``https://HOST[:PORT][/PREFIX]``. Raises InputError."""
    found = server_of(server)
    if found is None:
        raise InputError(f"the server {server!r} of {source} is not an address: expected https://HOST:PORT")
    return Endpoint(*found, server_name or None)


def _entry(content: Mapping[str, Any], kind: str, name: str, source: str) -> dict[str, Any]:
    entries = content.get(f"{kind}s")
    named = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    for entry in named:
        if entry.get("name") == name:
            found = entry.get(kind)
            if found is not None and not isinstance(found, dict):
                raise InputError(f"{kind} {name!r} of {source} is no mapping")
            return found or {}
    expected = (
        f"expected one of {', '.join(str(one.get('name')) for one in named)}" if named else "it names none at all"
    )
    raise InputError(f"{source} has no {kind} {name!r}: {expected}")


def _refuse_unknown(entry: Mapping[str, Any], unknown: tuple[str, ...], source: str) -> None:
    for key in unknown:
        if entry.get(key):
            raise InputError(
                f"{source} uses {key}, which is not supported; use a token, a certificate or an exec plugin"
            )


def _pem(entry: Mapping[str, Any], key: str, folder: str, source: str) -> Pem | None:
    """KEY-data wins over KEY, as in client-go."""
    data = entry.get(f"{key}-data")
    if data:
        try:
            return Pem(data=base64.b64decode(str(data), validate=True))
        except (binascii.Error, ValueError) as exc:
            raise InputError(f"{key}-data of {source} is not base64: {exc}") from exc
    path = entry.get(key)
    if not path:
        return None
    full = os.path.join(folder, str(path))
    if not os.path.exists(full):
        raise InputError(f"{key} of {source}: the file {full} does not exist", path=full)
    return Pem(path=full)


def _pair(user: Mapping[str, Any], folder: str, source: str) -> Pair | None:
    cert, key = _pem(user, "client-certificate", folder, source), _pem(user, "client-key", folder, source)
    if (cert is None) != (key is None):
        raise InputError(f"{source} gives only one of client-certificate and client-key: both are needed")
    return (cert, key) if cert and key else None


def _credentials(user: Mapping[str, Any], cluster: Mapping[str, Any], folder: str, source: str) -> Credentials:
    for key in ("as", "token"):  # both become a header
        if user.get(key) and not (isinstance(user[key], str) and user[key].isascii() and user[key].isprintable()):
            raise InputError(f"{key} of a user of {source}: expected a text of printable ASCII characters")
    headers = {"impersonate-user": user["as"]} if user.get("as") else {}
    if user.get("exec"):
        return _plugin(user["exec"], cluster, headers, folder, source)
    if user.get("tokenFile"):
        return TokenFile(os.path.join(folder, str(user["tokenFile"])), headers)
    if user.get("token"):
        headers["authorization"] = f"Bearer {user['token']}"
    return Static(headers)


def _plugin(spec: Any, cluster: Mapping[str, Any], headers: dict[str, str], folder: str, source: str) -> Credentials:
    if not isinstance(spec, dict) or not spec.get("command") or spec.get("apiVersion") not in PLUGIN_API:
        raise InputError(f"exec of {source} needs a command and an apiVersion of {' or '.join(PLUGIN_API)}")
    if spec.get("interactiveMode") == "Always":
        raise InputError(f"exec of {source} wants a terminal (interactiveMode Always), which a daemon has not")
    command = str(spec["command"])
    if os.sep in command:  # as in client-go: a bare name is looked up in PATH
        command = os.path.join(folder, command)
    shown = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")
    info = {key: cluster[key] for key in shown if cluster.get(key)} if spec.get("provideClusterInfo") else None
    return Plugin({**spec, "command": command}, headers, info)
