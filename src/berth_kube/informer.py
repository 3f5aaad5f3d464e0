"""List-watch of one kind into a cache, for as long as the daemon runs, whatever the API server does meanwhile.

    disks = Informer(client, LOCAL_DISK, fields="spec.nodeName=h1", indexers={"class": lambda disk: [...]})
    disks.on(update=lambda old, new: queue.add(key_of(new)))
    task = asyncio.create_task(disks.run())
    await disks.wait_synced()

Handlers are called in the order of the events and must not wait: they put keys into a queue. Every change of an object
reaches a handler, or is folded into a later one; a deletion that happened while nobody watched is found by the next
list. An object that was replaced by another of its name is told as a deletion and an addition.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from berth_core.errors import BerthError, GoneError, NotFoundError
from berth_core.model.resources import Resource

from .client import KubeClient
from .reading import PAGE
from .store import Indexer, Key, Obj, Packing, Store, key_of
from .watch import Decode, Event

_log = logging.getLogger(__name__)

#: A watch lives so long, up to twice that by chance: not all daemons come back at one moment.
WATCH_SECONDS = 300.0
FIRST_PAUSE = 0.8
LONGEST_PAUSE = 30.0
#: A watch that ends sooner and has told nothing is a fault, not an end.
SHORT_WATCH = 1.0


class Handler(NamedTuple):
    """What somebody wants to be told."""

    add: Callable[[Obj], None] | None
    update: Callable[[Obj, Obj], None] | None
    delete: Callable[[Obj], None] | None
    fill: Callable[[list[Obj]], None] | None = None
    listed: Callable[[], None] | None = None
    rewound: Callable[[], None] | None = None


def pause(failures: int, chance: float) -> float:
    """Seconds before the try after so many failures in a row (1: the first); ``chance`` in [0, 1)."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** min(failures - 1, 16))) * (1.0 + chance)


