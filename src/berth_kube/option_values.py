"""Whether what was given for an option can be meant: numbers, addresses, names of objects. Nothing is connected to.

Called by the settings of daemons and of kubectl-berth. Everything raises InputError that names the option, the value
and what was expected.
"""

from __future__ import annotations

import math
import os
import re

from berth_core.errors import InputError
from berth_core.model.addresses import is_host
from berth_core.model.names import LABEL_WORDS, SUBDOMAIN_WORDS, is_label, is_subdomain, shown

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number(option: str, text: str, *, whole: bool) -> float | int:
    """The number of a text, in plain digits; never one that is infinite or none at all."""
    if whole:
        if not _WHOLE.fullmatch(text):
            raise InputError(f"{option} is {shown(text)}: expected a whole number of at most 18 digits")
        return int(text)
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise InputError(f"{option} is {shown(text)}: expected a number, as 10 or 0.5")
    return value


def number_within(option: str, text: str, least: float, most: float, *, whole: bool) -> float | int:
    """The number of a text, of which both bounds are allowed."""
    value = number(option, text, whole=whole)
    if not least <= value <= most:
        raise InputError(f"{option} is {shown(text)}: expected {least:.10g} to {most:.10g}")
    return value


def check_address(option: str, value: str) -> None:
    """Where to listen; empty: on all addresses."""
    if value and not is_host(value):
        raise InputError(
            f"{option} is {shown(value)}: expected an IP address of this host, as 127.0.0.1, or a name that resolves to"
            " one"
        )


def check_port(option: str, value: int) -> None:
    """A TCP port; 0 as the daemon says it."""
    if not 0 <= value <= 65535:
        raise InputError(f"{option} is {value}: expected 0 to 65535")


def check_namespace(option: str, value: str) -> None:
    """The name of a namespace."""
    if not is_label(value):
        raise InputError(f"{option} is {shown(value)}, which no namespace can be named: expected {LABEL_WORDS}")


def check_object_name(option: str, value: str, kind: str) -> None:
    """The name of an object of that kind, as a Node or a Lease."""
    if not is_subdomain(value):
        raise InputError(f"{option} is {shown(value)}, which no {kind} can be named: expected {SUBDOMAIN_WORDS}")


def check_file(option: str, path: str, what: str) -> None:
    """A file that is to be read; ``what``: of what kind, as "a PEM file"."""
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as exc:
        raise InputError(f"{option} {path} cannot be read: {_why(exc)}; expected {what}") from exc


def check_directory(option: str, path: str) -> None:
    """A directory that is there already."""
    try:
        with os.scandir(path):
            pass
    except (OSError, ValueError) as exc:
        raise InputError(f"{option} {path} cannot be read: {_why(exc)}; expected a directory") from exc


def check_file_to_make(option: str, path: str) -> None:
    """A file that is made later: its directory is there, and it is none itself."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(folder):
        what = "is a directory" if os.path.isdir(path) else f"is in no directory that there is ({folder})"
        raise InputError(f"{option} {path} {what}: expected the path of a file in a directory")


def check_directory_to_make(option: str, path: str) -> None:
    """A directory that is made where it is missing: nothing but directories lead to it."""
    there = os.path.abspath(path)
    while not os.path.lexists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    if not path or not os.path.isdir(there):
        what = "is empty" if not path else f"cannot be one: {there} is no directory"
        raise InputError(f"{option} {path} {what}; expected a directory, which is made where it is missing")


def _why(exc: Exception) -> str:
    return (exc.strerror if isinstance(exc, OSError) else "") or str(exc)
