"""JSON by a compiled parser (msgspec), for a daemon that reads very much of it. client.py is given what I return.

Like http1_fast.py: only who asks for it takes it, and json of the standard library stands in where it is not there.
"""

from __future__ import annotations

import json
from typing import Any

from .call import Encode, encode
from .watch import Decode

try:
    import msgspec
except ImportError:  # pragma: no cover - the tests have it
    FOUND = False
else:
    FOUND = True


def decoder(shape: Any = Any) -> Decode:
    """Return what reads JSON: the fast one where it can be had.

    ``shape``: a TypedDict whose fields are all that is wanted; the fast one makes nothing of what stands beside them.
    """
    return msgspec.json.Decoder(shape).decode if FOUND else json.loads


def encoder() -> Encode:
    """Return what writes JSON: the fast one where it can be had."""
    return msgspec.json.Encoder().encode if FOUND else encode
