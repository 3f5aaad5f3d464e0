"""What an events.k8s.io/v1 Event says. Called by events.py alone. Pure.

Texts are cut to what the API server accepts: an event that is refused tells nobody anything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from berth_core.model.resources import EVENT

from .clocks import stamp

Obj = dict[str, Any]

NOTE_BYTES = 1024
WORD_LENGTH = 128
NAME_LENGTH = 253


class Fact(NamedTuple):
    """One thing to be told about one object. Equal facts are one event, told as a series."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    note: str
    related: tuple[tuple[str, str], ...] = ()


def fact(
    item: Mapping[str, Any], type_: str, reason: str, note: str, action: str, related: Mapping[str, Any] | None
) -> Fact:
    """About an object of the API, or a reference to one (then without ``metadata``)."""
    about, other = reference(item), reference(related) if related else {}
    return Fact(
        about.get("kind", ""),
        about.get("apiVersion", ""),
        about.get("namespace", ""),
        about.get("name", ""),
        about.get("uid", ""),
        type_,
        reason[:WORD_LENGTH],
        (action or reason)[:WORD_LENGTH],
        cut(note, NOTE_BYTES),
        tuple(sorted(other.items())),
    )


def reference(item: Mapping[str, Any]) -> dict[str, str]:
    """An ObjectReference, without what is not known."""
    meta = item.get("metadata") or item
    found = {"kind": item.get("kind"), "apiVersion": item.get("apiVersion")}
    found.update({key: meta.get(key) for key in ("namespace", "name", "uid")})
    return {key: str(value) for key, value in found.items() if value}


def event_of(told: Fact, component: str, instance: str, now: dt.datetime, nonce: int) -> Obj:
    """A new Event, in the namespace of its object ("default" for kinds of the cluster), seen once."""
    about = {
        "kind": told.kind,
        "apiVersion": told.api_version,
        "namespace": told.namespace,
        "name": told.name,
        "uid": told.uid,
    }
    suffix = f".{nonce:016x}"
    event: Obj = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": told.name[: NAME_LENGTH - len(suffix)].rstrip(".-") + suffix,
            "namespace": told.namespace or "default",
        },
        "eventTime": stamp(now),
        "reportingController": component,
        "reportingInstance": instance[:WORD_LENGTH],
        "type": told.type,
        "reason": told.reason,
        "action": told.action,
        "note": told.note,
        "regarding": {key: value for key, value in about.items() if value},
    }
    if told.related:
        event["related"] = dict(told.related)
    return event


def series(count: int, now: dt.datetime) -> Obj:
    """The patch that says how often, and when last."""
    return {"series": {"count": count, "lastObservedTime": stamp(now)}}


def cut(text: str, most: int) -> str:
    """At most so many bytes of UTF-8, with an ellipsis where something is missing."""
    raw = text.encode()
    if len(raw) <= most:
        return text
    return raw[: most - 3].decode(errors="ignore") + "…"
