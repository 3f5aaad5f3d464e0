"""What the command line and the environment say. __main__ calls me; nobody else reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth_core.app.fsid import DEFAULT_MOUNT_ROOT, mount_point
from berth_core.errors import InputError

#: Each flag of `run` has an environment variable: BERTH_SCHEDULER_ and the flag's name in capitals.
PREFIX = "BERTH_SCHEDULER_"


@dataclass(frozen=True)
class Settings:
    """``kubeconfig`` empty: the pod's service account, else the user's own file. ``config`` empty: the defaults."""

    config: str = ""
    kubeconfig: str = ""
    namespace: str = "berth-system"
    identity: str = ""
    leader_elect: bool = True
    mount_root: str = DEFAULT_MOUNT_ROOT
    address: str = "127.0.0.1"
    port: int = 9810
    tls_certificate: str = ""
    tls_key: str = ""
    log_format: str = "logfmt"
    log_level: str = "info"


_HELP = {
    "config": "KubeSchedulerConfiguration file (default: one profile, berth-scheduler)",
    "kubeconfig": "kubeconfig file (default: the configuration's, the pod's service account, or ~/.kube/config)",
    "namespace": "namespace of the Lease, unless the configuration names another",
    "identity": "name of this process in the Lease (default: the host's name and a random part)",
    "leader_elect": "place pods only while holding the Lease",
    "mount_root": "directory below which agents mount disks (the agents' mount_root)",
    "address": "address of /metrics, /healthz and /readyz",
    "port": "their port; 0: not served",
    "tls_certificate": "PEM file; with tls-key: serve them by TLS",
    "tls_key": "PEM file",
    "log_format": "logfmt or json",
    "log_level": "debug, info, warning or error",
}


def add_run(commands: Any) -> None:
    """The command `run`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="place pods until stopped",
        description="Places the pods whose schedulerName is one of the configuration's profiles.",
        epilog=f"Each flag can be given as an environment variable: --leader-elect as {PREFIX}LEADER_ELECT=true.",
    )
    for name, field in Settings.__dataclass_fields__.items():
        default = field.default
        text = _HELP[name] + ("" if default in ("", None) or "default" in _HELP[name] else f" (default: {default})")
        action = argparse.BooleanOptionalAction if isinstance(default, bool) else "store"
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, action=action, default=None, help=text)


def parse(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of `berth-scheduler run ...`, without the word run. Raises InputError that names flag or variable."""
    parser = argparse.ArgumentParser(prog="berth-scheduler")
    add_run(parser.add_subparsers(required=True))
    return read(parser.parse_args(["run", *argv]), environ)


def read(arguments: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of a parsed command line; a flag goes before its variable."""
    given = {key: value for key, value in vars(arguments).items() if key in _HELP and value is not None}
    variables = os.environ if environ is None else environ
    named = {key: variables[PREFIX + key.upper()] for key in _HELP if PREFIX + key.upper() in variables}
    values: dict[str, Any] = {key: _typed(key, value) for key, value in {**named, **given}.items()}
    return _checked(Settings(**values))


def _typed(name: str, value: object) -> object:
    default = Settings.__dataclass_fields__[name].default
    flag = f"--{name.replace('_', '-')} (or {PREFIX}{name.upper()})"
    if isinstance(default, bool):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() not in words:
            raise InputError(f"{flag} is {value!r}: expected true or false")
        return words[str(value).lower()]
    if isinstance(default, str):
        return str(value)
    try:
        return int(str(value))
    except ValueError as exc:
        raise InputError(f"{flag} is {value!r}: expected a number") from exc


def _checked(settings: Settings) -> Settings:
    mount_point("disk", settings.mount_root)
    wrong = ""
    if not 0 <= settings.port <= 65535:
        wrong = f"--port is {settings.port}: expected 0 to 65535"
    elif bool(settings.tls_certificate) != bool(settings.tls_key):
        wrong = "--tls-certificate and --tls-key belong together: give both or none"
    elif settings.log_format not in ("logfmt", "json"):
        wrong = f"--log-format is {settings.log_format!r}: expected logfmt or json"
    elif settings.log_level not in ("debug", "info", "warning", "error"):
        wrong = f"--log-level is {settings.log_level!r}: expected debug, info, warning or error"
    if wrong:
        raise InputError(wrong)
    return settings
