"""The processing devices of a node: found, published, locked ones handed to containers.

    sources.py       one interface; nvml.py, network.py, sysfs.py, described.py implement it
    device.py        what a source finds
    publish.py       LocalDevices and their status (pure)
    slices.py        ResourceSlices (pure)
    part.py          the loop that scans and publishes
    kubelet.py       the DRA plugin's sockets; kubelet_messages.py: the messages on them
    prepare.py       locks checked, claims prepared; cdi.py, checkpoint.py: what is written on the host

The entries of device_classes are checked and read in berth_core.app.agent_devices; who may have a device is decided in
device_claim there. agent.py calls `make`.
"""

from __future__ import annotations

from ..report import Report
from ..seams import Part, Tools


def make(tools: Tools, report: Report) -> Part:
    """The part. The rest is imported here: who only checks a configuration file needs no gRPC."""
    from .part import DevicePart

    return DevicePart(tools, report)
