"""Devices that a folder of description files speaks of: for hardware that no other source knows. A source.

Each file (*.yaml, *.yml, *.json) is a mapping with a list ``devices``:

    devices:
      - class: accelerator
        uuid: acc-7f3a
        nodes: [/dev/acc0, {path: /dev/acc0-ctl, container_path: /dev/acc-ctl}]
        shares: 1000
        memory: 16Gi
        model: Some accelerator
        attributes: {numa: 0}
        env: {ACC_MODE: fast}

A file with an error is refused as a whole; what it said before stays in force, so that a slip of the hand makes no
device vanish. A file that is gone takes its devices with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable

import yaml

from berth_core.app.agent_devices import ATTRIBUTE, MAX_SHARES, is_memory, is_node, is_shares
from berth_core.model.quantity import bytes_
from berth_host.machine import Machine

from .device import WHOLE, Device, Node
from .sources import Found

SUFFIXES = (".yaml", ".yml", ".json")
MAX_BYTES = 1 << 20
_KEYS = {"class", "uuid", "nodes", "shares", "memory", "model", "attributes", "env", "problem"}


class DescribedSource:
    """One folder. Remembers the last good devices of each file."""

    def __init__(self, machine: Machine, folder: str) -> None:
        self._machine = machine
        self._folder = folder
        self._good: dict[str, tuple[Device, ...]] = {}

    def scan(self) -> Found:
        names = [name for name in self._machine.names(self._folder) if name.endswith(SUFFIXES)]
        problems = []
        for name in names:
            problem = self._take(name)
            if problem:
                problems.append(problem)
        self._good = {name: devices for name, devices in self._good.items() if name in names}
        return Found(tuple(self._now(device) for devices in self._good.values() for device in devices), tuple(problems))

    def _take(self, name: str) -> str:
        """Read one file; what is wrong with it."""
        try:
            self._good[name] = self._read(f"{self._folder}/{name}")
        except ValueError as exc:
            kept = "what it said before stays in force" if name in self._good else "none of it is published"
            return f"{self._folder}/{name}: {exc}; {kept}"
        return ""

    def _read(self, path: str) -> tuple[Device, ...]:
        try:
            if os.stat(self._machine.path(path)).st_size > MAX_BYTES:
                raise ValueError("it is larger than 1 MiB, expected a description")
            with open(self._machine.path(path), encoding="utf-8") as file:
                value = yaml.safe_load(file)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
            raise ValueError(f"cannot be read: {' '.join(str(exc).split())}") from exc
        listed = value.get("devices") if isinstance(value, Mapping) else None
        if not isinstance(listed, list):
            raise ValueError("expected a mapping with a list `devices`")
        wrong = [f"devices[{index}]: {text}" for index, each in enumerate(listed) for text in problems_of(each)]
        if wrong:
            raise ValueError("; ".join(wrong))
        return tuple(device_of(each) for each in listed)

    def _now(self, device: Device) -> Device:
        """The device as it is at the moment: one whose node is missing is not well, whatever the file says."""
        gone = [node.host_path for node in device.nodes if not self._machine.exists(node.host_path)]
        if not gone:
            return device
        return Device(**{**vars(device), "problem": f"its device node {gone[0]} is missing"})


def problems_of(entry: Any) -> list[str]:
    """Everything that is wrong with one description."""
    if not isinstance(entry, Mapping):
        return [f"{entry!r} is not a mapping"]
    found = [f"{key!r} is unknown, expected {', '.join(sorted(_KEYS))}" for key in entry if key not in _KEYS]
    for key, limit in (("class", 63), ("uuid", 256)):
        if not isinstance(entry.get(key), str) or not 1 <= len(entry[key]) <= limit:
            found.append(f"{key} is {entry.get(key)!r}: expected a text of 1 to {limit} characters")
    checks: dict[str, tuple[Callable[[Any], bool], str]] = {
        "nodes": (lambda v: isinstance(v, list) and all(_is_node(each) for each in v), "a list of paths below /dev"),
        "shares": (is_shares, f"1 to {MAX_SHARES}"),
        "memory": (is_memory, "a quantity such as 16Gi"),
        "model": (lambda v: isinstance(v, str) and len(v) <= 64, "a text of at most 64 characters"),
        "problem": (lambda v: isinstance(v, str) and len(v) <= 256, "a text of at most 256 characters"),
        "attributes": (_are_attributes, "a mapping of names to texts of at most 64 characters, numbers or booleans"),
        "env": (_is_env, "a mapping of variable names to texts"),
    }
    for key, (fits, expected) in checks.items():
        if key in entry and not fits(entry[key]):
            found.append(f"{key} is {entry[key]!r}: expected {expected}")
    return found


def device_of(entry: Mapping[str, Any]) -> Device:
    """A description without problems, as a device."""
    memory = entry.get("memory")
    return Device(
        entry["class"],
        entry["uuid"],
        tuple(_node(each) for each in entry.get("nodes", ())),
        entry.get("shares", WHOLE),
        None if memory is None else bytes_(memory),
        entry.get("model", ""),
        entry.get("problem", ""),
        dict(entry.get("attributes", {})),
        dict(entry.get("env", {})),
    )


def _node(value: Any) -> Node:
    if isinstance(value, str):
        return Node(value, value)
    return Node(value["path"], value.get("container_path", value["path"]))


def _is_node(value: Any) -> bool:
    if isinstance(value, Mapping):
        known = set(value) <= {"path", "container_path"} and "path" in value
        return known and all(is_node(each) for each in value.values())
    return is_node(value)


def _are_attributes(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str)
        and ATTRIBUTE.fullmatch(key)
        and isinstance(each, (str, int, bool))
        and len(str(each)) <= 64
        for key, each in value.items()
    )


def _is_env(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and ATTRIBUTE.fullmatch(key) and isinstance(each, str) and "\0" not in each
        for key, each in value.items()
    )
