# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who calls the API server: the authentication options that kubernetes.core users know, turned into one frozen
value.

The precedence is theirs: option, then K8S_AUTH_* variable, then (when no host with credentials is complete) the
kubeconfig, then the service account of the pod that this runs in, then the default kubeconfig. Reading kubeconfig
files, exec plugins and token refresh are the kubernetes library's work.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..berth_core.errors import InputError, UnauthorizedError

try:
    import kubernetes.client as _client
    import kubernetes.config as _config
    import kubernetes.config.kube_config as _kube_config

    KUBERNETES_ERROR: str | None = None
except ImportError as exc:  # reported when first needed, with the interpreter's name
    _client = _config = _kube_config = None
    KUBERNETES_ERROR = str(exc)

try:
    import yaml as _yaml  # the kubernetes library brings it

    _fast_loader = getattr(_yaml, "CSafeLoader", None)
except ImportError:
    _yaml = _fast_loader = None

#: option name -> (client library's name, argument spec)
AUTH_ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "kubeconfig": {"type": "raw"},
    "context": {"type": "str"},
    "host": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
    "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
    "client_cert": {"type": "path", "aliases": ["cert_file"]},
    "client_key": {"type": "path", "no_log": False, "aliases": ["key_file"]},
    "proxy": {"type": "str"},
    "no_proxy": {"type": "str"},
    "proxy_headers": {
        "type": "dict",
        "options": {
            "proxy_basic_auth": {"type": "str", "no_log": True},
            "basic_auth": {"type": "str", "no_log": True},
            "user_agent": {"type": "str"},
        },
    },
    "persist_config": {"type": "bool"},
    "impersonate_user": {"type": "str"},
    "impersonate_groups": {"type": "list", "elements": "str"},
}

_ALIASES = {
    "validate_certs": "VERIFY_SSL",
    "ca_cert": "SSL_CA_CERT",
    "client_cert": "CERT_FILE",
    "client_key": "KEY_FILE",
}
_SECRET_KEYS = (
    "token",
    "password",
    "client-key-data",
    "client-certificate-data",
    "id-token",
    "refresh-token",
    "client-secret",
)
_PATH_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
#: Options that become a header as they are.
_HEADERS = ("api_key", "impersonate_user", "impersonate_groups")
_UNSENDABLE = (
    "has a line break or another character that no HTTP header carries: expected one line of ASCII; "
    "where it is read from a file, without the line break at its end"
)
_LATIN_1 = 255
_FALSE = ("0", "false", "no", "off", "n", "f")


class Auth(NamedTuple):
    """Everything that the transport needs. ``configuration`` is a kubernetes.client.Configuration, which refreshes
    tokens."""

    configuration: Any
    no_proxy: str | None
    proxy_headers: dict[str, str]
    impersonate_user: str | None
    impersonate_groups: tuple[str, ...]
    source: str


