"""How often a daemon sends a request again, and what its wire's failures are called in the table of both clients.

What may be sent again, and after which pause, berth_core.model.api_requests says. Asked by client.py. Pure.
"""

from __future__ import annotations

from berth_core.model.api_requests import HOPELESS, LOST, UNSENT

from .exchange import CERTIFICATE, NAME, PROTOCOL, WireError

#: The first try and so many more.
RETRIES = 5
#: Kinds of failure that no patience mends.
_NEVER_MENDS = (CERTIFICATE, NAME, PROTOCOL)


def outcome_of(failure: WireError) -> str:
    """What became of a try that was not answered."""
    if failure.kind in _NEVER_MENDS:
        return HOPELESS
    return LOST if failure.sent else UNSENT
