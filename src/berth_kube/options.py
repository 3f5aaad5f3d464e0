"""A daemon's settings from its command line and environment: a flag and a variable for each field of a dataclass.

The settings of each daemon call me with their own dataclass, whose fields all have defaults. I read nothing by myself.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from berth_core.errors import InputError

LOG_FORMATS = ("logfmt", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


def add_flags(parser: argparse.ArgumentParser, settings: Any, words: Mapping[str, str]) -> None:
    """A flag for each field of the dataclass ``settings``; ``words``: what --help says of it."""
    for name, field in settings.__dataclass_fields__.items():
        default = field.default
        text = words[name] + ("" if default in ("", None) or "default" in words[name] else f" (default: {default})")
        action = argparse.BooleanOptionalAction if isinstance(default, bool) else "store"
        parser.add_argument(_flag(name), dest=name, action=action, default=None, help=text)


def read(
    arguments: argparse.Namespace, environ: Mapping[str, str], settings: Any, prefix: str
) -> dict[str, bool | float | int | str]:
    """The fields that were given, by name; a flag goes before its variable, ``prefix`` and the flag's name in capitals.

    Raises InputError that names flag and variable.
    """
    fields = settings.__dataclass_fields__
    named = {key: environ[prefix + key.upper()] for key in fields if prefix + key.upper() in environ}
    given = {key: value for key, value in vars(arguments).items() if key in fields and value is not None}
    return {
        key: _typed(fields[key].default, value, f"{_flag(key)} (or {prefix}{key.upper()})")
        for key, value in {**named, **given}.items()
    }


def check_served(settings: Any) -> None:
    """What daemons have in common: fields named ``port`` or ``*_port``, the TLS pair, how it logs.

    Raises InputError that names the flag and what was expected.
    """
    ports = [name for name in settings.__dataclass_fields__ if name == "port" or name.endswith("_port")]
    for name in ports:
        port = getattr(settings, name)
        if not 0 <= port <= 65535:
            raise InputError(f"{_flag(name)} is {port}: expected 0 to 65535")
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise InputError("--tls-certificate and --tls-key belong together: give both or none")
    if settings.log_format not in LOG_FORMATS:
        raise InputError(f"--log-format is {settings.log_format!r}: expected logfmt or json")
    if settings.log_level not in LOG_LEVELS:
        raise InputError(f"--log-level is {settings.log_level!r}: expected debug, info, warning or error")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _typed(default: object, value: object, flag: str) -> bool | float | int | str:
    if isinstance(default, bool):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() not in words:
            raise InputError(f"{flag} is {value!r}: expected true or false")
        return words[str(value).lower()]
    if isinstance(default, str):
        return str(value)
    try:
        return float(str(value)) if isinstance(default, float) else int(str(value))
    except ValueError as exc:
        raise InputError(f"{flag} is {value!r}: expected a number") from exc
