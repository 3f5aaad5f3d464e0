"""Logs for machines and people: one line each, logfmt or JSON, and never a secret. The composition roots call `setup`.

logging.getLogger(__name__).info("wiped", extra={"disk": "h1-d0", "seconds": 3.2})
ts=2026-01-02T03:04:05.678Z level=info logger=berth_agent.wipe msg=wiped disk=h1-d0 seconds=3.2
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

FORMATS = ("logfmt", "json")
#: What every record has; the rest is what the caller gave as ``extra``.
_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRET_NAMES = re.compile(r"token|password|secret|authorization|private.?key|key.?data", re.IGNORECASE)
_SECRET_TEXTS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), "***"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "***"),
)
_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f]+")


def setup(form: str = "logfmt", level: str = "info", stream: TextIO | None = None) -> None:
    """Make the root logger write so, and nothing else. Raises ValueError for a form or level that is not known."""
    if form not in FORMATS:
        raise ValueError(f"log format {form!r}: expected one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Formatter(form))
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.handlers[:] = [handler]
    logging.getLogger("asyncio").setLevel(max(root.level, logging.WARNING))


class Formatter(logging.Formatter):
    """One line for each record."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._render = _json if form == "json" else _logfmt

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        when = dt.datetime.fromtimestamp(record.created, dt.timezone.utc)
        fields: dict[str, Any] = {
            "ts": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": redacted(record.getMessage()),
        }
        for key, value in vars(record).items():
            if key not in _KNOWN:
                fields[key] = _value(key, value)
        if record.exc_info:
            fields["trace"] = redacted(self.formatException(record.exc_info))
        return self._render(fields)


def redacted(text: str) -> str:
    """The text without what looks like a credential."""
    for pattern, instead in _SECRET_TEXTS:
        text = pattern.sub(instead, text)
    return text


def _value(key: str, value: Any) -> Any:
    if _SECRET_NAMES.search(key):
        return "***"
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return redacted(value if isinstance(value, str) else json.dumps(value, default=str))


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, default=str)


def _logfmt(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())


def _quoted(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, (bool, int, float)) or value is None else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
