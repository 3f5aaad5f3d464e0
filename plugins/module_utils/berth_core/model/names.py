# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of objects as the API server takes them, checked before it is asked.

Called by whoever reads options. What a refusal says of a value is said here, too: never more of it than fits a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..errors import InputError

#: What a refusal says that it expected.
LABEL_WORDS = "a DNS-1123 label (lower case letters, digits and '-', at most 63)"
SUBDOMAIN_WORDS = "a DNS-1123 subdomain (lower case letters, digits, '-' and '.', at most 253)"
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_SHOWN = 60
_PLAIN = re.compile(r"[A-Za-z0-9_.:,+@/-](?:[A-Za-z0-9_.:,+@/ -]*[A-Za-z0-9_.:,+@/-])?")


def is_label(text: object) -> bool:
    """Tell whether it is a DNS-1123 label, as names of namespaces, apps and volumes are."""
    return isinstance(text, str) and bool(_LABEL.fullmatch(text))


def is_subdomain(text: object) -> bool:
    """Tell whether it is a DNS-1123 subdomain, as names of nodes, LocalDisks and StorageClasses are."""
    return isinstance(text, str) and bool(_SUBDOMAIN.fullmatch(text))


def is_plain(text: str) -> bool:
    """Tell whether it may stand in quotes in a command or a file: no shell, YAML or template reads more in it."""
    return bool(_PLAIN.fullmatch(text))


def check_subdomain(text: object, option: str) -> None:
    """Raise InputError that names the option unless the value is a DNS-1123 subdomain."""
    if not is_subdomain(text):
        raise InputError(f"{option} is {shown(text)}: expected {SUBDOMAIN_WORDS}")


def check_label(text: object, option: str) -> None:
    """Raise InputError that names the option unless the value is a DNS-1123 label."""
    if not is_label(text):
        raise InputError(f"{option} is {shown(text)}: expected {LABEL_WORDS}")


def check_names(names: Iterable[object] | None, option: str) -> None:
    """Raise InputError that names the option and the entry unless each is a DNS-1123 subdomain."""
    for index, name in enumerate(names or ()):
        check_subdomain(name, f"{option}[{index}]")


def check_image(text: str, option: str) -> None:
    """Raise InputError unless it can be the name of a container image: what a registry makes of it is not known."""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise InputError(f"{option} is {shown(text)}: expected the name of an image, as registry.example/berth:1.0")


def shown(value: object) -> str:
    """The value in quotes, for a refusal; of a long one its beginning, and how long it is."""
    text = str(value)
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text)} characters)"


def first(names: Sequence[str], shown: int = 5) -> str:
    """The first of them, for a message, and how many more there are."""
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
