"""Which wipes have come to an end on this host, whatever the API server remembers. `wiping` calls me.

A cluster whose state is restored from a backup asks again for what was done since; other data may be there by then.
"""

from __future__ import annotations

import json
import os
from typing import Any

from berth_core.app.identity import from_spec
from berth_core.errors import StateError

from ..files import write_atomically
from ..seams import Object

FORMAT = 1
#: Of each disk, the newest.
_KEPT = 64


class Finished:
    """One file of the state directory: identity of the disk -> IDs of requests, the newest last."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "wipes.json")

    def remembers(self, disk: Object, request: str) -> bool:
        """Whether that request has come to an end here before. Raises StateError."""
        return request in self._read().get(_key(disk), [])

    def add(self, disk: Object, request: str) -> None:
        """On the host's disk when this returns. Raises StateError."""
        wipes = self._read()
        known = [each for each in wipes.get(_key(disk), []) if each != request]
        text = json.dumps({"format": FORMAT, "wipes": {**wipes, _key(disk): [*known, request][-_KEPT:]}}, indent=1)
        try:
            write_atomically(self._path, f"{text}\n", 0o600)
        except OSError as exc:
            raise StateError(f"{self._path} cannot be written: {exc.strerror}") from exc

    def _read(self) -> dict[str, list[str]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                document: Any = json.load(file)
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']}, expected {FORMAT}")
            return {str(key): [str(each) for each in requests] for key, requests in document["wipes"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            # Without it a wipe might be done twice, the second time to data that came later.
            raise StateError(
                f"{self._path}, which says what was wiped before, cannot be read ({exc}): nothing is wiped; remove the "
                "file if the cluster's state was not restored from a backup"
            ) from exc


def _key(disk: Object) -> str:
    return from_spec(disk["spec"]["identity"]).describe()
