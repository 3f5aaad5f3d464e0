# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent's configuration file says, as one frozen value. Every part of the agent reads it.

Durations are seconds. A field is a key of the file unless it is in FROM_COMMAND_LINE; agent_config makes it, and reads
the types and the bounds from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Policies:
    """What this agent may do by itself. All of it still needs a lock or a request on the LocalDisk."""

    #: create the LocalDisks of declared and selected disks
    declare: bool = True
    #: make filesystems and mount them for a lock
    prepare: bool = True
    #: carry out wipe requests
    wipe: bool = True
    #: write a probe file on mounted filesystems
    probe_writes: bool = True
    #: publish devices and serve the kubelet as a DRA plugin
    devices: bool = True


@dataclass(frozen=True)
class Intervals:
    """How often what is not driven by events is looked at."""

    #: the full survey, whatever the events said
    scan: float = 300.0
    #: the cheap look for changes that no event told of
    poll: float = 5.0
    #: events this close together are one
    debounce: float = 0.3
    #: health of each disk
    health: float = 60.0
    #: what each disk says of itself (SMART, NVMe health)
    smart: float = 600.0
    #: at most so often a wipe's progress is written to the LocalDisk
    wipe_progress: float = 10.0
    #: sources of devices
    devices: float = 60.0
    #: samples of the kubelet's summary
    usage: float = 60.0
    #: capacity and reservations against what the kubelet reports
    facts: float = 60.0
    #: an agent that is silent for so long has lost the node's Lease, and another one may work
    lease: float = 60.0


@dataclass(frozen=True)
class Metrics:
    """Where /metrics, /healthz and /readyz are served; port 0: nowhere."""

    address: str = "127.0.0.1"
    port: int = 9808
    tls_certificate: str = ""
    tls_key: str = ""


@dataclass(frozen=True)
class Usage:
    """Where samples of containers go. ``store``: sqlite, prometheus or none."""

    store: str = "sqlite"
    path: str = "/var/lib/berth/usage.sqlite"
    retention: float = 30 * 86400.0
    url: str = ""
    read_url: str = ""
    token_file: str = ""
    ca_file: str = ""


@dataclass(frozen=True)
class Kubelet:
    """How the kubelet is asked, and what it was started with."""

    #: empty: the node's InternalIP
    address: str = ""
    #: empty: what the kubelet's Node object says, else 10250
    port: int = 0
    #: empty: the cluster's own
    ca_file: str = ""
    #: the kubelet's own configuration file, for kube-reserved and system-reserved
    config_file: str = "/var/lib/kubelet/config.yaml"
    #: folder of the kubelet's plugins_registry and plugins
    root: str = "/var/lib/kubelet"


@dataclass(frozen=True)
class Settings:
    """The whole. ``disks`` and ``disk_selectors`` are entries as in berth_disks and berth_disk_selectors."""

    node: str = ""
    disks: tuple[Mapping[str, Any], ...] = ()
    disk_selectors: tuple[Mapping[str, Any], ...] = ()
    #: read by devices/: mappings as written, checked by its own function
    device_classes: tuple[Mapping[str, Any], ...] = ()
    #: folder of description files that stand in for devices; empty: none
    device_descriptions: str = ""
    cdi_root: str = "/var/run/cdi"
    mount_root: str = "/var/lib/berth/disks"
    state_directory: str = "/var/lib/berth/agent"
    policies: Policies = field(default_factory=Policies)
    intervals: Intervals = field(default_factory=Intervals)
    metrics: Metrics = field(default_factory=Metrics)
    usage: Usage = field(default_factory=Usage)
    kubelet: Kubelet = field(default_factory=Kubelet)


#: Fields that no file sets.
FROM_COMMAND_LINE = ("state_directory",)
#: What cannot change while the agent runs.
FIXED = ("node", "mount_root", "cdi_root", "intervals.lease")
#: (section, field) -> least and most
BOUNDS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("intervals", "scan"): (5, 86400),
    ("intervals", "poll"): (0.2, 3600),
    ("intervals", "debounce"): (0, 60),
    ("intervals", "health"): (1, 86400),
    ("intervals", "smart"): (10, 86400),
    ("intervals", "wipe_progress"): (0.2, 3600),
    ("intervals", "devices"): (1, 86400),
    ("intervals", "usage"): (1, 86400),
    ("intervals", "facts"): (1, 86400),
    ("intervals", "lease"): (6, 3600),
    ("metrics", "port"): (0, 65535),
    ("kubelet", "port"): (0, 65535),
    ("usage", "retention"): (60, 10 * 366 * 86400),
}
CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {("usage", "store"): ("sqlite", "prometheus", "none")}
#: Fields that hold an address, or nothing.
HOSTS = frozenset((("metrics", "address"), ("kubelet", "address")))
#: Fields that hold the address of an HTTP server, or nothing.
URLS = frozenset((("usage", "url"), ("usage", "read_url")))
#: Fields that hold an absolute path (or nothing, where the default is nothing).
PATHS = frozenset(
    (
        ("", "device_descriptions"),
        ("", "cdi_root"),
        ("", "mount_root"),
        ("metrics", "tls_certificate"),
        ("metrics", "tls_key"),
        ("usage", "path"),
        ("usage", "token_file"),
        ("usage", "ca_file"),
        ("kubelet", "ca_file"),
        ("kubelet", "config_file"),
        ("kubelet", "root"),
    )
)
