# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that a person is told to run for a disk that is not well, as they stand in docs/guides/replace_disk.md.

Called by who tells pods and claims of their disks. Runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping


def replace_disk(disk: str) -> str:
    """Another disk in its place: SERIAL and SIZE are the new one's."""
    new = '{"identity": {"serial": "SERIAL", "size": "SIZE"}}'
    return f"""ansible localhost -m berth.stateful.disk_replace -a '{{"name": "{disk}", "new": {new}}}'"""


def give_lock_up(disk: str) -> str:
    """The lock of a Berth that is gone; the data on it is kept in its name."""
    return f"ansible localhost -m berth.stateful.local_disk -a 'name={disk} state=released'"


def give_data_up(disk: str) -> str:
    """Nobody's data is on it any more, so that its claim is given another disk."""
    return f"ansible localhost -m berth.stateful.local_disk -a 'name={disk} state=released force_retained=true'"


def destroy_data(disk: str, identity: Mapping[str, str]) -> str:
    """The data that the disk keeps is overwritten or discarded, and the disk is anybody's. The identity is repeated."""
    asked = {
        "name": disk,
        "force_retained": True,
        "wipe": {"identity": dict(identity), "method": "auto"},
    }
    return f"ansible localhost -m berth.stateful.local_disk -a '{json.dumps(asked)}'"


def uncordon(disk: str) -> str:
    """The disk may be given out again: to whom its data belongs, or to anybody where it keeps none."""
    return f"""kubectl patch localdisk {disk} --type merge --patch '{{"spec": {{"unschedulable": false}}}}'"""


def delete_pods(names: Iterable[str], namespace: str) -> str:
    """They stop, and a claim that is going goes with the last of them: until then no new pod is made on it."""
    return f"kubectl delete pod {' '.join(names)} -n {namespace}"


def show_claim(name: str, namespace: str) -> str:
    """Who uses a claim, and its finalizers."""
    return f"kubectl describe pvc {name} -n {namespace}"


def mend(disk: str) -> str:
    """What to do about a disk that is held and not well, for the end of a message."""
    return f"mend it, or put another one in its place, which comes up empty: {replace_disk(disk)}"
