"""The node agent: turns what a node has into custom resources, and does to disks only what a live lock allows.

Start reading in agent.py (composition). The rooms and their seams:

    __main__.py    the command: run, once, check-config
    config.py      text of the configuration file -> Settings, or every problem with its line; what is in force now
                   (berth_core.app: agent_config checks it; agent_settings: the only form in which any part sees it)
    observer.py    the current Look (all block devices of the host, one survey); wakes up on events, scans slowly anyway
    declare.py     declared and selected disks -> LocalDisk objects, created where missing, never changed, never deleted
    publish.py     status of every LocalDisk of this node: observed, phase, conditions Matched, Healthy, Ready
    seams.py       what a part is given (Tools) and what it offers (DiskWork, Part)
    disks/         plugged in as DiskWork: health; prepare, mount, unmount, wipe
    devices/       plugged in as Part: LocalDevices, the DRA plugin, CDI

How a part plugs in: agent.py builds `disks.make(tools)` -> DiskWork and `devices.make(tools)` -> Part.

    DiskWork.findings(disk, device)     -> Mapping   quick, no waiting: facts to lay over the device's record before
                                                     the status is made: {"health": "Faulted", "problem": "why"}
    DiskWork.reconcile(disk, device, look) -> float | None
                                                     does the next step(s) of this one disk; never runs twice at once
                                                     for one disk, runs beside those of other disks; seconds until it
                                                     wants to be called again, None: when something changes
    Part.run()                                       runs until cancelled (probe loops, servers, watches)
    Part.wake()                                      the configuration or the hardware changed; must not block

Status has one writer per field: publish.py applies (server-side, field manager "berth-agent") phase, capacity, observed
and the conditions Matched, Healthy, Ready. A part applies its own fields and condition types under a field manager of
its own ("berth-agent-disks", "berth-agent-devices"), through Tools.client. Before each write to a disk and to the API,
a part calls Tools.check(): it raises StateError when this process is not (any more) the one agent of the node.

Nothing here imports ansible. Kernel names are never keys: a disk is found by its identity in the Look of the moment.
"""

from __future__ import annotations

VERSION = "0.2.0"
