"""Batches: the elements of TaskBatches as tasks, and what became of them, written together.

An element has no object of its own. What is recorded of many within a moment goes into a TaskBatchShard by one write,
by compare-and-swap, before their pods are deleted; the TaskBatch's own status says how many there are of which end, and
follows.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from berth_core.errors import BerthError, ConflictError, InputError, NotFoundError
from berth_core.model.resources import TASK_BATCH, TASK_BATCH_SHARD
from berth_core.tasks import states
from berth_core.tasks.batch import IN_SHARD, Batch, read_batch
from berth_core.tasks.pods import PodState, element_name
from berth_core.tasks.progress import Progress, Record, Told
from berth_core.tasks.task import Status, Task
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.informer import Informer, pause

from .backend import KubernetesTaskSchedulerBackend
from .held_up import Held

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
Key = tuple[str, str]
#: What ends within so many seconds is recorded together.
GATHER = 0.2
#: The TaskBatch's own status is written no more often, but for its end.
STATUS_SECONDS = 1.0
#: Of a failure's words and log so many characters are kept.
LONGEST_MESSAGE, LONGEST_LOG = 256, 1024


class Book:
    """One TaskBatch: what is recorded, what is about to be, and what its status said last."""

    def __init__(self, batch: Batch) -> None:
        self.progress = Progress(batch)
        self.versions: dict[int, str] = {}
        self.pending: dict[int, tuple[Record, Told | None]] = {}
        self.waits = ("", "")
        #: What elements say whose pod does not go on.
        self.held_up: dict[int, Held] = {}
        self.refused = ""
        self.stopped = False
        self.began = ""
        self.written: Obj | None = None
        self.written_at = 0.0
        #: The version of the object with that status, and the newest one that was seen, with its status.
        self.version = 0
        self.seen: tuple[int, Obj] = (0, {})

    @property
    def batch(self) -> Batch:
        return self.progress.batch

    def stops(self) -> str:
        return "TemplateRejected" if self.refused else self.progress.stops()

    @property
    def overwritten(self) -> bool:
        """Whether somebody wrote another status later: who led before may have had one on its way."""
        version, status = self.seen
        return (
            self.written is not None
            and version > self.version
            and any(status.get(key) != self.written[key] for key in ("state", "counts"))
        )

    def status(self, running: int) -> Obj:
        """What the TaskBatch's status is to say."""
        progress, (reason, message) = self.progress, self.waits
        if not reason and self.held_up:
            reason, one = min(self.held_up.values())
            alike = sum(held.reason == reason for held in self.held_up.values())
            message = f"{alike} of its tasks: {one}"
        state = progress.state(bool(running))
        if state in states.FINAL:
            reason, message = "", ""
        if self.stops():
            reason, message = self.stops(), self.refused
        counts = {one.lower(): count for one, count in progress.counts.items()}
        return {
            "state": state,
            "counts": {
                **counts,
                "left": self.batch.size - progress.ended,
                "running": 0 if state in states.FINAL else running,
            },
            "reasons": progress.reasons(),
            "reason": reason or None,
            "message": message[:1024] or None,
            "observedGeneration": self.batch.generation,
        }


