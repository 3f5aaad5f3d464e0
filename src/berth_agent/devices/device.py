"""A processing device as its source found it. Every source makes these, everything behind them reads these.

Pure values. A device is known by class and ``uuid``; names of the kernel are only where it is at the moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

WHOLE = 1000
#: what an attribute of a ResourceSlice may be
Attribute = Union[str, int, bool]


@dataclass(frozen=True)
class Node:
    """A device node: where it is on the host and where a container gets it."""

    host_path: str
    path: str


@dataclass(frozen=True)
class Device:
    """``shares``: thousandths of a device that may be given out; ``memory``: bytes, None where it has no meaning.

    ``problem``: why it must not be chosen now, empty for a good one. ``env``: for the containers that get it.
    """

    device_class: str
    uuid: str
    nodes: tuple[Node, ...] = ()
    shares: int = WHOLE
    memory: int | None = None
    model: str = ""
    problem: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return (self.device_class, self.uuid)

    @property
    def device_path(self) -> str:
        """Where it is, for people."""
        return self.nodes[0].host_path if self.nodes else str(self.attributes.get("pciAddress", ""))
