"""Refusal: why a task does not start, and what of it the API server's answer to its pod says."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from berth_core.errors import AdmissionError, ApiError, BerthError, InvalidError
from berth_core.tasks.bounds import EXCEEDED_QUOTA


class Refusal(NamedTuple):
    """Why a task does not start. ``final``: it never will; ``waits``: it is asked for again in the next round."""

    reason: str
    message: str
    final: bool = False
    waits: bool = False


@lru_cache(maxsize=1024)
def waits(reason: str, message: str) -> Refusal:
    """What a round says of very many tasks."""
    return Refusal(reason, message, waits=True)


def refusal_of(exc: BerthError) -> Refusal:
    """Of the answer to a request for its pod."""
    if isinstance(exc, AdmissionError):
        return _not_admitted(exc.message)
    if isinstance(exc, InvalidError) or (isinstance(exc, ApiError) and exc.status == 400):
        return Refusal("TemplateRejected", exc.message, final=True)
    return Refusal("NotMade", exc.message)


def _not_admitted(words: str) -> Refusal:
    """A quota that somebody else was faster to use leaves room again; what Pod Security forbids no wait changes."""
    if "violates PodSecurity" in words:
        return Refusal("TemplateRejected", words, final=True)
    return Refusal(EXCEEDED_QUOTA if "exceeded quota: " in words else "NotAdmitted", words)