class Batches:
    """Made inside a running loop."""

    def __init__(self, client: KubeClient, backend: KubernetesTaskSchedulerBackend) -> None:
        self._client, self._backend = client, backend
        self._batches, self._shards = Informer(client, TASK_BATCH), Informer(client, TASK_BATCH_SHARD)
        self._books: dict[Key, Book] = {}
        self._unreadable: dict[Key, tuple[Obj, str]] = {}
        self._due = asyncio.Event()
        self._failures = 0
        self._wake: Callable[[Key], None] | None = None
        self._ended: Callable[[Task, Record], None] = lambda _task, _record: None
        backend.allocations.has_pod = self._has_pod

    def load(self) -> None:
        """Both kinds are listed: every batch goes on from its shards. Before the pods are."""
        for obj in self._batches.all():
            self._changed(obj)

    def begin(self, wake: Callable[[Key], None], ended: Callable[[Task, Record], None]) -> None:
        """Follow changes. ``wake``: an element is to be looked at; ``ended``: a final record was written."""
        self._wake, self._ended = wake, ended
        for book in self._books.values():
            self._look(book, again=True)
        self._batches.on(self._changed, lambda _old, new: self._changed(new), self._gone)

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._batches.run(), self._shards.run(), self._write())

    async def wait_synced(self) -> None:
        """Until both kinds were listed."""
        await asyncio.gather(self._batches.wait_synced(), self._shards.wait_synced())

    async def _write(self) -> None:
        while True:
            await self._due.wait()
            await asyncio.sleep(GATHER)
            self._due.clear()
            left = await asyncio.gather(*(self._written(book) for book in list(self._books.values())), self._refused())
            if not all(left):
                self._failures += 1
                await asyncio.sleep(pause(self._failures, random.random()))  # noqa: S311 - not all at one moment
                self._due.set()
            else:
                self._failures = 0

    def by_state(self) -> Counter[tuple[str, str, str]]:
        """Elements by their state, as metrics have it."""
        found: Counter[tuple[str, str, str]] = Counter()
        running = Counter(uid.rpartition(".")[0] for uid, _number in self._backend.account.entries())
        for book in self._books.values():
            batch, progress = book.batch, book.progress
            left = batch.size - progress.ended
            counts = {**progress.counts, states.RUNNING: min(left, running[batch.uid])}
            counts[states.SUBMITTED] = left - counts[states.RUNNING]
            found.update({(batch.namespace, batch.queue, state): count for state, count in counts.items() if count})
        return found

    # -- for the lifecycle -----------------------------------------------------------------------------------------

    def task(self, key: Key) -> Task | None:
        """The element of that name; None: there is none."""
        book, index = self._find(key)
        return None if book is None else book.batch.element(index, book.progress.status(index), bool(book.stops()))

    def record(self, task: Task, status: Status, told: Obj) -> None:
        """The status of an element, to be written with others; the element is looked at again afterwards."""
        book, index = self._of(task)
        if book is None or index in book.pending:
            return
        book.held_up.pop(index, None)
        record = Record(status.state, status.reason[:64], status.tries, status.failures, told.get("exitCode"))
        words = None
        if status.state == states.FAILED:
            log = str(told.get("log") or "")[-LONGEST_LOG:]
            words = Told(
                index, str(told.get("pod") or ""), str(told.get("node") or ""), status.message[:LONGEST_MESSAGE], log
            )
        book.pending[index] = (record, words)
        self._due.set()

    def waits(self, task: Task, reason: str, message: str) -> None:
        """Why an element does not start: the batch says it once."""
        book, _index = self._of(task)
        if book is not None and book.waits != (reason, message):
            book.waits = (reason, message)
            self._due.set()

    def started(self, key: Key) -> None:
        """A pod was made for the element: what kept its batch does not do so any more."""
        book, _index = self._find(key)
        if book is not None and book.waits[0]:
            book.waits = ("", "")
            self._due.set()

    def held_up(self, task: Task, held: Held) -> None:
        """What holds an element's pod up, or that nothing does."""
        book, index = self._of(task)
        if book is not None and book.held_up.get(index, Held()) != held:
            book.held_up[index] = held
            if not held.reason:
                del book.held_up[index]
            self._due.set()

    def refuse(self, task: Task, message: str) -> None:
        """The API server does not take the template: no element is started any more."""
        book, _index = self._of(task)
        if book is not None and not book.refused:
            book.refused = message
            self._look(book)

    def _find(self, key: Key) -> tuple[Book | None, int]:
        namespace, name = key
        batch, _bracket, rest = name.partition("[")
        book = self._books.get((namespace, batch))
        if book is None or not rest[:-1].isdecimal() or int(rest[:-1]) >= book.batch.size:
            return None, -1
        return book, int(rest[:-1])

    def _of(self, task: Task) -> tuple[Book | None, int]:
        if task.element is None:
            return None, -1
        book = self._books.get((task.namespace, task.element.batch))
        return (book if book is not None and book.batch.uid == task.element.batch_uid else None), task.element.index

    def _has_pod(self, pod: PodState) -> None:
        book, index = self._find(pod.task_key)
        if book is not None and pod.task_uid == book.batch.uid_of(index):
            book.progress.begin(index)
            self._look(book)

    # -- batches come and go ---------------------------------------------------------------------------------------

    def _changed(self, obj: Obj) -> None:
        meta = obj["metadata"]
        key = (meta["namespace"], meta["name"])
        book = self._books.get(key)
        if book is not None and _as_read(book.batch, meta):
            book.seen = int(meta["resourceVersion"]), obj.get("status") or {}
            if book.overwritten:
                self._due.set()
            return  # the daemon's own write of its status: to read ten thousand items again takes a tenth of a second
        try:
            batch = read_batch(obj)
        except InputError as exc:
            if (obj.get("status") or {}).get("state") not in states.FINAL:
                _log.info("TaskBatch %s/%s cannot be carried out: %s", *key, exc.message)
                self._unreadable[key] = (meta, exc.message)
                self._due.set()
            return
        if book is None or book.batch.uid != batch.uid:
            book = self._books[key] = self._book(batch, obj)
        book.progress.batch = batch
        self._backend.know_batch(batch, lambda: book.progress.ended)
        self._due.set()
        self._look(book, again=True)

    def _book(self, batch: Batch, obj: Obj) -> Book:
        """A batch as its shards tell of it."""
        book = Book(batch)
        book.began = str((obj.get("status") or {}).get("startedAt") or "")
        for number in range(batch.shards):
            shard = self._shards.get(f"{batch.name}-{number}", batch.namespace)
            if shard is not None:
                self._take_over(book, number, shard)
        return book

    def _take_over(self, book: Book, number: int, shard: Obj) -> None:
        owners = shard["metadata"].get("ownerReferences") or [{}]
        if owners[0].get("uid") != book.batch.uid:  # of an earlier batch of this name, on its way out
            return
        try:
            book.progress.read(shard)
        except InputError as exc:
            _log.error("%s; what it told of is carried out again", exc.message)
        book.versions[number] = shard["metadata"]["resourceVersion"]

    def _gone(self, obj: Obj) -> None:
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        book = self._books.pop(key, None)
        if book is not None:
            self._backend.forget(book.batch.uid)
            self._visit(book.batch, book.progress.opened)

    def _look(self, book: Book, *, again: bool = False) -> None:
        """What may start since the last time is visited; all that may, again, or once in a batch that stops."""
        if self._wake is None:  # the pods that are there have yet to say which elements have begun
            return
        if book.stops() and not book.stopped:
            self._stop(book)
            again = True
        more = book.progress.open()
        self._visit(book.batch, list(book.progress.opened) if again else more)

    def _visit(self, batch: Batch, which: Iterable[int]) -> None:
        for index in which:
            if self._wake is not None:
                self._wake((batch.namespace, element_name(batch.name, index)))

    def _stop(self, book: Book) -> None:
        """Elements that have no pod end now, all at once; the others by their own life."""
        book.stopped, why, opened = True, book.stops(), book.progress.opened
        state = states.KILLED if why == "Killed" else states.FAILED
        for index in range(book.batch.size):
            if index not in opened and index not in book.pending and not book.progress.status(index).final:
                book.pending[index] = (Record(state, why), None)
        self._due.set()

    # -- writes ----------------------------------------------------------------------------------------------------

    async def _written(self, book: Book) -> bool:
        """Whether everything that was to be told is told."""
        try:
            for number in sorted({index // IN_SHARD for index in book.pending}):
                await self._write_shard(book, number)
            return await self._write_status(book)
        except NotFoundError:
            return True  # the batch was deleted meanwhile
        except BerthError as exc:
            if not self._failures:
                _log.warning("%s; trying again until it works", exc.message)
            return False

    async def _write_shard(self, book: Book, number: int) -> None:
        batch = book.batch
        mine = {index: what for index, what in book.pending.items() if index // IN_SHARD == number}
        more = {index: record for index, (record, _told) in mine.items()}
        body = book.progress.shard(number, more, [told for _record, told in mine.values() if told is not None])
        name = f"{batch.name}-{number}"
        try:
            if number in book.versions:
                meta: Obj = {"resourceVersion": book.versions[number]}
                made = await self._client.patch(TASK_BATCH_SHARD, name, batch.namespace, {"metadata": meta, **body})
            else:
                owner = {"apiVersion": "berth.dev/v1alpha1", "kind": "TaskBatch", "name": batch.name, "uid": batch.uid}
                meta = {"name": name, "namespace": batch.namespace, "ownerReferences": [{**owner, "controller": True}]}
                kind = {"apiVersion": TASK_BATCH_SHARD.api_version, "kind": TASK_BATCH_SHARD.kind}
                made = await self._client.create(TASK_BATCH_SHARD, {**kind, "metadata": meta, **body})
        except ConflictError:
            # Who led before has written it last: its records count, and what is pending is added to them.
            self._take_over(book, number, await self._client.get(TASK_BATCH_SHARD, name, batch.namespace))
            raise
        book.versions[number] = made["metadata"]["resourceVersion"]
        self._recorded(book, mine)

    def _recorded(self, book: Book, mine: dict[int, tuple[Record, Told | None]]) -> None:
        batch = book.batch
        for index, (record, told) in mine.items():
            opened = index in book.progress.opened
            del book.pending[index]
            for other, following in book.progress.put(index, record, told).items():
                book.pending.setdefault(other, (following, None))
                self._due.set()
            task = batch.element(index, book.progress.status(index), False)
            if record.final:
                self._ended(task, record)
            if opened:  # any other has no pod
                self._visit(batch, (index,))
        self._look(book)

    async def _refused(self) -> bool:
        """Say of those that cannot be read that they are not carried out."""
        for key, (meta, message) in list(self._unreadable.items()):
            status = {"state": states.FAILED, "reason": "InvalidTask", "message": message[:1024]}
            body = {"metadata": {"resourceVersion": meta["resourceVersion"], "uid": meta["uid"]}, "status": status}
            try:
                await self._client.patch(TASK_BATCH, key[1], key[0], body, subresource="status")
            except (ConflictError, NotFoundError):
                _log.debug("TaskBatch %s/%s is another one by now", *key)
            except BerthError as exc:
                _log.warning("%s; trying again until it works", exc.message)
                return False
            del self._unreadable[key]
        return True

    async def _write_status(self, book: Book) -> bool:
        batch = book.batch
        status = book.status(self._backend.running_of(batch))
        if status == book.written and not book.overwritten:
            return True
        final = status["state"] in states.FINAL
        if not final and time.monotonic() - book.written_at < STATUS_SECONDS:
            asyncio.get_running_loop().call_later(STATUS_SECONDS, self._due.set)
            return True
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        if not book.began and status["state"] != states.SUBMITTED:
            book.began = now
        times = {"startedAt": book.began or None, **({"finishedAt": now} if final else {})}
        body = {"metadata": {"uid": batch.uid}, "status": {**status, **times}}
        made = await self._client.patch(TASK_BATCH, batch.name, batch.namespace, body, subresource="status")
        book.written, book.written_at = status, time.monotonic()
        book.version = int(made["metadata"]["resourceVersion"])
        return True


def _as_read(batch: Batch, meta: Obj) -> bool:
    """Whether the object asks for the same as the batch that was read of it."""
    going = meta.get("deletionTimestamp") is not None
    return (batch.uid, batch.generation, batch.going) == (meta.get("uid"), meta.get("generation") or 0, going)
