"""Tasks and TaskBatches of one namespace, for a program: submitted, followed, waited for, killed, removed.

One list-watch of the kind serves every follower. A name that is submitted anew is another object: who follows it is
told nothing of the old one. Made, used and closed inside one running loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import Any, ClassVar, Self
from urllib.parse import quote

from berth_core.errors import ApiError, ConflictError, ForbiddenError, StateError, TimeoutExpired, UnauthorizedError
from berth_core.model.names import check_label
from berth_core.model.resources import POD, TASK, TASK_BATCH, TASK_BATCH_SHARD, Resource
from berth_core.tasks import batch, batch_told, states, task, told
from berth_core.tasks.items import MOST_ITEMS
from berth_core.tasks.pods import read_pod
from berth_core.tasks.task import BATCH_LABEL, INDEX_LABEL, TASK_LABEL, TRY_LABEL
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.informer import Informer

Obj = dict[str, Any]
#: What is told of one, as the modules task_info and task_batch_info tell it.
Row = dict[str, Any]
#: An object as the watch told it, and whether it is deleted.
Told = tuple[Obj, bool]
#: How often a change is tried again because of another one.
TRIES = 10
#: Of a log at most so many bytes are read.
MOST_LOG = 1024 * 1024
LOG_SECONDS = 10.0


class _Submitted:
    """What both kinds have in common. ``labels``: only what these select is watched, and may be followed."""

    resource: ClassVar[Resource]
    fields: ClassVar[Mapping[str, str]]

    def __init__(self, client: KubeClient, namespace: str | None = None, *, labels: str | None = None) -> None:
        self.client, self.namespace = client, namespace or client.namespace
        check_label(self.namespace, "namespace")
        self._labels = labels
        self._informer = Informer(client, self.resource, self.namespace, labels=labels)
        self._followers: dict[str, set[asyncio.Queue[Told]]] = {}
        #: The object that was submitted last by each name: an older one in the cache is on its way out.
        self._uids: dict[str, str] = {}
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Watch from now on. Raises what the API server says to a list: ForbiddenError, UnavailableError."""
        await self.client.page(self.resource, self.namespace, labels=self._labels, limit=1)
        self._informer.on(self._tell, lambda _old, new: self._tell(new), self._gone)
        self._running = asyncio.create_task(self._informer.run())
        await self._informer.wait_synced()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Watch no more; what was submitted goes on."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    # -- to ask ------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        name: str,
        template: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        owners: Iterable[Mapping[str, Any]] = (),
        **options: Any,
    ) -> Row:
        """Submit it; the same once more changes nothing and tells what has become of it, other content changes it.

        With another template a new pod takes over where one runs (Updated); what is not given stays as it is.
        ``options`` are those of the module: queue, retries, retry_exit_codes, ... Raises InputError for what it cannot
        be, before the API server is asked; InvalidError for what cannot change; StateError where one of other content
        has ended, or is being killed.
        """
        spec = self._spec(template, options)
        self._check(name, spec)
        meta: Obj = {"name": name, "namespace": self.namespace, "labels": dict(labels or {})}
        meta["ownerReferences"] = [dict(one) for one in owners]
        body = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": meta, "spec": spec}
        try:
            live = await self.client.create(self.resource, body)
        except ConflictError:  # it is there; or the first try's answer was lost
            live = await self._changed(name, spec)
        self._uids[name] = str(live["metadata"]["uid"])
        return self._row(live)

    async def kill(self, name: str) -> Row:
        """Have its pods go; it does not come back. Raises NotFoundError."""
        body = {"spec": {"kill": True}}
        return self._row(await self.client.patch(self.resource, name, self.namespace, body))

    async def remove(self, name: str) -> bool:
        """Delete it with its pods, and what is known of its end; False where it is gone."""
        uid = self._uids.pop(name, None)
        return await self.client.delete(self.resource, name, self.namespace, uid=uid)

    # -- to know -----------------------------------------------------------------------------------------------------

    async def follow(self, name: str) -> AsyncGenerator[Row, None]:
        """Each change once, from what it is now to its end. Raises StateError where it is not there, or is deleted.

        Who is slow is told of what came meanwhile; of two changes in one moment the API server tells the second.
        """
        queue: asyncio.Queue[Told] = asyncio.Queue()
        self._followers.setdefault(name, set()).add(queue)
        try:
            live = await self._begin(name)
            uid, last = live["metadata"]["uid"], None
            while True:
                row, mark = self._row(live), self._mark(live)
                if mark != last:
                    last = mark
                    yield await self._whole(live) if row["state"] in states.FINAL else row
                if row["state"] in states.FINAL:
                    return
                live = await self._following(queue, name, uid)
        finally:
            mine = self._followers[name]
            mine.discard(queue)
            if not mine:
                del self._followers[name]

    async def wait(self, name: str, timeout: float | None = None) -> Row:
        """Its end, whatever it is: look at ``state``. Raises TimeoutExpired after so many seconds."""
        row: Row = {}
        try:
            async with asyncio.timeout(timeout), contextlib.aclosing(self.follow(name)) as changes:
                async for change in changes:
                    row = change
        except TimeoutError as exc:
            raise TimeoutExpired(f"waited {timeout:g} s for {self._who(name)} to end: it is {_far(row)}") from exc
        return row

    # -- inside ------------------------------------------------------------------------------------------------------

    def _spec(self, template: Mapping[str, Any], options: Mapping[str, Any]) -> Obj:
        unknown = sorted(options.keys() - self.fields.keys())
        if unknown:
            known = ", ".join(sorted(self.fields.keys() - {"template"}))
            raise TypeError(f"submit of a {self.resource.kind} has no option {unknown[0]}: it has {known}")
        given: dict[str, Any] = {**options, "template": dict(template)}
        return {self.fields[option]: value for option, value in given.items() if value is not None}

    def _check(self, name: str, spec: Obj) -> None:
        raise NotImplementedError

    def _row(self, live: Obj) -> Row:
        raise NotImplementedError

    def _mark(self, live: Obj) -> object:
        """What a change is a change of."""
        raise NotImplementedError

    async def _whole(self, live: Obj) -> Row:
        """The row of one that has ended."""
        return self._row(live)

    def _who(self, name: str) -> str:
        return f"{self.resource.kind} {self.namespace}/{name}"

    async def _changed(self, name: str, spec: Obj) -> Obj:
        """The one that is there, once it is what was submitted."""
        sent = json.loads(json.dumps(spec))  # a tuple is sent as a list
        for _try in range(TRIES):
            live = await self.client.get(self.resource, name, self.namespace)
            patch = merge_patch({field: live["spec"].get(field) for field in sent}, sent)
            if not patch:
                return live
            self._refuse_another(name, live, min(patch))
            seen = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
            try:
                return await self.client.patch(self.resource, name, self.namespace, {"metadata": seen, "spec": patch})
            except ConflictError:
                continue  # its status was written meanwhile: it may have ended
        raise StateError(f"{self._who(name)} changed {TRIES} times while it was submitted: submit it again")

    def _refuse_another(self, name: str, live: Obj, field: str) -> None:
        """What has ended stays what it was, and so does what is to end."""
        state = (live.get("status") or {}).get("state")
        if state in states.FINAL or live["spec"].get("kill"):
            how = state if state in states.FINAL else "being killed"
            raise StateError(
                f"{self._who(name)} is {how}, and was of another {field}: remove it first, or give this one another"
                " name"
            )

    async def _begin(self, name: str) -> Obj:
        live, uid = self._informer.get(name, self.namespace), self._uids.get(name)
        if live is None or uid not in (None, live["metadata"]["uid"]):
            live = await self.client.find(self.resource, name, self.namespace)
        if live is None:
            raise StateError(f"{self._who(name)} is not there: submit it first")
        return live

    async def _following(self, queue: asyncio.Queue[Told], name: str, uid: str) -> Obj:
        """What is known next of just this object."""
        while True:
            live, gone = await queue.get()
            if live["metadata"]["uid"] == uid:
                if gone:
                    raise StateError(f"{self._who(name)} was deleted before it ended")
                return live

    def _tell(self, live: Obj, gone: bool = False) -> None:
        for queue in self._followers.get(live["metadata"]["name"], ()):
            queue.put_nowait((live, gone))

    def _gone(self, live: Obj) -> None:
        meta = live["metadata"]
        if self._uids.get(meta["name"]) == meta["uid"]:
            del self._uids[meta["name"]]
        self._tell(live, gone=True)

    async def _log(self, labels: str, tail: int | None) -> str | None:
        """Of the newest of the pods that have these labels; None: there is none, or its node does not answer."""
        pods = (await self.client.list(POD, self.namespace, labels=labels)).items
        if not pods:
            return None
        newest = max(pods, key=lambda pod: int(pod["metadata"]["labels"].get(TRY_LABEL) or 0))
        lines = f"&tailLines={int(tail)}" if tail is not None else ""
        state = read_pod(newest)
        container = (state.details.container if state is not None else "") or newest["spec"]["containers"][0]["name"]
        path = f"{POD.path(newest['metadata']['name'], self.namespace, 'log')}?limitBytes={MOST_LOG}{lines}"
        path += f"&container={quote(container)}"
        try:
            return (await self.client.raw(path, timeout=LOG_SECONDS)).decode("utf-8", "replace")
        except (ForbiddenError, UnauthorizedError):
            raise
        except ApiError:
            return None