class Informer:
    """One kind, perhaps of one namespace or of what the selectors choose. Made inside a running loop.

    ``transform`` sees each object before it is kept: it may drop fields, return another object, or None to leave it
    out. ``optional``: an API server that does not serve the kind has none of it, and is asked again from time to time.
    ``decode`` reads the watch's events and ``decode_list`` pages of lists (json_fast.py's may leave out what the
    transform drops); ``look_after`` is that of `KubeClient.watch`. ``chance`` gives numbers in [0, 1). managedFields
    are never kept. ``packing``: how objects are kept, instead of as they are; readers and handlers are given as much of
    them as it unpacks.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        transform: Callable[[Obj], Obj | None] | None = None,
        packing: Packing | None = None,
        indexers: Mapping[str, Indexer] | None = None,
        limit: int = PAGE,
        watch_seconds: float = WATCH_SECONDS,
        optional: bool = False,
        decode: Decode | None = None,
        decode_list: Decode | None = None,
        look_after: float = 0.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client, self.resource, self._limit = client, resource, limit
        self._select: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._transform, self._watch_seconds, self._chance = transform, watch_seconds, chance
        self._optional = optional
        self._reading: dict[str, Any] = {"decode": decode, "look_after": look_after}
        self._listing: dict[str, Any] = {**self._select, "decode": decode_list}
        self._loop = asyncio.get_running_loop()
        self._synced = asyncio.Event()
        self._handlers: list[Handler] = []
        self._version = ""
        self._failures = 0
        self._rewound = False
        self.store = Store(indexers or {}, packing)
        #: full lists so far: 1 in a good life
        self.lists = 0

    # -- for readers -----------------------------------------------------------------------------------------------

    def on(
        self,
        add: Callable[[Obj], None] | None = None,
        update: Callable[[Obj, Obj], None] | None = None,
        delete: Callable[[Obj], None] | None = None,
        fill: Callable[[list[Obj]], None] | None = None,
        listed: Callable[[], None] | None = None,
        rewound: Callable[[], None] | None = None,
    ) -> None:
        """Call these from now on; what is in the cache already is told as additions.

        ``fill``: takes what an empty cache is filled with at once, in the place of as many additions. ``listed``: the
        cache is what a full list has; what came and went since the last watch was told to nobody. ``rewound``: the API
        server's history has gone back, as etcd was restored from a backup; it is called before what differs is told.
        """
        self._handlers.append(Handler(add, update, delete, fill, listed, rewound))
        if add is not None:
            for kept in self.store.all_kept():  # unpacked one by one: of some kinds there are very many
                self._guard(add, self.store.unpack(kept))

    @property
    def synced(self) -> bool:
        """True once the first list is in the cache, and all its handlers have been called."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """The resource version that list and watch have come to; a handler sees that of the event it is told."""
        return self._version

    async def wait_synced(self) -> None:
        """Until `synced`."""
        await self._synced.wait()

    def get(self, name: str, namespace: str | None = None) -> Obj | None:
        """The object as last seen, or None. Never to be changed."""
        return self.store.get(Key(namespace or "", name))

    def kept(self, name: str, namespace: str | None = None) -> Any:
        """What the packing has made of the object as last seen, or None."""
        return self.store.kept(Key(namespace or "", name))

    def all(self) -> list[Obj]:
        """Every object as last seen."""
        return self.store.all()

    def by_index(self, index: str, value: str) -> list[Obj]:
        """The objects under that value of an index, sorted by key."""
        return self.store.by_index(index, value)

    def settle(self, answer: Obj) -> None:
        """Tell of an object that a request has answered, and that the last list has otherwise, or not at all.

        Whoever keeps such answers calls this when a list ends one (`Written.listed`): of what came and went while
        nobody watched no event tells, and somebody may wait for its end. A handler sees the answer's own version.
        """
        key, meta = key_of(answer), answer["metadata"]
        there, come_to = self.store.get(key), self._version
        self._version = str(meta["resourceVersion"])
        for handler in self._handlers:
            if there is not None and there["metadata"].get("uid") == meta["uid"]:
                self._guard(handler.update, answer, there)
            else:
                self._guard(handler.delete, answer)
        self._version = come_to

    # -- the life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch until the task is cancelled. Nothing that the API server does ends it."""
        while True:
            await self._once()

    async def _once(self) -> None:
        try:
            if self._version and self._failures:
                await self._same_history()
            if not self._version:
                await self._list()
            await self._watch()
        except GoneError as exc:  # too far behind
            _log.info("%s: %s; listing again", self.resource.plural, exc.message)
            self._version = ""
            await self._failed()
        except BerthError as exc:
            if self._optional and isinstance(exc, NotFoundError):
                self._not_served()
            elif self._failures == 0:
                _log.warning("%s; trying again until it works", exc.message)
            await self._failed()
        except (
            KeyError,
            TypeError,
            AttributeError,
            ValueError,
        ):  # an answer that is no list, an event without an object
            _log.exception("%s: the API server's answer is not understood; listing again", self.resource.plural)
            self._version = ""
            await self._failed()

    def _not_served(self) -> None:
        if not self.synced:
            _log.info("%s: the API server does not serve them", self.resource.plural)
        self._version = ""
        self._replace({})
        self._synced.set()

    async def _failed(self) -> None:
        self._failures += 1
        await asyncio.sleep(pause(self._failures, self._chance()))

    def _worked(self) -> None:
        if self._failures > 1:
            _log.info("%s: the API server answers again after %d tries", self.resource.plural, self._failures)
        self._failures = 0

    async def _same_history(self) -> None:
        """List again where the API server has not come as far as the cache has: its etcd was restored from a backup.

        A watch from a version that is to come is accepted, and silent about everything until then.
        """
        page = await self._client.page(self.resource, limit=1, **self._listing)
        if int(page.version or 0) < int(self._version):
            told = f"the API server is at version {page.version}, and had come to {self._version}"
            _log.warning("%s: %s; listing again", self.resource.plural, told)
            self._version, self._rewound = "", True

    async def _list(self) -> None:
        """Read everything; tell what differs from the cache."""
        seen: dict[Key, Any] = {}
        try:
            version = await self._read_pages(seen)
        except GoneError:  # took longer than the server remembers: once more, in one go
            seen = {}
            page = await self._client.page(self.resource, limit=0, **self._listing)
            version = page.version
            self._keep(page.items, seen)
        self.lists += 1
        self._version = version
        rewound = self._rewound or self._is_older(seen)
        if rewound:
            for handler in self._handlers:
                self._guard(handler.rewound)
            self._rewound = False
        self._replace(seen, anew=rewound)
        for handler in self._handlers:
            self._guard(handler.listed)
        self._worked()
        self._synced.set()

    async def _read_pages(self, seen: dict[Key, Any]) -> str:
        """Keep what is listed. Returns the version."""
        version, pages = "", self._client.pages(self.resource, limit=self._limit, **self._listing)
        try:
            async for page in pages:
                version = version or page.version
                self._keep(page.items, seen)
                page.items.clear()  # what is kept of them may be little, and the next page comes
        finally:
            await pages.aclose()
        return version

    def _is_older(self, seen: dict[Key, Any]) -> bool:
        """Whether an object of the list is as it was before the informer saw it last.

        So it is after a restore that has raised the revision, as it should be: the list's own version has grown.
        """
        for key, kept in seen.items():
            old = self.store.get(key)
            if old is None:
                continue
            now = self.store.unpack(kept)["metadata"]
            if old["metadata"].get("uid") != now.get("uid"):
                continue
            if int(old["metadata"].get("resourceVersion") or 0) > int(now.get("resourceVersion") or 0):
                told = f"{key} is of version {now['resourceVersion']}, and was of {old['metadata']['resourceVersion']}"
                _log.warning("%s: %s: etcd was restored from a backup", self.resource.plural, told)
                return True
        return False

    def _keep(self, items: list[Obj], seen: dict[Key, Any]) -> None:
        for item in items:
            key = key_of(item)
            kept = self._reduced(key, item)
            if kept is not None:
                seen[key] = kept

    def _replace(self, seen: dict[Key, Any], *, anew: bool = False) -> None:
        """``anew``: a version stands for something else than it did, so that all are told."""
        for key in sorted(self.store.keys() - seen.keys()):
            self._forget(key)
        if not len(self.store) and any(handler.fill is not None for handler in self._handlers):
            self._fill(seen)
            return
        for key, kept in seen.items():
            self._put(key, kept, anew=anew)

    def _fill(self, seen: dict[Key, Any]) -> None:
        """Keep the first list, and tell it as a whole to whoever takes it so."""
        for key, kept in seen.items():
            self.store.put(key, kept)
        items = self.store.all()
        for handler in self._handlers:
            if handler.fill is None or not self._filled(handler.fill, items):
                for item in items:
                    self._guard(handler.add, item)

    def _filled(self, fill: Callable[[list[Obj]], None], items: list[Obj]) -> bool:
        """False: it failed, and gets them one by one, so that one object does not hide all others."""
        try:
            fill(items)
        except Exception:  # noqa: BLE001 - a handler's fault is its own
            _log.exception("a handler of %s failed on a list; it is told of each", self.resource.plural)
            return False
        return True

    async def _watch(self) -> None:
        seconds = self._watch_seconds * (1.0 + self._chance())
        began, told = self._loop.time(), False
        asked = {**self._select, **self._reading, "seconds": seconds}
        async with self._client.watch(self.resource, self._version, **asked) as events:
            async for event in events:
                self._take(event)
                told = True
                self._worked()
        if not told and self._loop.time() - began < SHORT_WATCH:
            await self._failed()

    def _take(self, event: Event) -> None:
        if event.version:
            self._version = event.version
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            event.object.setdefault("apiVersion", self.resource.api_version)
            event.object.setdefault("kind", self.resource.kind)
            key = key_of(event.object)
            kept = None if event.type == "DELETED" else self._reduced(key, event.object)
            if kept is None:
                self._forget(key)
            else:
                self._put(key, kept)

    def _reduced(self, key: Key, item: Obj) -> Any:
        """What is to be kept of it; None: nothing."""
        item["metadata"].pop("managedFields", None)
        try:
            left = item if self._transform is None else self._transform(item)
            return None if left is None else self.store.pack(key, left)
        except Exception:  # noqa: BLE001 - one object that nobody expected must not hide all others
            _log.exception("%s %s is left out: it cannot be read", self.resource.kind, key)
            return None

    def _put(self, key: Key, kept: Any, *, anew: bool = False) -> None:
        old, item = self.store.get(key), self.store.unpack(kept)
        new_meta = item["metadata"]
        if old is not None and old["metadata"].get("uid") != new_meta.get("uid"):
            self._forget(key)
            old = None
        if not anew and old is not None and old["metadata"].get("resourceVersion") == new_meta.get("resourceVersion"):
            return
        self.store.put(key, kept)
        for handler in self._handlers:
            if old is None:
                self._guard(handler.add, item)
            else:
                self._guard(handler.update, old, item)

    def _forget(self, key: Key) -> None:
        old = self.store.remove(key)
        if old is not None:
            for handler in self._handlers:
                self._guard(handler.delete, old)

    def _guard(self, call: Callable[..., None] | None, *args: Obj) -> None:
        """A handler's fault is its own: the cache goes on."""
        if call is None:
            return
        try:
            call(*args)
        except Exception:  # noqa: BLE001 - see above
            about = key_of(args[-1]) if args else "a list"
            _log.exception("a handler of %s failed on %s", self.resource.plural, about)
