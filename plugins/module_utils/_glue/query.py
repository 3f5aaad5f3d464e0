# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JMESPath for the modules that offer a `query`, and for the disk selectors of an inventory."""

from __future__ import annotations

import sys
from typing import Any

from ..berth_core.errors import InputError

try:
    import jmespath
    import jmespath.exceptions

    JMESPATH_ERROR: str | None = None
except ImportError as exc:  # reported when an expression is there to be evaluated
    jmespath = None
    JMESPATH_ERROR = str(exc)


def library() -> Any:
    """The module jmespath. Raises InputError that says how to install it."""
    if jmespath is None:
        raise InputError(
            f"the Python package jmespath is missing in {sys.executable} ({JMESPATH_ERROR}); "
            f"install it there: {sys.executable} -m pip install jmespath"
        )
    return jmespath


def evaluate(expression: str, data: Any) -> Any:
    """What the expression finds in JSON-able data. Raises InputError that names the expression."""
    library()
    try:
        return jmespath.search(expression, data)
    except (jmespath.exceptions.JMESPathError, TypeError, ValueError) as exc:
        reason = " ".join(str(exc).split())
        raise InputError(f"query {expression!r} is not a JMESPath expression that fits the data: {reason}") from exc
