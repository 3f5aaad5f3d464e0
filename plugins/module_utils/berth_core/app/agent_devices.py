# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of ``device_classes`` in the configuration file: checked, and read. Called by agent_config, and by the
node agent's sources of devices.

device_classes:
  - {name: gpu, source: nvml}                        # NVIDIA GPUs; also without an entry, as class gpu
  - {name: nic, source: network, functions: virtual} # PCI network functions: virtual (SR-IOV), physical or all
  - name: fpga                                       # anything that sysfs lists
    source: sysfs
    directory: /sys/class/fpga_manager
    match: {device/vendor: "0x10ee"}                 # file below the entry: pattern of its text
    uuid: [device/serial_number]                     # the first of these files that says something
    nodes: ["/dev/{name}"]                           # {name}: the entry's name at the moment
    shares: 1000
    memory: 8Gi
    attributes: {numa: device/numa_node}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..errors import QuantityError
from ..model.device import WHOLE
from ..model.quantity import bytes_

DEFAULT_GPU_CLASS = "gpu"
SOURCES = ("nvml", "network", "sysfs")
FUNCTIONS = ("virtual", "physical", "all")
MAX_SHARES = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
#: the API's C identifier for an attribute, at most 32 characters
ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_KEYS = {
    "nvml": {"name", "source"},
    "network": {"name", "source", "functions"},
    "sysfs": {"name", "source", "directory", "match", "uuid", "nodes", "shares", "memory", "attributes"},
}


@dataclass(frozen=True)
class SysfsClass:
    """One class that sysfs lists. ``match``: (file, pattern); ``uuid``: files, PCI address where it is empty."""

    name: str
    directory: str
    match: tuple[tuple[str, str], ...]
    uuid: tuple[str, ...]
    nodes: tuple[str, ...]
    shares: int
    memory: int | None
    attributes: tuple[tuple[str, str], ...]


def entries(classes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries that are in force: GPUs are looked for unless an entry names their class."""
    given = list(classes)
    if any(entry["source"] == "nvml" for entry in given):
        return given
    return [*given, {"name": DEFAULT_GPU_CLASS, "source": "nvml"}]


def class_of(entry: Mapping[str, Any]) -> SysfsClass:
    """An entry without problems, as a value."""
    memory = entry.get("memory")
    return SysfsClass(
        name=entry["name"],
        directory=entry["directory"],
        match=tuple(sorted(entry.get("match", {}).items())),
        uuid=tuple(entry.get("uuid", ())),
        nodes=tuple(entry.get("nodes", ())),
        shares=entry.get("shares", WHOLE),
        memory=None if memory is None else bytes_(memory),
        attributes=tuple(sorted(entry.get("attributes", {}).items())),
    )


def problems(entry: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with one entry, as sentences; empty: it can be used."""
    found = []
    if not isinstance(entry.get("name"), str) or not _NAME.fullmatch(entry["name"]):
        found.append(f"name is {entry.get('name')!r}: expected the name of a class, 1 to 63 letters, digits, '-_.'")
    source = entry.get("source")
    if source not in SOURCES:
        return [*found, f"source is {source!r}: expected one of {', '.join(SOURCES)}"]
    unknown = sorted(set(entry) - _KEYS[source])
    if unknown:
        found.append(f"{', '.join(unknown)}: unknown with source {source}; expected {', '.join(sorted(_KEYS[source]))}")
    if source == "network" and entry.get("functions", "virtual") not in FUNCTIONS:
        found.append(f"functions is {entry['functions']!r}: expected one of {', '.join(FUNCTIONS)}")
    if source == "sysfs":
        found += _sysfs_problems(entry)
    return found


def _sysfs_problems(entry: Mapping[str, Any]) -> list[str]:
    checks: list[tuple[str, Callable[[Any], bool], str]] = [
        ("directory", _is_sysfs, "a folder below /sys, such as /sys/class/fpga_manager"),
        ("match", _are_files, "a mapping of a file below the device's folder to a pattern of its text"),
        ("uuid", _is_list_of(_is_file), "a list of files below the device's folder"),
        ("nodes", _is_list_of(_is_node), "a list of paths below /dev, {name} for the device's name"),
        ("shares", is_shares, f"1 to {MAX_SHARES} thousandths of a device"),
        ("memory", is_memory, "a quantity such as 8Gi"),
        ("attributes", _are_attributes, "a mapping of a name (letters, digits, _) to a file below the device's folder"),
    ]
    found = [
        f"{key} is {entry[key]!r}: expected {expected}"
        for key, fits, expected in checks
        if key in entry and not fits(entry[key])
    ]
    if "directory" not in entry:
        found.append("directory is missing: expected the folder below /sys that lists the devices")
    return found


def is_shares(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SHARES


def is_memory(value: Any) -> bool:
    try:
        return bytes_(value) >= 0
    except QuantityError:
        return False


def is_node(value: Any) -> bool:
    """A path below /dev without ways out of it."""
    return isinstance(value, str) and value.startswith("/dev/") and ".." not in value.split("/") and len(value) < 256


def _is_sysfs(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/sys/") and ".." not in value.split("/")


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.startswith("/") and ".." not in value.split("/")


def _is_node(value: Any) -> bool:
    return is_node(value) and not re.search(r"[{}]", value.replace("{name}", ""))


def _is_list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(fits(each) for each in value)


def _are_files(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_file(key) and isinstance(each, str) for key, each in value.items())


def _are_attributes(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and ATTRIBUTE.fullmatch(key) and _is_file(each) for key, each in value.items()
    )
