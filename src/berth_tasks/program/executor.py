"""TaskExecutor: concurrent.futures, with a Task for each call. Its own thread talks to the API server, and to pods.

At most ``max_workers`` Tasks are there at one time; what else was submitted waits in this process, so that a map over
thousands of items asks the API server for no more at once. How calls and results travel: decision 60.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from berth_core.errors import BerthError, InputError, StateError, TaskError
from berth_core.model.names import check_label
from berth_core.tasks.task import GROUP
from berth_kube import config
from berth_kube.client import KubeClient

from . import calls, pod
from .results import Endpoint, Results
from .submitted import Row, Tasks
from .tokens import Tokens

_log = logging.getLogger(__name__)

T = TypeVar("T")
#: All that belongs to one executor has this label, with its name.
LABEL = f"{GROUP}/executor"
_LONGEST_NAME = 36


class TaskFuture(concurrent.futures.Future[T]):
    """``cancel`` kills the Task, also one that runs. ``task``: its name, once it is submitted."""

    task = ""

    def running(self) -> bool:
        """Whether its Task is submitted, and has not ended."""
        return bool(self.task) and not self.done()


class _Work(NamedTuple):
    future: TaskFuture[Any]
    call: str


class _Each:
    """Many calls of one function in one Task."""

    def __init__(self, function: Callable[..., Any] | str) -> None:
        self.function = function

    def __call__(self, *_args: Any) -> list[Any]:
        raise NotImplementedError("it is a mark, for submit")


class _Ground(NamedTuple):
    """What a Task needs: who submits it, and who takes its result."""

    tasks: Tasks
    results: Results | None
    tokens: Tokens | None


class TaskExecutor(concurrent.futures.Executor):
    """Functions of an image, run as Tasks of its pods; use it by ``with``, as any other executor.

    ``template``: the pod template; its first container has the image, and no command. ``arguments``: "json", or by name
    "pickle". ``exceptions``: classes that `Future.exception` may have beside the built-in ones. ``endpoint``: where
    pods send results, of more than 4 KiB too. ``options`` are those of a Task: queue, priority, retries, ... Raises
    what the API server says to it (ForbiddenError, UnavailableError), and before that InputError for what is wrong.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        *,
        max_workers: int = 16,
        kubeconfig: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        arguments: str = "json",
        exceptions: Iterable[type[Exception]] = (),
        endpoint: Endpoint | None = None,
        python: str = "python3",
        **options: Any,
    ) -> None:
        pod.check(template)
        if arguments not in calls.ENCODINGS:
            raise InputError(f"arguments is {arguments!r}: expected {' or '.join(calls.ENCODINGS)}")
        if max_workers < 1:
            raise InputError(f"max_workers is {max_workers}: expected 1 or more")
        self.name = name or f"py-{secrets.token_hex(4)}"
        check_label(self.name, "name")
        if len(self.name) > _LONGEST_NAME:
            raise InputError(f"name is {self.name!r}: expected at most {_LONGEST_NAME} characters")
        self._template, self._options, self._python = template, options, python
        self._arguments, self._endpoint, self._most = arguments, endpoint, max_workers
        self._exceptions = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in exceptions}
        self._config, self._namespace = config.load(kubeconfig), namespace
        #: An earlier program of this name may have left Tasks.
        self._names = (f"{self.name}-{secrets.token_hex(3)}-{number}" for number in itertools.count(1))
        self._lock = threading.Lock()
        self._open: set[TaskFuture[Any]] = set()
        self._closed = False
        self._failures: list[BaseException] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failures:
            raise self._failures[0]

    # -- concurrent.futures ----------------------------------------------------------------------------------------

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> TaskFuture[Any]:
        """Run ``fn(*args, **kwargs)`` in a pod. ``fn`` may be the text ``module:name``, of what only the image has.

        Raises InputError at once for what cannot travel: no import path, an argument that JSON has not, too many bytes.
        """
        many = isinstance(fn, _Each)
        path = calls.import_path(fn.function if many else fn)
        each: list[calls.Arguments] = [(one, {}) for one in args[0]] if many else [(args, kwargs)]
        call = calls.call_text(path, each, self._arguments, many)
        future: TaskFuture[Any] = TaskFuture()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._failures:
                raise self._broken()
            self._open.add(future)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, _Work(future, call))
        return future

    def map(
        self, fn: Any, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """As in ProcessPoolExecutor: ``chunksize`` items are one Task, and results come in order."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        each: Callable[..., list[Any]] = _Each(fn)
        chunks = super().map(each, _chunks(zip(*iterables, strict=False), chunksize), timeout=timeout)
        return itertools.chain.from_iterable(chunks)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more is taken; ``wait`` until all have ended. ``cancel_futures``: what is not begun yet is cancelled."""
        with self._lock:
            left = [future for future in self._open if cancel_futures and not future.task]
            if not self._closed:
                self._closed = True
                with contextlib.suppress(RuntimeError):  # the loop has ended, of a failure
                    self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        for future in left:
            future.cancel()
        if wait:
            self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as exc:  # noqa: BLE001 - it is told to everybody who waits
            self._failures.append(exc)
        with self._lock:
            left, self._open = self._open, set()
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(self._broken())
        self._ready.set()

    def _broken(self) -> concurrent.futures.BrokenExecutor:
        return concurrent.futures.BrokenExecutor(f"{self.name} has failed: {self._failures}")

    async def _main(self) -> None:
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue[_Work | None]()
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(KubeClient(self._config, user_agent="berth-executor"))
            tasks = Tasks(client, self._namespace, labels=f"{LABEL}={self.name}")
            ground = _Ground(await stack.enter_async_context(tasks), *await self._receiving(stack, client, tasks))
            self._ready.set()
            async with asyncio.TaskGroup() as group:
                for _number in range(self._most):
                    group.create_task(self._consume(ground))

    async def _receiving(
        self, stack: contextlib.AsyncExitStack, client: KubeClient, tasks: Tasks
    ) -> tuple[Results | None, Tokens | None]:
        if self._endpoint is None:
            return None, None
        results = Results(self._endpoint)
        await results.start()
        stack.push_async_callback(results.stop)
        tokens = Tokens(client, tasks.namespace, self.name, {LABEL: self.name})
        await tokens.begin()
        stack.push_async_callback(tokens.end)
        return results, tokens

    async def _consume(self, ground: _Ground) -> None:
        while (work := await self._queue.get()) is not None:
            if work.future.cancelled():
                work.future.set_running_or_notify_cancel()
                with self._lock:
                    self._open.discard(work.future)
            else:
                await self._one(ground, work)
        self._queue.put_nowait(None)  # for the next one

    async def _one(self, ground: _Ground, work: _Work) -> None:
        """One call to its end, or until its future is cancelled: its Task goes then."""
        future, loop, tasks = work.future, self._loop, ground.tasks
        name = next(self._names)
        with self._lock:
            future.task = name
        submitting = loop.create_task(self._submitted(ground, name, work.call))
        ending = loop.create_task(_ended(tasks, name, submitting))

        def over(_future: concurrent.futures.Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is at its end
                loop.call_soon_threadsafe(ending.cancel)

        future.add_done_callback(over)
        await asyncio.wait([ending])
        await asyncio.wait([submitting])  # a Task whose creation is under way is removed afterwards
        sent = await self._cleaned(ground, name)
        with self._lock:
            self._open.discard(future)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(calls.result_of(ending.result(), self._exceptions, sent))
        except StateError as exc:  # somebody has deleted it
            future.set_exception(TaskError(exc.message, task={"name": name, "namespace": tasks.namespace}))
        except Exception as exc:  # noqa: BLE001 - the function's own, or why there is no result
            future.set_exception(exc)

    async def _cleaned(self, ground: _Ground, name: str) -> bytes | None:
        """Nothing is left of the Task; what has come for it."""
        sent = None
        if ground.results is not None and ground.tokens is not None:
            sent = ground.results.forget(name)
            ground.tokens.drop(name)
        try:
            await ground.tasks.remove(name)
        except BerthError as exc:
            _log.warning("%s; it is left, with the label %s=%s", exc.message, LABEL, self.name)
        return sent

    async def _submitted(self, ground: _Ground, name: str, call: str) -> None:
        tasks, results, tokens = ground
        variables: dict[str, Any] = {}
        owners = []
        if results is not None and tokens is not None:
            endpoint = results.endpoint
            await tokens.put(name, results.expect(name))
            owners = [tokens.owner]
            variables = {
                "BERTH_RESULTS_URL": f"{endpoint.url.rstrip('/')}/results/{name}/",
                "BERTH_RESULTS_CA": results.authority,
                "BERTH_RESULTS_MOST": endpoint.most,
                "BERTH_RESULTS_SECONDS": endpoint.seconds,
                "BERTH_RESULTS_TOKEN": tokens.source(name),
                "BERTH_POD_UID": {"fieldRef": {"fieldPath": "metadata.uid"}},
            }
        template = pod.with_call(self._template, self._python, call, variables)
        await tasks.submit(name, template, labels={LABEL: self.name}, owners=owners, **self._options)


async def _ended(tasks: Tasks, name: str, submitting: asyncio.Task[None]) -> Row:
    await asyncio.shield(submitting)
    return await tasks.wait(name)


def _chunks(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := list(itertools.islice(items, size)):
        yield chunk
