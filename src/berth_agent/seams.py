"""What a part of the agent is given and what it offers. Parts import this and nothing else of the frame.

See the package's docstring for the rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from berth_core.app.agent_settings import Settings
from berth_core.app.identity import from_spec, match
from berth_core.errors import IdentityError
from berth_host.machine import Machine

if TYPE_CHECKING:
    from berth_kube.client import KubeClient
    from berth_kube.events import Recorder

Object = Mapping[str, Any]
#: one record of berth_host.block_devices.survey
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Look:
    """One survey of the host. ``number`` grows with each; ``devices`` are records, whole devices and partitions."""

    number: int
    devices: tuple[Record, ...] = ()

    @property
    def whole(self) -> list[Record]:
        """Devices that are no partitions: what identities are matched against."""
        return [device for device in self.devices if device.get("type") != "part"]

    def find(self, disk: Object) -> Record | None:
        """The device of a LocalDisk by its identity, None when it is not there. IdentityError when several carry it."""
        return match(from_spec(disk["spec"]["identity"]), self.whole)

    def find_or_problem(self, disk: Object) -> tuple[Record | None, str]:
        """The device, and why the identity names none although devices carry it (empty: no such trouble)."""
        try:
            return self.find(disk), ""
        except IdentityError as exc:
            return None, exc.message


@dataclass(frozen=True)
class Tools:
    """What every part gets. All of it is safe to use from any task of the agent's event loop."""

    node: str
    client: KubeClient
    recorder: Recorder
    #: the settings in force at this moment: ask again each time, they change on reload
    settings: Callable[[], Settings]
    #: the last Look, None before the first
    look: Callable[[], Look | None]
    #: survey the host soon: something was done to it
    look_again: Callable[[], None]
    #: the LocalDisks of this node as last seen in the watch, by name
    disks: Callable[[], Mapping[str, Object]]
    #: call DiskWork.reconcile for that LocalDisk soon
    wake_disk: Callable[[str], None]
    #: raises StateError when this process is not the one agent of the node
    check: Callable[[], None]
    #: raises DataError when another node sees that LocalDisk's disk, too; asked for right now
    check_alone: Callable[[Object, Record | None], Awaitable[None]]
    #: RFC 3339, UTC, whole seconds: for lastTransitionTime
    now: Callable[[], str]
    machine: Machine = field(default_factory=Machine)


class Part(Protocol):
    """Something that runs beside the frame."""

    async def run(self) -> None:
        """Until cancelled. An exception out of here ends the agent."""

    def wake(self) -> None:
        """The settings or the hardware changed. Returns at once."""


class DiskWork(Part, Protocol):
    """The life of a disk on its node: see the package's docstring."""

    def findings(self, disk: Object, device: Record | None) -> Mapping[str, Any]:
        """Facts to lay over the device's record before the status is made. Quick."""

    async def reconcile(self, disk: Object, device: Record | None, look: Look) -> float | None:
        """The next step of one disk; seconds until the next call, None: when something changes."""
