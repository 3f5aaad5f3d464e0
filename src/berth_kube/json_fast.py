"""JSON by a compiled parser (msgspec), for a daemon that reads very much of it. client.py is given its result.

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
    What is not of that shape is read whole: a watch says with a Status in the object's place that its history is gone.
    """
    if not FOUND:
        return json.loads
    narrow, whole = msgspec.json.Decoder(shape).decode, msgspec.json.Decoder().decode
    if shape is Any:
        return whole

    def decode(data: bytes) -> Any:
        try:
            return narrow(data)
        except msgspec.ValidationError:
            return whole(data)

    return decode


def encoder() -> Encode:
    """Return what writes JSON: the fast one where it can be had."""
    return msgspec.json.Encoder().encode if FOUND else encode
