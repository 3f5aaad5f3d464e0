"""A daemon's settings from its command line and environment: a flag and a variable for each field of a dataclass.

Called by the settings of each daemon with their own dataclass, whose fields all have defaults. Reads nothing by itself.
What a value may be is asked of option_values.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Callable

from berth_core.app.daemon_flags import LOG_FORMATS, LOG_LEVELS
from berth_core.app.fsid import mount_point
from berth_core.errors import InputError

from . import option_values

#: The last word of a field's name -> who judges its value.
_SERVED: Mapping[str, Callable[[str, Any], None]] = {
    "namespace": option_values.check_namespace,
    "address": option_values.check_address,
    "port": option_values.check_port,
}


def add_flags(
    parser: argparse.ArgumentParser,
    settings: Any,
    words: Mapping[str, str],
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """A flag for each field of the dataclass ``settings``; ``words``: what --help says of it, with ``bounds``."""
    for name, field in settings.__dataclass_fields__.items():
        default = field.default
        text = words[name] + ("" if default in ("", None) or "default" in words[name] else f" (default: {default})")
        if bounds and name in bounds:
            text += "; {:.10g} to {:.10g}".format(*bounds[name])
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


def check_bounds(settings: Any, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Refuse a number that is not within ``bounds``: field -> least and most. Raises InputError that names the flag."""
    for name, (least, most) in bounds.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            raise InputError(f"{_flag(name)} is {value:.10g}: expected {least:.10g} to {most:.10g}")


def check_mount_root(settings: Any) -> None:
    """The field ``mount_root``, below which agents mount disks. Raises InputError that names the flag."""
    try:
        mount_point("disk", settings.mount_root)
    except InputError as exc:
        raise InputError(f"--mount-root: {exc.message}") from exc


def check_served(settings: Any) -> None:
    """What daemons have in common: ``namespace``, ``*address``, ``*port``, the TLS pair, how it logs.

    Raises InputError that names the flag and what was expected.
    """
    for name in settings.__dataclass_fields__:
        check = _SERVED.get(name.rpartition("_")[2])
        if check is not None:
            check(_flag(name), getattr(settings, name))
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise InputError("--tls-certificate and --tls-key belong together: give both or none")
    for name in ("tls_certificate", "tls_key"):
        if getattr(settings, name):
            option_values.check_file(_flag(name), getattr(settings, name), "a PEM file")
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
    return option_values.number(flag, str(value), whole=not isinstance(default, float))
