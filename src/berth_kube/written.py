"""What the API server has answered to own writes and questions, until the watches have told at least as much.

Asked by the caches of controller and scheduler, beside their informers. A watch may be far behind, and after a
restart of the API server even silent about what came and went meanwhile: nobody may act on what is known to be over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from berth_core.model.resources import Resource

from .store import Key, Mark, Obj, key_of

#: More objects than can end while one answer is under way.
BURIED = 10_000


class Written:
    """Versions of one kind are numbers that grow."""

    def __init__(self) -> None:
        self._objects: dict[tuple[Resource, Key], Obj] = {}
        #: what is known to be gone, as it was known last
        self._gone: dict[tuple[Resource, Key], Obj] = {}
        #: uid of what the watch has told to be gone: the version that the watch had come to by then
        self._buried: OrderedDict[str, int] = OrderedDict()
        #: what a history that is over has ended, until its kind is listed
        self._lapsed: list[tuple[Resource, Obj]] = []

    def put(self, resource: Resource, item: Obj) -> bool:
        """The object as it was answered. False: no news, as a later answer, or the watch with its end, was faster."""
        place = (resource, key_of(item))
        known = self._objects.get(place)
        overtaken = known is not None and _version(known) > _version(item)
        if overtaken or _version(item) < self._buried.get(item["metadata"]["uid"], -1):
            return False
        self._gone.pop(place, None)
        self._objects[place] = item
        return True

    def gone(self, resource: Resource, item: Obj) -> None:
        """The object is gone, whatever the cache says; nothing is kept where the watch has told so."""
        place = (resource, key_of(item))
        self._objects.pop(place, None)
        if item["metadata"]["uid"] not in self._buried:
            self._gone[place] = item

    def bury(self, resource: Resource, item: Obj, version: str) -> None:
        """The watch, which has come to that version, has told that the object is gone."""
        self._forget(resource, key_of(item))
        self._buried[item["metadata"]["uid"]] = max(_version(item), int(version or 0))
        while len(self._buried) > BURIED:
            self._buried.popitem(last=False)

    def listed(self, resource: Resource, there: Mapping[Key, Mark], version: str) -> list[Obj]:
        """A full list of that version has these. It ends what was answered before; returns that of which nobody tells.

        What it does not have is gone, and no watch will say so: the caller does. In a cluster whose etcd was restored
        from a backup, with a revision that was raised, what it has may be older than the answer, and what was known to
        be gone is back.
        """
        lapsed = [item for kind, item in self._lapsed if kind == resource]
        self._lapsed = [one for one in self._lapsed if one[0] != resource]
        last = int(version or 0)
        over = [item for place, item in self._objects.items() if place[0] == resource and _version(item) <= last]
        back = [item for place, item in self._gone.items() if place[0] == resource]
        for item in (*over, *back):
            self._forget(resource, key_of(item))
        for mark in there.values():
            self._buried.pop(mark.uid, None)
        untold = [item for item in over if not _is_told(item, there, _version(item))]
        # Of a history that is over the list is told whole.
        return [*(item for item in lapsed if not _is_told(item, there, 0)), *untold, *back]

    def rewound(self, resource: Resource) -> list[Key]:
        """The API server's history has gone back behind these answers: none of them holds. Returns the dropped keys.

        The list that has shown it is told next, and ends them.
        """
        over = [key for kind, key in self._objects if kind == resource]
        places = [*((resource, key) for key in over), *(place for place in self._gone if place[0] == resource)]
        self._lapsed += [(resource, self._objects.get(place) or self._gone[place]) for place in places]
        for place in places:
            self._forget(*place)
        self._buried.clear()
        return over

    def newest(self, resource: Resource, key: Key, cached: Obj | None) -> Obj | None:
        """The newer of what the cache has and what was answered."""
        place = (resource, key)
        if cached is not None and place in self._gone:
            if self._gone[place]["metadata"]["uid"] == cached["metadata"]["uid"]:
                return None
            del self._gone[place]
        mine = self._objects.get(place)
        if mine is None:
            return cached
        if cached is not None and _version(cached) >= _version(mine):
            del self._objects[place]
            return cached
        return mine

    def _forget(self, resource: Resource, key: Key) -> None:
        """The cache knows as much."""
        self._objects.pop((resource, key), None)
        self._gone.pop((resource, key), None)


def _is_told(item: Obj, there: Mapping[Key, Mark], version: int) -> bool:
    """Whether the list has that object, in this version or a later one: the cache's handlers have been told so."""
    mark = there.get(key_of(item))
    return mark is not None and mark.uid == item["metadata"]["uid"] and mark.version >= version


def is_last(item: Obj) -> bool:
    """Whether this answer is the last that is heard of the object: nobody holds it back any more."""
    meta = item["metadata"]
    return bool(meta.get("deletionTimestamp")) and not meta.get("finalizers")


def _version(item: Obj) -> int:
    return int(item["metadata"]["resourceVersion"])
