"""What follows a choice, beside the choices for other pods: Permit, Hold, PreBind, Bind, PostBind; and the way back.

The scheduler hands over each pod that it has found a place for. Whatever fails, every Hold plugin gives back in reverse
order, the assumption ends, and the pod is put back into the queue. A bind whose answer is lost is asked for until it is
known: room is given up only when the pod is certainly not there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from berth_core.errors import BerthError, NotFoundError, UnavailableError
from berth_core.framework.binding import Bind, Binding, Hold, PostBind, PreBind, PreFlight
from berth_core.framework.contract import SUCCESS, Code, Status, Waiting
from berth_core.framework.queue import QueuedPod
from berth_core.model.resources import POD

_log = logging.getLogger(__name__)

#: Seconds between two questions whether a pod was bound, while the API server does not answer.
ASK_AGAIN = 1.0
#: Nobody waits at Permit for longer, whatever a plugin asks for.
LONGEST_WAIT = 900.0


@dataclass(slots=True)
class Flight:
    """A pod on its way, and who acts for it. ``verdict`` is there while it waits at Permit."""

    queued: QueuedPod
    binding: Binding
    actors: Actors
    began: float
    waits_for: dict[str, float] = field(default_factory=dict)
    verdict: asyncio.Future[tuple[str, Status]] | None = None

    @property
    def node(self) -> str:
        return self.binding.placement.node


class Failed(NamedTuple):
    """Why a pod was not bound. ``plugin`` "": an error, not a refusal."""

    message: str
    plugin: str = ""
    code: Code = Code.UNSCHEDULABLE


class Actors(NamedTuple):
    """The acting plugins of one profile, in order.

    ``pre_flights``: those that can say beforehand whether a pod concerns them; None where one of them cannot, or where
    the API's own bind is not the first.
    """

    holds: Sequence[tuple[str, Hold]]
    pre_binds: Sequence[tuple[str, PreBind]]
    binds: Sequence[tuple[str, Bind]]
    post_binds: Sequence[tuple[str, PostBind]]
    pre_flights: Sequence[tuple[str, PreFlight]] | None = None


class DefaultBinder:
    """Binds by the API's own subresource; the pod's uid is the precondition."""

    name = "DefaultBinder"

    async def bind(self, binding: Binding) -> Status:
        """Raises ApiError's children."""
        body = binding_of(binding)
        named = {key: body["metadata"][key] for key in ("name", "namespace")}
        try:
            await binding.api.create(POD, body, **named, subresource="binding", read=False)
        except UnavailableError:
            if not await is_bound(binding):
                raise
        return SUCCESS


def binding_of(binding: Binding) -> dict[str, Any]:
    """The object by which a pod is bound; the pod's uid is the precondition."""
    meta = binding.pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
        "target": {"kind": "Node", "name": binding.placement.node},
    }


async def is_bound(binding: Binding) -> bool:
    """Whether the bind whose answer was lost was carried out. Asks until somebody knows.

    A refusal is no answer either: an API server that has just started refuses everybody until it has read its roles.
    """
    meta, told = binding.pod["metadata"], ""
    while True:
        try:
            found = await binding.api.get(POD, meta["name"], meta["namespace"])
        except NotFoundError:
            return False
        except BerthError as exc:  # a token that cannot be read, too
            if type(exc).__name__ != told:
                told = type(exc).__name__
                _log.warning("pod %s: not known whether it was bound: %s; asking again", binding.key, exc.message)
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


def nothing_before(flight: Flight) -> bool:
    """True where no plugin takes or prepares anything for the pod, and the API's own bind is all that is left."""
    pre_flights = flight.actors.pre_flights
    if pre_flights is None:
        return False
    for name, plugin in pre_flights:
        try:
            if plugin.pre_flight(flight.binding).code != Code.SKIP:
                return False
        except Exception:  # noqa: BLE001 - plugins from outside: then it is asked to act, as if it had said nothing
            _log.exception("pod %s: plugin %s could not say whether it is concerned", flight.binding.key, name)
            return False
    return True


async def carry_out(flight: Flight) -> Failed | None:
    """Hold, PreBind and Bind. None: the pod is bound. A plugin's fault is told with its name."""
    actors, binding = flight.actors, flight.binding
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


async def bundled(flight: Flight, error: BerthError) -> Failed | None:
    """What `carry_out` says, of a pod that went with others and came to nothing. None: it was bound all the same."""
    if isinstance(error, UnavailableError) and await is_bound(flight.binding):
        return None
    return Failed(f"{DefaultBinder.name}: {error.message}")


async def give_back(flight: Flight) -> None:
    """Every Hold plugin, in reverse order; one that fails does not keep the others."""
    for name, plugin in reversed(flight.actors.holds):
        try:
            await plugin.release(flight.binding)
        except Exception:  # noqa: BLE001 - plugins from outside
            _log.exception("pod %s: plugin %s could not give back what it held", flight.binding.key, name)


async def tell_bound(flight: Flight) -> None:
    """PostBind: nothing that goes wrong there changes anything."""
    for name, plugin in flight.actors.post_binds:
        try:
            await plugin.post_bind(flight.binding)
        except Exception:  # noqa: BLE001 - plugins from outside
            _log.exception("pod %s: plugin %s failed after the pod was bound", flight.binding.key, name)


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
