"""NVIDIA GPUs through the driver's own library (NVML). A source.

Absent library, absent driver or a driver that does not answer: no devices, said once. The library is only loaded where
the driver is, for it costs two megabytes.
"""

from __future__ import annotations

import logging
from typing import Any

from berth_host.machine import Machine

from .device import Attribute, Device, Node
from .sources import Found

log = logging.getLogger(__name__)
#: the kernel driver is loaded when it has its control node
CONTROL = "/dev/nvidiactl"
#: what every container that computes needs beside its GPU, where it is there
SHARED_NODES = (CONTROL, "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


class NvmlSource:
    """All GPUs of the host as devices of one class."""

    def __init__(self, machine: Machine, device_class: str) -> None:
        self._machine = machine
        self._class = device_class
        self._said = ""

    def scan(self) -> Found:
        if not self._machine.exists(CONTROL):
            return self._none("the NVIDIA driver is not loaded")
        try:
            import pynvml
        except ImportError:
            return self._none("the driver is loaded but the Python package nvidia-ml-py is not installed")
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as exc:
            return self._none(f"the driver's library does not answer: {exc}")
        try:
            return self._all(pynvml)
        except pynvml.NVMLError as exc:
            return Found(problems=(f"the GPUs cannot be listed: {exc}",))
        finally:
            pynvml.nvmlShutdown()

    def _none(self, why: str) -> Found:
        if why != self._said:
            log.info("no GPUs of class %s: %s", self._class, why)
            self._said = why
        return Found()

    def _all(self, nvml: Any) -> Found:
        devices: list[Device] = []
        problems: list[str] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            device, problem = self._one(nvml, index)
            devices += [device] if device else []
            problems += [problem] if problem else []
        return Found(tuple(devices), tuple(problems))

    def _one(self, nvml: Any, index: int) -> tuple[Device | None, str]:
        """One GPU; one that fell off the bus answers with an error, and the others are well."""
        try:
            return self._device(nvml, nvml.nvmlDeviceGetHandleByIndex(index)), ""
        except nvml.NVMLError as exc:
            return None, f"GPU {index} does not answer: {exc}"

    def _device(self, nvml: Any, handle: Any) -> Device:
        uuid, minor = _text(nvml.nvmlDeviceGetUUID(handle)), nvml.nvmlDeviceGetMinorNumber(handle)
        attributes: dict[str, Attribute] = {"pciAddress": _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()}
        nodes = [Node(f"/dev/nvidia{minor}", f"/dev/nvidia{minor}")]
        nodes += [Node(path, path) for path in SHARED_NODES if self._machine.exists(path)]
        gone = not self._machine.exists(nodes[0].host_path)
        return Device(
            self._class,
            uuid,
            tuple(nodes),
            memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            model=_text(nvml.nvmlDeviceGetName(handle))[:64],
            problem=f"its device node {nodes[0].host_path} is missing" if gone else _trouble(nvml, handle),
            attributes=attributes,
            env={"NVIDIA_VISIBLE_DEVICES": uuid},
        )


def _trouble(nvml: Any, handle: Any) -> str:
    """What the GPU says against itself: double-bit errors that cannot be corrected. Most consumer GPUs cannot tell."""
    try:
        errors = nvml.nvmlDeviceGetTotalEccErrors(
            handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        )
    except nvml.NVMLError_NotSupported:
        return ""
    return f"{errors} memory errors that could not be corrected since the driver was loaded" if errors else ""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
