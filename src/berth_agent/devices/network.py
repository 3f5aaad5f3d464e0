"""PCI network functions, physical and SR-IOV virtual ones, from /sys/bus/pci. A source.

A function that userspace may drive (vfio-pci) is handed over as its VFIO nodes. One that the kernel drives has no node:
its address and the name of its interface are published, and the container learns them from its environment.
"""

from __future__ import annotations

import os
import re

from berth_host.machine import Machine

from .device import Attribute, Device, Node
from .sources import Found

PCI = "/sys/bus/pci/devices"
_NETWORK_CLASS = "0x02"


class NetworkSource:
    """``functions``: virtual, physical or all. A physical function that has virtual ones is none of the virtual."""

    def __init__(self, machine: Machine, device_class: str, functions: str) -> None:
        self._machine = machine
        self._class = device_class
        self._functions = functions

    def scan(self) -> Found:
        found = []
        for address in self._machine.names(PCI):
            folder = f"{PCI}/{address}"
            if not self._machine.read(f"{folder}/class").startswith(_NETWORK_CLASS):
                continue
            virtual = self._machine.exists(f"{folder}/physfn")
            if self._functions in ("all", "virtual" if virtual else "physical"):
                found.append(self._device(address, folder, virtual))
        return Found(tuple(found))

    def _device(self, address: str, folder: str, virtual: bool) -> Device:
        driver, interfaces = self._link(f"{folder}/driver"), self._machine.names(f"{folder}/net")
        attributes: dict[str, Attribute] = {"pciAddress": address, "virtual": virtual, "driver": driver or "none"}
        if virtual:
            attributes["physicalFunction"] = self._link(f"{folder}/physfn")
        if interfaces:
            attributes["interface"] = interfaces[0][:64]
        numa = self._machine.read(f"{folder}/numa_node")
        if re.fullmatch(r"[0-9]+", numa):
            attributes["numaNode"] = int(numa)
        nodes: tuple[Node, ...] = ()
        if driver == "vfio-pci":
            group = self._link(f"{folder}/iommu_group")
            nodes = tuple(Node(path, path) for path in ("/dev/vfio/vfio", f"/dev/vfio/{group}"))
        vendor, product = (self._machine.read(f"{folder}/{name}")[2:] for name in ("vendor", "device"))
        env = {"PCI_ADDRESS": address, **({"INTERFACE": interfaces[0]} if interfaces else {})}
        # The address is the slot's: unlike a hardware address it can be read whichever driver the function is bound to.
        return Device(self._class, address, nodes, model=f"{vendor}:{product}", attributes=attributes, env=env)

    def _link(self, name: str) -> str:
        try:
            return os.path.basename(os.readlink(self._machine.path(name)))
        except OSError:
            return ""
