"""Which claims are prepared, on disk: what a new agent knows of the one before it. Called by `prepare`.

The file is replaced whole. One that cannot be read is put aside and said: then what is prepared is learned again from
the kubelet, which asks anew after its own start, and from the CDI files, which are left alone.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from ..files import write_atomically

log = logging.getLogger(__name__)
FORMAT = 1


class Checkpoint:
    """uid of a claim -> {namespace, name, claim, cdi: the document, devices: the answer}."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "claims.json")
        self.claims: dict[str, dict[str, Any]] = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                document = json.load(file)
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']}, expected {FORMAT}")
            return {str(uid): dict(claim) for uid, claim in document["claims"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            aside = f"{self._path}.unreadable"
            log.warning("%s cannot be used (%s): put aside as %s", self._path, exc, aside)
            os.replace(self._path, aside)
            return {}

    def put(self, uid: str, claim: Mapping[str, Any]) -> None:
        if self.claims.get(uid) != claim:
            self._save({**self.claims, uid: dict(claim)})

    def drop(self, uid: str) -> None:
        if uid in self.claims:
            self._save({key: value for key, value in self.claims.items() if key != uid})

    def _save(self, claims: dict[str, dict[str, Any]]) -> None:
        text = json.dumps({"format": FORMAT, "claims": claims}, sort_keys=True, indent=1) + "\n"
        write_atomically(self._path, text, 0o600)
        self.claims = claims
