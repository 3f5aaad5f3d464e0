"""How many writes the API server was asked for, by its own exact count: pure."""

from __future__ import annotations

import re
from collections.abc import Container

#: A line of the count; the labels are in the order of their names.
_COUNTED = re.compile(
    r'apiserver_request_total\{.*,resource="(?P<resource>[^"]*)".*verb="(?P<verb>[A-Z]+)".*\} (?P<value>\S+)$'
)
_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
#: What goes on whether anybody does anything or not.
IDLE = ("leases", "nodes", "tokenreviews", "subjectaccessreviews")


def written(metrics: str, without: Container[str] = IDLE) -> float:
    """By everybody so far, dry runs too, but for the resources in ``without``."""
    found = (_COUNTED.match(line) for line in metrics.splitlines())
    return sum(
        float(one["value"]) for one in found if one and one["verb"] in _WRITES and one["resource"] not in without
    )
