"""Which wipes were asked for and came to an end on this host, whatever the API server remembers. Called by `wiping`.

A cluster whose state is restored from a backup asks again for what was done since, or was taken back; other data may be
there by then.
"""

from __future__ import annotations

import json
import os
from typing import Any

from berth_core.app.identity import from_spec
from berth_core.errors import StateError

from ..files import write_atomically
from ..seams import Object

Wipes = dict[str, list[str]]
Asked = dict[str, dict[str, str]]
FORMAT = 1
#: Of each disk, the newest.
_KEPT = 64


class Finished:
    """One file of the state directory: by the identity of the disk, IDs of requests, the newest last.

    ``wipes``: those that came to an end. ``asked``: all, each with what the disk carried when it was first seen.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "wipes.json")

    def remembers(self, disk: Object, request: str) -> bool:
        """Whether that request has come to an end here before. Raises StateError."""
        return request in self._read()[0].get(_key(disk), [])

    def add(self, disk: Object, request: str) -> None:
        """It has come to its end. On the host's disk when this returns. Raises StateError."""
        wipes, asked = self._read()
        known = [each for each in wipes.get(_key(disk), []) if each != request]
        self._write({**wipes, _key(disk): [*known, request][-_KEPT:]}, asked)

    def first_seen(self, disk: Object, request: str, content: str) -> str:
        """What the disk carried when the request was seen first: ``content`` where that is now. Raises StateError."""
        wipes, asked = self._read()
        known = asked.get(_key(disk), {})
        if request not in known:
            kept = list(known.items())[-_KEPT + 1 :]
            self._write(wipes, {**asked, _key(disk): {**dict(kept), request: content}})
        return known.get(request, content)

    def _write(self, wipes: Wipes, asked: Asked) -> None:
        text = json.dumps({"format": FORMAT, "wipes": wipes, "asked": asked}, indent=1)
        try:
            write_atomically(self._path, f"{text}\n", 0o600)
        except OSError as exc:
            raise StateError(f"{self._path} cannot be written: {exc.strerror}") from exc

    def _read(self) -> tuple[Wipes, Asked]:
        try:
            with open(self._path, encoding="utf-8") as file:
                document: Any = json.load(file)
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']}, expected {FORMAT}")
            wipes = {str(key): [str(each) for each in requests] for key, requests in document["wipes"].items()}
            asked = document.get("asked", {}).items()
            return wipes, {str(key): {str(one): str(what) for one, what in each.items()} for key, each in asked}
        except FileNotFoundError:
            return {}, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            # Without it a wipe might be done twice, the second time to data that came later.
            raise StateError(
                f"{self._path}, which says what was wiped before, cannot be read ({exc}): nothing is wiped; remove the "
                "file if the cluster's state was not restored from a backup"
            ) from exc


def _key(disk: Object) -> str:
    return from_spec(disk["spec"]["identity"]).describe()
