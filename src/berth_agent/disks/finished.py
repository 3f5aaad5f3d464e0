"""Which wipes were asked for and came to an end on this host, whatever the API server remembers. Called by `wiping`.

A cluster whose state is restored from a backup asks again for what was done since, or was taken back; other data may be
there by then.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from berth_core.app.identity import from_spec
from berth_core.errors import StateError

from ..files import write_atomically
from ..seams import Object

FORMAT = 1
#: Of each disk, the newest.
_KEPT = 64


class _Known(NamedTuple):
    """By the identity of the disk, IDs of requests, the newest last.

    ``wipes``: those that came to an end. ``asked``: all, each with what the disk carried when it was first seen.
    ``data``: the dataUID of what those destroyed that were carried out. ``held``: the last request that had come to an
    end when somebody got the disk, as far as nothing on it tells that.
    """

    wipes: dict[str, list[str]]
    asked: dict[str, dict[str, str]]
    data: dict[str, dict[str, str]]
    held: dict[str, str]


class Finished:
    """One file of the state directory."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "wipes.json")

    def remembers(self, disk: Object, request: str) -> bool:
        """Whether that request has come to an end here before. Raises StateError."""
        return request in self._read().wipes.get(_key(disk), [])

    def add(self, disk: Object, request: str, data_uid: str = "") -> None:
        """It has come to its end. On the host's disk when this returns. Raises StateError.

        ``data_uid``: what it has destroyed; empty where it failed, and where that was nobody's.
        """
        known, key = self._read(), _key(disk)
        ended = [*(each for each in known.wipes.get(key, []) if each != request), request][-_KEPT:]
        gone = {**known.data.get(key, {}), **({request: data_uid} if data_uid else {})}
        kept = {each: uid for each, uid in gone.items() if each in ended}
        self._write(known._replace(wipes={**known.wipes, key: ended}, data={**known.data, key: kept}))

    def since(self, disk: Object, data_uid: str) -> list[str]:
        """The requests from the last one on that destroyed that data here; empty where none did. Raises StateError."""
        known, key = self._read(), _key(disk)
        ended, data = known.wipes.get(key, []), known.data.get(key, {})
        times = [number for number, request in enumerate(ended) if data.get(request) == data_uid]
        return ended[times[-1] :] if times else []

    def note_held(self, disk: Object) -> None:
        """Somebody has the disk, and may write to it. On the host's disk when this returns. Raises StateError."""
        known, key = self._read(), _key(disk)
        ended = known.wipes.get(key)
        if ended and known.held.get(key) != ended[-1]:
            self._write(known._replace(held={**known.held, key: ended[-1]}))

    def is_held_since(self, disk: Object) -> bool:
        """Whether somebody has had the disk since the last request came to its end. Raises StateError."""
        known, key = self._read(), _key(disk)
        ended = known.wipes.get(key, [])
        return known.held.get(key) in ended[-1:]

    def first_seen(self, disk: Object, request: str, content: str) -> str:
        """What the disk carried when the request was seen first: ``content`` where that is now. Raises StateError."""
        known, key = self._read(), _key(disk)
        seen = known.asked.get(key, {})
        if request not in seen:
            kept = list(seen.items())[-_KEPT + 1 :]
            self._write(known._replace(asked={**known.asked, key: {**dict(kept), request: content}}))
        return seen.get(request, content)

    def _write(self, known: _Known) -> None:
        text = json.dumps({"format": FORMAT, **known._asdict()}, indent=1)
        try:
            write_atomically(self._path, f"{text}\n", 0o600)
        except OSError as exc:
            raise StateError(f"{self._path} cannot be written: {exc.strerror}") from exc

    def _read(self) -> _Known:
        try:
            with open(self._path, encoding="utf-8") as file:
                document: Any = json.load(file)
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']}, expected {FORMAT}")
            wipes = {str(key): [str(each) for each in requests] for key, requests in document["wipes"].items()}
            held = {str(key): str(request) for key, request in document.get("held", {}).items()}
            asked, data = (_by_request(document.get(each, {})) for each in ("asked", "data"))
            return _Known(wipes, asked, data, held)
        except FileNotFoundError:
            return _Known({}, {}, {}, {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            # Without it a wipe might be done twice, the second time to data that came later.
            raise StateError(
                f"{self._path}, which says what was wiped before, cannot be read ({exc}): nothing is wiped; remove the "
                "file if the cluster's state was not restored from a backup"
            ) from exc


def _by_request(document: Any) -> dict[str, dict[str, str]]:
    return {str(key): {str(one): str(what) for one, what in each.items()} for key, each in document.items()}


def _key(disk: Object) -> str:
    return from_spec(disk["spec"]["identity"]).describe()
