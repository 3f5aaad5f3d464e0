"""What follows a choice, beside the choices for other pods: Permit, Hold, PreBind, Bind, PostBind; and the way back.

The scheduler hands me each pod that it has found a place for. Whatever fails, every Hold plugin gives back in reverse
order, the assumption ends, and the pod is put back into the queue. A bind whose answer is lost is asked for until it is
known: room is given up only when the pod is certainly not there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from berth_core.errors import BerthError, NotFoundError, UnavailableError
from berth_core.framework.binding import Bind, Binding, Hold, PostBind, PreBind
from berth_core.framework.contract import SUCCESS, Code, Status, Waiting
from berth_core.framework.queue import QueuedPod
from berth_core.model.resources import POD

_log = logging.getLogger(__name__)

#: Seconds between two questions whether a pod was bound, while the API server does not answer.
ASK_AGAIN = 1.0
#: Nobody waits at Permit for longer, whatever a plugin asks for.
LONGEST_WAIT = 900.0


@dataclass
class Flight:
    """A pod on its way. ``verdict`` is set when Permit has decided; ``status`` None: it was allowed to go on."""

    queued: QueuedPod
    binding: Binding
    began: float
    waits_for: dict[str, float] = field(default_factory=dict)
    verdict: asyncio.Future[tuple[str, Status]] | None = None
    queue_done: bool = False

    @property
    def node(self) -> str:
        return self.binding.placement.node


class Failed(NamedTuple):
    """Why a pod was not bound. ``plugin`` "": an error, not a refusal."""

    message: str
    plugin: str = ""
    code: Code = Code.UNSCHEDULABLE


class Actors(NamedTuple):
    """The acting plugins of one profile, in order."""

    holds: Sequence[tuple[str, Hold]]
    pre_binds: Sequence[tuple[str, PreBind]]
    binds: Sequence[tuple[str, Bind]]
    post_binds: Sequence[tuple[str, PostBind]]


class DefaultBinder:
    """Binds by the API's own subresource; the pod's uid is the precondition."""

    name = "DefaultBinder"

    async def bind(self, binding: Binding) -> Status:
        """Raises ApiError's children."""
        meta = binding.pod["metadata"]
        names = {key: meta[key] for key in ("name", "namespace", "uid")}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": names,
            "target": {"kind": "Node", "name": binding.placement.node},
        }
        try:
            named = {"name": meta["name"], "namespace": meta["namespace"]}
            await binding.api.create(POD, body, **named, subresource="binding", read=False)
        except UnavailableError:
            if not await self._is_bound(binding):
                raise
        return SUCCESS

    async def _is_bound(self, binding: Binding) -> bool:
        """Whether the write whose answer was lost was carried out. Asks until somebody knows."""
        meta = binding.pod["metadata"]
        while True:
            try:
                found = await binding.api.get(POD, meta["name"], meta["namespace"])
            except NotFoundError:
                return False
            except UnavailableError:
                await asyncio.sleep(ASK_AGAIN)
                continue
            same = found["metadata"]["uid"] == meta["uid"]
            return bool(same and found["spec"].get("nodeName") == binding.placement.node)


class WaitingRoom:
    """The pods that wait at Permit."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}

    def enter(self, flight: Flight) -> None:
        """The pod waits for the plugins in ``flight.waits_for``."""
        flight.verdict = asyncio.get_running_loop().create_future()
        self._flights[flight.queued.pod.uid] = flight

    def waiting(self) -> list[Waiting]:
        """Who waits, in the order of coming."""
        return [Waiting(one.queued.pod, one.node) for one in self._flights.values()]

    def allow(self, uids: frozenset[str], plugin: str) -> None:
        """The plugin lets them go on; one that waits for another one too still waits."""
        for uid in uids:
            flight = self._flights.get(uid)
            if flight is not None:
                flight.waits_for.pop(plugin, None)
                if not flight.waits_for:
                    self._decide(flight, plugin, SUCCESS)

    def reject(self, uids: frozenset[str], plugin: str, reason: str) -> None:
        """They give their choice back."""
        for uid in uids:
            flight = self._flights.get(uid)
            if flight is not None:
                self._decide(flight, plugin, Status(Code.UNSCHEDULABLE, (reason,)))

    async def wait(self, flight: Flight) -> tuple[str, Status]:
        """The plugin that decided, and what; SUCCESS for one that does not wait."""
        if flight.verdict is None:
            return "", SUCCESS
        plugin, seconds = min(flight.waits_for.items(), key=lambda one: one[1], default=("", 0.0))
        try:
            if flight.verdict.done():
                return flight.verdict.result()
            async with asyncio.timeout(min(seconds, LONGEST_WAIT)):
                return await asyncio.shield(flight.verdict)
        except TimeoutError:
            reason = f"rejected due to timeout after waiting {seconds:g}s at plugin {plugin}"
            return plugin, Status(Code.UNSCHEDULABLE, (reason,))
        finally:
            self._flights.pop(flight.queued.pod.uid, None)

    def _decide(self, flight: Flight, plugin: str, status: Status) -> None:
        if flight.verdict is not None and not flight.verdict.done():
            flight.verdict.set_result((plugin, status))


async def carry_out(actors: Actors, flight: Flight) -> Failed | None:
    """Hold, PreBind and Bind. None: the pod is bound. A plugin's fault is told with its name."""
    binding = flight.binding
    for name, holder in actors.holds:
        failed = await _asked(name, holder.hold, binding)
        if isinstance(failed, Failed):
            return failed
    for name, preparer in actors.pre_binds:
        failed = await _asked(name, preparer.pre_bind, binding)
        if isinstance(failed, Failed):
            return failed
    for name, binder in actors.binds:
        done = await _asked(name, binder.bind, binding)
        if isinstance(done, Failed):
            return done
        if done.code == Code.SUCCESS:
            return None
    return Failed("no Bind plugin has bound the pod")


async def give_back(actors: Actors, binding: Binding) -> None:
    """Every Hold plugin, in reverse order; one that fails does not keep the others."""
    for name, plugin in reversed(actors.holds):
        try:
            await plugin.release(binding)
        except Exception:  # noqa: BLE001 - plugins from outside
            _log.exception("pod %s: plugin %s could not give back what it held", binding.key, name)


async def tell_bound(actors: Actors, binding: Binding) -> None:
    """PostBind: nothing that goes wrong there changes anything."""
    for name, plugin in actors.post_binds:
        try:
            await plugin.post_bind(binding)
        except Exception:  # noqa: BLE001 - plugins from outside
            _log.exception("pod %s: plugin %s failed after the pod was bound", binding.key, name)


async def _asked(name: str, ask: Callable[[Binding], Awaitable[Status]], binding: Binding) -> Status | Failed:
    try:
        status = await ask(binding)
        if not isinstance(status, Status):
            raise TypeError(f"expected a Status, got {status!r}")
    except BerthError as exc:
        return Failed(f"{name}: {exc.message}")
    except Exception as exc:  # noqa: BLE001 - plugins from outside
        _log.exception("plugin %s failed", name)
        return Failed(f"plugin {name} failed: {type(exc).__name__}: {exc}")
    if not status.ok:
        return Failed(", ".join(status.reasons), name, status.code)
    return status
