"""When a request is sent again, and after which pause. client.py asks me; I am pure: chance comes in as an argument."""

from __future__ import annotations

#: The first try and so many more.
RETRIES = 5
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
LATER = (500, 502, 503, 504)
#: Kinds of failure that no patience mends.
NEVER_MENDS = ("Certificate", "Name", "Protocol")


def may_resend(status: int, idempotent: bool, sent: bool) -> bool:
    """May a request that ended so be sent once more?

    ``status`` is the answer's (0: none came). 429 means that the server did not begin; other failures leave that open,
    so that only what may happen twice is sent twice.
    """
    if status == 0:
        return idempotent or not sent
    return status == 429 or (status in LATER and idempotent)


def pause(attempt: int, retry_after: str, chance: float) -> float:
    """Seconds before try ``attempt`` + 1 (the first try is 0). The server's word, where it gave one, is the least."""
    grown = min(LONGEST_PAUSE, FIRST_PAUSE * float(2**attempt))
    asked = float(retry_after) if retry_after.isdigit() else 0.0
    return max(grown * (0.5 + chance), asked)
