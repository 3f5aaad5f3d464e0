"""The objects that an informer has seen, by key and by index. Filled by informer.py; everybody may read.

What it gives out is the cache itself and is never changed by a reader. Waits for nothing and knows no API server.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
Indexer = Callable[[Obj], list[str]]


class Key(NamedTuple):
    """Where an object is. ``namespace`` is empty for kinds of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(item: Mapping[str, Any]) -> Key:
    """The key of an object of the API."""
    meta = item["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


class Store:
    """Objects of one kind. ``indexers``: name of an index -> the values under which an object is found there."""

    def __init__(self, indexers: Mapping[str, Indexer]) -> None:
        self._indexers = dict(indexers)
        self._objects: dict[Key, Obj] = {}
        self._indexes: dict[str, dict[str, set[Key]]] = {name: {} for name in self._indexers}
        #: where those objects stand that stand anywhere: (index, value)
        self._places: dict[Key, list[tuple[str, str]]] = {}

    def get(self, key: Key) -> Obj | None:
        """The object, or None."""
        return self._objects.get(key)

    def all(self) -> list[Obj]:
        """Every object."""
        return list(self._objects.values())

    def keys(self) -> set[Key]:
        """Every key."""
        return set(self._objects)

    def uids(self) -> dict[Key, str]:
        """The uid of every object, by its key."""
        return {key: str(item["metadata"].get("uid")) for key, item in self._objects.items()}

    def by_index(self, index: str, value: str) -> list[Obj]:
        """The objects that the indexer put under that value, sorted by key."""
        return [self._objects[key] for key in sorted(self._indexes[index].get(value, ()))]

    def put(self, key: Key, item: Obj) -> Obj | None:
        """Keep the object; returns the one that was there."""
        old = self._objects.get(key)
        self._objects[key] = item
        if self._indexers:
            self._place(key, self._values(item))
        return old

    def remove(self, key: Key) -> Obj | None:
        """Forget the object; returns it."""
        old = self._objects.pop(key, None)
        self._place(key, [])
        return old

    def __len__(self) -> int:
        return len(self._objects)

    def _place(self, key: Key, now: list[tuple[str, str]]) -> None:
        before = self._places.get(key, [])
        if before == now:
            return
        for name, value in before:
            self._discard(self._indexes[name], value, key)
        for name, value in now:
            self._indexes[name].setdefault(value, set()).add(key)
        if now:
            self._places[key] = now
        else:
            del self._places[key]

    def _values(self, item: Obj) -> list[tuple[str, str]]:
        """Where the object stands in each index; nowhere in one whose indexer cannot read it."""
        found: list[tuple[str, str]] = []
        for name, indexer in self._indexers.items():
            try:
                found += [(name, value) for value in indexer(item)]
            except (KeyError, TypeError, AttributeError, ValueError):  # noqa: PERF203 - one must not cost the others
                _log.debug("index %s cannot read %s", name, key_of(item))
        return found

    @staticmethod
    def _discard(index: dict[str, set[Key]], value: str, key: Key) -> None:
        keys = index.get(value, set())
        keys.discard(key)
        if not keys:
            index.pop(value, None)
