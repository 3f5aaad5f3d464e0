"""The objects that an informer has seen, by key and by index. Filled by informer.py; everybody may read.

What it gives out is the cache itself and is never changed by a reader. Waits for nothing and knows no API server.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Protocol

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
Indexer = Callable[[Obj], list[str]]


class Key(NamedTuple):
    """Where an object is. ``namespace`` is empty for kinds of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Mark(NamedTuple):
    """Which object it is, and of which version."""

    uid: str
    version: int


def key_of(item: Mapping[str, Any]) -> Key:
    """The key of an object of the API. Of the name of a namespace, which many have, there is one."""
    meta = item["metadata"]
    return Key(sys.intern(meta.get("namespace") or ""), meta["name"])


class Packing(Protocol):
    """How a cache keeps objects of which there are very many."""

    def pack(self, key: Key, item: Obj, before: Any) -> Any:
        """What is kept of an object. ``before``: what is kept of the one of that name so far, or None.

        May raise: the object is left out then.
        """

    def unpack(self, kept: Any) -> Obj:
        """As much of the object as readers want, at least namespace, name, uid and resourceVersion of its metadata."""


class Whole:
    """The objects themselves."""

    def pack(self, _key: Key, item: Obj, _before: Any) -> Any:
        """The object."""
        return item

    def unpack(self, kept: Any) -> Obj:
        """The object."""
        found: Obj = kept
        return found


class Store:
    """Objects of one kind. ``indexers``: name of an index -> the values under which an object is found there."""

    def __init__(self, indexers: Mapping[str, Indexer], packing: Packing | None = None) -> None:
        self._indexers = dict(indexers)
        self._packing: Packing = packing if packing is not None else Whole()
        self._kept: dict[Key, Any] = {}
        self._indexes: dict[str, dict[str, set[Key]]] = {name: {} for name in self._indexers}
        #: where those objects stand that stand anywhere: (index, value)
        self._places: dict[Key, list[tuple[str, str]]] = {}

    def get(self, key: Key) -> Obj | None:
        """The object, or None."""
        kept = self._kept.get(key)
        return None if kept is None else self._packing.unpack(kept)

    def kept(self, key: Key) -> Any:
        """What is kept of the object (`Packing`), or None."""
        return self._kept.get(key)

    def all_kept(self) -> list[Any]:
        """What is kept of every object."""
        return list(self._kept.values())

    def pack(self, key: Key, item: Obj) -> Any:
        """What is to be kept of an object."""
        return self._packing.pack(key, item, self._kept.get(key))

    def unpack(self, kept: Any) -> Obj:
        """The object of which that is kept."""
        return self._packing.unpack(kept)

    def all(self) -> list[Obj]:
        """Every object."""
        return [self._packing.unpack(kept) for kept in self._kept.values()]

    def keys(self) -> set[Key]:
        """Every key."""
        return set(self._kept)

    def marks(self) -> dict[Key, Mark]:
        """Which object has each key, and of which version it is."""
        metas = ((key, self._packing.unpack(kept)["metadata"]) for key, kept in self._kept.items())
        return {key: Mark(str(meta.get("uid")), int(meta.get("resourceVersion") or 0)) for key, meta in metas}

    def by_index(self, index: str, value: str) -> list[Obj]:
        """The objects that the indexer put under that value, sorted by key."""
        return [self._packing.unpack(self._kept[key]) for key in sorted(self._indexes[index].get(value, ()))]

    def put(self, key: Key, kept: Any) -> None:
        """Keep what `pack` has made of an object."""
        self._kept[key] = kept
        if self._indexers:
            self._place(key, self._values(self._packing.unpack(kept)))

    def remove(self, key: Key) -> Obj | None:
        """Forget the object; returns it."""
        old = self.get(key)
        self._kept.pop(key, None)
        self._place(key, [])
        return old

    def __len__(self) -> int:
        return len(self._kept)

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
