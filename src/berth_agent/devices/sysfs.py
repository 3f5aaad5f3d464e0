"""Devices of a class that sysfs lists: which entries match, and what tells one from the other. A source."""

from __future__ import annotations

import fnmatch
import os
import re

from berth_core.app.agent_devices import SysfsClass
from berth_host.machine import Machine

from .device import Attribute, Device, Node
from .sources import Found

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class SysfsSource:
    """One class of the configuration. Its directory holds one entry (mostly a link) for each device."""

    def __init__(self, machine: Machine, wanted: SysfsClass) -> None:
        self._machine = machine
        self._class = wanted

    def scan(self) -> Found:
        devices, problems = [], []
        for name in self._machine.names(self._class.directory):
            entry = f"{self._class.directory}/{name}"
            if not all(fnmatch.fnmatchcase(self._machine.read(f"{entry}/{file}"), p) for file, p in self._class.match):
                continue
            uuid = self._uuid(entry)
            if uuid:
                devices.append(self._device(entry, name, uuid))
            else:
                problems.append(
                    f"{entry} (class {self._class.name}) has neither {' nor '.join((*self._class.uuid, 'PCI address'))}"
                    ": what cannot be recognised after a reboot is not published; name a file in uuid"
                )
        return Found(tuple(devices), tuple(problems))

    def _uuid(self, entry: str) -> str:
        for file in self._class.uuid:
            text = self._machine.read(f"{entry}/{file}")
            if text:
                return text[:256]
        return pci_address(self._machine, entry)

    def _device(self, entry: str, name: str, uuid: str) -> Device:
        nodes = tuple(Node(path, path) for path in (each.replace("{name}", name) for each in self._class.nodes))
        gone = [node.host_path for node in nodes if not self._machine.exists(node.host_path)]
        attributes: dict[str, Attribute] = {
            key: text
            for key, file in self._class.attributes
            if (text := self._machine.read(f"{entry}/{file}").split("\n")[0][:64])
        }
        address = pci_address(self._machine, entry)
        if address:
            attributes["pciAddress"] = address
        return Device(
            self._class.name,
            uuid,
            nodes,
            self._class.shares,
            self._class.memory,
            problem=f"its device node {gone[0]} is missing" if gone else "",
            attributes=attributes,
        )


def pci_address(machine: Machine, entry: str) -> str:
    """The PCI address of the function behind an entry of sysfs, empty where there is none. The slot, not the name."""
    real = os.path.realpath(machine.path(entry))
    parts = [part for part in real.split("/") if _PCI_ADDRESS.fullmatch(part)]
    return parts[-1] if parts else ""
