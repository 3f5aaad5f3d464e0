"""Where devices come from: one interface, and the sources that the settings ask for. Called by the part's loop.

A source only looks. What it cannot read is a problem that it names, never an exception: one broken device must not
hide the others. It runs in a thread, for a driver may take its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from berth_core.app.agent_settings import Settings
from berth_host.machine import Machine

from .device import Device


@dataclass(frozen=True)
class Found:
    """One scan. ``problems``: sentences for people, each about something that is not published because of it."""

    devices: tuple[Device, ...] = ()
    problems: tuple[str, ...] = ()


class Source(Protocol):
    """Something that can list devices of this host."""

    def scan(self) -> Found:
        """The devices that are there now."""


@dataclass
class Sources:
    """All sources of the settings in force; made anew when they change, keeping what a source knows of before."""

    machine: Machine
    _made_for: tuple[object, ...] = ()
    _sources: list[Source] = field(default_factory=list)

    def scan(self, settings: Settings) -> Found:
        """Every device once. Two devices of one class and uuid are both refused: neither can be told from the other."""
        self._make(settings)
        return together([source.scan() for source in self._sources])

    def _make(self, settings: Settings) -> None:
        from berth_core.app.agent_devices import class_of, entries

        from .described import DescribedSource
        from .network import NetworkSource
        from .nvml import NvmlSource
        from .sysfs import SysfsSource

        wanted = (settings.device_classes, settings.device_descriptions)
        if wanted == self._made_for:
            return
        made: list[Source] = []
        for entry in entries(settings.device_classes):
            source = entry["source"]
            if source == "nvml":
                made.append(NvmlSource(self.machine, entry["name"]))
            elif source == "network":
                made.append(NetworkSource(self.machine, entry["name"], entry.get("functions", "virtual")))
            else:
                made.append(SysfsSource(self.machine, class_of(entry)))
        if settings.device_descriptions:
            made.append(DescribedSource(self.machine, settings.device_descriptions))
        self._made_for, self._sources = wanted, made


def together(scans: Sequence[Found]) -> Found:
    """Several scans as one, without the devices that cannot be told apart."""
    devices = [device for scan in scans for device in scan.devices]
    problems = [problem for scan in scans for problem in scan.problems]
    counts: dict[tuple[str, str], int] = {}
    for device in devices:
        counts[device.key] = counts.get(device.key, 0) + 1
    for (device_class, uuid), count in sorted(counts.items()):
        if count > 1:
            problems.append(
                f"{count} devices of class {device_class} carry the uuid {uuid}: none of them is published; expected "
                "each device to have a uuid of its own"
            )
    return Found(tuple(device for device in devices if counts[device.key] == 1), tuple(problems))