def auth_options(params: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The options with every unset one filled from its K8S_AUTH_* variable."""
    merged = {}
    for option, spec in AUTH_ARGUMENT_SPEC.items():
        value = params.get(option)
        merged[option] = value if value is not None else _from_environ(option, spec, environ)
    return merged


def _from_environ(option: str, spec: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    names = [f"K8S_AUTH_{option.upper()}"]
    if option in _ALIASES:
        names.append(f"K8S_AUTH_{_ALIASES[option]}")
    text = next((environ[name] for name in names if environ.get(name)), None)
    if option == "proxy_headers":
        found = {key: environ.get(f"K8S_AUTH_PROXY_HEADERS_{key.upper()}") for key in spec["options"]}
        return {key: value for key, value in found.items() if value} or None
    if text is None:
        return None
    if spec["type"] == "bool":
        return text.strip().lower() not in _FALSE
    if spec["type"] == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def kubeconfig_secrets(kubeconfig: Any) -> set[str]:
    """Every secret inside a kubeconfig that was given as a mapping, to be hidden from output."""
    found: set[str] = set()
    if isinstance(kubeconfig, Mapping):
        for key, value in kubeconfig.items():
            if key in _SECRET_KEYS and isinstance(value, str):
                found.add(value)
            found |= kubeconfig_secrets(value)
    elif isinstance(kubeconfig, (list, tuple)):
        for value in kubeconfig:
            found |= kubeconfig_secrets(value)
    return found


def with_absolute_paths(kubeconfig: Any, folder: str) -> Any:
    """A kubeconfig's content with the files that it names relative to its own folder named in full."""
    if isinstance(kubeconfig, Mapping):
        return {
            key: os.path.join(folder, value)
            if key in _PATH_KEYS and isinstance(value, str) and value
            else with_absolute_paths(value, folder)
            for key, value in kubeconfig.items()
        }
    if isinstance(kubeconfig, (list, tuple)):
        return [with_absolute_paths(value, folder) for value in kubeconfig]
    return kubeconfig


def forget_temporary_files() -> None:
    """Remove the temporary files into which the library has put the certificates and keys of a kubeconfig.

    It does so itself when Python ends, but Ansible's workers end without that. The files are the process's: not for two
    threads that make clients at one moment.
    """
    cleanup = getattr(_kube_config, "_cleanup_temp_files", None)
    if cleanup is not None:
        cleanup()


def load_auth(params: Mapping[str, Any], environ: Mapping[str, str]) -> Auth:
    """Resolve the options to an Auth.

    Raises InputError when the library is missing, a file cannot be read, or nothing says where the API server is.
    """
    if _client is None:
        import sys

        raise InputError(
            f"the Python package kubernetes is missing in {sys.executable} ({KUBERNETES_ERROR}); "
            f"install it there: {sys.executable} -m pip install 'kubernetes>=24.2.0'"
        )
    options = auth_options(params, environ)
    _refuse_unsendable(options)
    configuration = _client.Configuration()
    source = _load(configuration, options, environ)
    _override(configuration, options)
    if not all(_can_be_sent(str(token)) for token in configuration.api_key.values()):
        raise InputError(f"the token of {source} {_UNSENDABLE}")
    return Auth(
        configuration,
        options["no_proxy"],
        _proxy_headers(options["proxy_headers"] or {}),
        options["impersonate_user"],
        tuple(options["impersonate_groups"] or ()),
        source,
    )


def _refuse_unsendable(options: Mapping[str, Any]) -> None:
    """Raises InputError that names the option, and never says what was in it."""
    texts = {option: options[option] for option in _HEADERS}
    texts["proxy_headers.user_agent"] = (options["proxy_headers"] or {}).get("user_agent")
    for option, value in texts.items():
        if not all(_can_be_sent(str(text)) for text in (value if isinstance(value, list) else [value or ""])):
            raise InputError(f"{option} {_UNSENDABLE}")
    for option in ("username", "password"):
        if any(ord(character) > _LATIN_1 for character in str(options[option] or "")):
            raise InputError(f"{option} has a character that basic authentication cannot carry: expected Latin-1")


def _can_be_sent(text: str) -> bool:
    return text.isascii() and (text.isprintable() or not text)


def _load(configuration: Any, options: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    complete = options["host"] and (
        options["api_key"]
        or (options["username"] and options["password"])
        or (options["client_cert"] and options["client_key"])
    )
    if complete and not options["kubeconfig"]:
        return f"host {options['host']}"
    try:
        return _load_config(configuration, options, environ)
    except _config.ConfigException as exc:
        if options["host"]:
            return f"host {options['host']} without credentials"
        raise InputError(
            f"no usable cluster configuration: {exc}. "
            "Set kubeconfig, or host with api_key, or the K8S_AUTH_* variables."
        ) from exc
    except (InputError, UnauthorizedError):
        raise
    except Exception as exc:  # the library raises whatever its YAML, TLS and exec helpers raise
        raise InputError(f"the kubeconfig cannot be used: {type(exc).__name__}: {exc}") from exc


def _load_config(configuration: Any, options: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    kubeconfig, context = options["kubeconfig"], options["context"]
    if isinstance(kubeconfig, Mapping):
        # Ansible's own kinds of text and mapping become plain ones
        plain = json.loads(json.dumps(kubeconfig, default=str))
        loader = _kube_config._get_kube_config_loader(config_dict=plain, active_context=context, persist_config=False)
        return _set(configuration, loader, options, "the kubeconfig given as a mapping")
    if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        _config.load_incluster_config(client_configuration=configuration)
        return "the pod's service account"
    path = str(kubeconfig) if kubeconfig is not None else environ.get("KUBECONFIG") or "~/.kube/config"
    path = os.pathsep.join(os.path.expanduser(part) for part in path.split(os.pathsep) if part)
    if not any(os.path.exists(part) for part in path.split(os.pathsep)):
        raise _config.ConfigException(f"the kubeconfig {path} does not exist")
    loader = _loader_of(path, context, bool(options["persist_config"]))
    return _set(configuration, loader, options, f"the kubeconfig {path}")


def _loader_of(path: str, context: str | None, persist: bool) -> Any:
    """The library's loader; for one file that it need not write back, with libyaml's parser.

    Its own parser is the pure-Python one: about 10 ms of every task.
    """
    if persist or os.pathsep in path or _fast_loader is None:
        return _kube_config._get_kube_config_loader(filename=path, active_context=context, persist_config=persist)
    with open(path, encoding="utf-8") as stream:
        content = _yaml.load(stream, Loader=_fast_loader)
    if not isinstance(content, dict):
        raise _config.ConfigException(f"{path} holds no kubeconfig: a mapping was expected")
    node = _kube_config.ConfigNode(path, content, path)
    return _kube_config.KubeConfigLoader(config_dict=node, active_context=context, config_base_path=None)


def _set(configuration: Any, loader: Any, options: Mapping[str, Any], source: str) -> str:
    """Take over what the loader finds. Raises InputError where the exec plugin that should give credentials gave none.

    The library writes that to the log and goes on as nobody, whom the API server then refuses by RBAC.
    """
    user = getattr(loader, "_user", None)
    plugin = user["exec"] if user and "exec" in user else None
    if plugin is None:
        loader.load_and_set(configuration)
        return source
    with _log_records() as told:
        loader.load_and_set(configuration)
    named = any(options[option] for option in ("api_key", "client_cert", "username"))
    if not (configuration.api_key or configuration.cert_file or named):
        command, name = str(plugin.safe_get("command")), loader.current_context["context"].get("user")
        found = shutil.which(command) or os.path.dirname(command)
        why = (
            f"failed: {'; '.join(told) or 'it gave no credentials'}"
            if found
            else "was not found: install it, or see PATH"
        )
        raise InputError(f"{source}: the exec credential plugin {command!r} of user {name!r} {why}")
    return source


class _Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(" ".join(record.getMessage().split())[:300])


@contextlib.contextmanager
def _log_records() -> Iterator[list[str]]:
    """What the library says of a plugin is logged on the root logger alone."""
    handler = _Records()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.told
    finally:
        logging.getLogger().removeHandler(handler)


def _override(configuration: Any, options: Mapping[str, Any]) -> None:
    for option, attribute in (
        ("host", "host"),
        ("username", "username"),
        ("password", "password"),
        ("validate_certs", "verify_ssl"),
        ("ca_cert", "ssl_ca_cert"),
        ("client_cert", "cert_file"),
        ("client_key", "key_file"),
        ("proxy", "proxy"),
    ):
        if options[option] is not None:
            setattr(configuration, attribute, options[option])
    _prefer_named_credentials(configuration, options)
    for option in ("ca_cert", "client_cert", "client_key"):
        path = options[option]
        if path and not os.path.exists(path):
            raise InputError(f"{option}: the file {path} does not exist")


def _prefer_named_credentials(configuration: Any, options: Mapping[str, Any]) -> None:
    """An identity that the user names replaces the kubeconfig's: of two, the API server would silently take one."""
    if options["api_key"] or options["client_cert"] or options["username"]:
        configuration.api_key, configuration.api_key_prefix = {}, {}
        configuration.refresh_api_key_hook = None
    if options["api_key"]:
        configuration.api_key = {"BearerToken": f"Bearer {options['api_key']}"}
    if (options["api_key"] or options["username"]) and not options["client_cert"]:
        configuration.cert_file = configuration.key_file = None


def _proxy_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    import base64

    made: dict[str, str] = {}
    for option, header in (("basic_auth", "authorization"), ("proxy_basic_auth", "proxy-authorization")):
        if headers.get(option):
            made[header] = "Basic " + base64.b64encode(str(headers[option]).encode()).decode()
    if headers.get("user_agent"):
        made["user-agent"] = str(headers["user_agent"])
    return made