class Tasks(_Submitted):
    """Tasks: one pod template each, that runs to completion."""

    resource = TASK
    fields = task.FIELDS

    async def logs(self, name: str, tail: int | None = None) -> str:
        """The log of its newest pod, at most 1 MiB; where that is gone, the last lines that were kept."""
        found = await self._log(f"{TASK_LABEL}={name}", tail)
        if found is not None:
            return found
        live = await self.client.get(self.resource, name, self.namespace)
        return str(self._row(live)["log"] or "")

    def _check(self, name: str, spec: Obj) -> None:
        task.check_new(name, spec)

    def _row(self, live: Obj) -> Row:
        return told.told(live)

    def _mark(self, live: Obj) -> object:
        row = told.told(live)
        return row["state"], row["tries"], row["reason"]


class TaskBatches(_Submitted):
    """TaskBatches: many tasks of one template. Of one that has ended the row says which of them ended how."""

    resource = TASK_BATCH
    fields = batch.FIELDS

    async def submit(
        self,
        name: str,
        template: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        owners: Iterable[Mapping[str, Any]] = (),
        items: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Row:
        """As of a Task. ``items``: a list, a generator or an asynchronous one, read to its end before anything is sent.

        Of one that does not end no more is read than a batch may have, and it is refused.
        """
        listed = None if items is None else await _listed(items)
        return await super().submit(name, template, labels=labels, owners=owners, items=listed, **options)

    async def logs(self, name: str, index: int, tail: int | None = None) -> str:
        """The log of the newest pod of one of its tasks; where that is gone, what was kept if it has failed."""
        found = await self._log(f"{BATCH_LABEL}={name},{INDEX_LABEL}={int(index)}", tail)
        if found is not None:
            return found
        row = await self._whole(await self.client.get(self.resource, name, self.namespace))
        return next((str(one["log"] or "") for one in reversed(row["failures"]) if one["index"] == index), "")

    def _check(self, name: str, spec: Obj) -> None:
        batch.check_new(name, spec)

    def _row(self, live: Obj) -> Row:
        return batch_told.told(live, utc_now())

    def _mark(self, live: Obj) -> object:
        row = self._row(live)
        return row["state"], row["reason"], row["counts"]

    async def _whole(self, live: Obj) -> Row:
        name = live["metadata"]["name"]
        shards = await self.client.list(TASK_BATCH_SHARD, self.namespace, fields=f"batch={name}")
        return batch_told.told(live, utc_now(), shards.items)


async def _listed(items: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]]) -> list[Any]:
    """All of them, or one more than a batch may have."""
    if not isinstance(items, AsyncIterable):
        return list(itertools.islice(items, MOST_ITEMS + 1))
    found = []
    async for one in items:
        found.append(one)
        if len(found) > MOST_ITEMS:
            break
    return found


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Obj:
    """What a JSON merge patch has to say for ``old`` to become ``new``; empty where they are the same."""
    found: Obj = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_patch(before, value)
            found.update({name: inner} if inner else {})
        elif before != value:
            found[name] = value
    return found


def _far(row: Row) -> str:
    words = ", ".join(str(row[key]) for key in ("reason", "message") if row.get(key))
    return f"{row.get('state', 'not told of yet')}{words and f' ({words})'}"
