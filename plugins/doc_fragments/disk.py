# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a disk, written once and put where each module has them, as module_utils/_glue/disk_options.py says.

A fragment's options stand at the top level of a module. Where a module takes a list of disks, they are its suboptions:
the same text, further to the right. (The attributes are annotated because ansible-test's yamllint reads every plain
assignment here, and can read literals alone; that the texts are good YAML, ansible-doc and antsibull-docs find out.)
"""

from __future__ import annotations

from textwrap import indent

_KEYS = """\
wwn:
  description: World wide name, as C(lsblk -o WWN) shows it.
  type: str
serial:
  description: Serial number, as C(lsblk -o SERIAL) shows it.
  type: str
model:
  description: Model, as C(lsblk -o MODEL) shows it. It does not name a disk by itself.
  type: str
size:
  description:
    - Size in bytes, or as a quantity (V(480103981056), V(512Mi)). It must be exact. It does not name a disk by itself.
  type: str
by_path:
  description:
    - Name of the link below C(/dev/disk/by-path), for disks without serial number and WWN. It names a slot, not a disk.
  type: str
"""
_SETTINGS = """\
storage_class:
  description: StorageClass whose claims the disk can fill.
  type: str
volume_mode:
  description: Whether pods get a filesystem on the disk, or the bare device.
  type: str
  choices: [Filesystem, Block]
fs_type:
  description: The filesystem that is made on the disk when a berth first holds it. Not with a V(Block) volume.
  type: str
  choices: [ext4, xfs]
mount_options:
  description: Options to mount the filesystem with.
  type: list
  elements: str
reclaim_policy:
  description:
    - What becomes of the data when a claim without an app is deleted whose StorageClass says V(Delete), too.
      V(Delete) asks the node agent to wipe, by O(@wipe_method). The data of an app is always kept.
  type: str
  choices: [Retain, Delete]
wipe_method:
  description:
    - How thoroughly the node agent wipes a disk with reclaim policy V(Delete). V(signatures), which counts where
      nothing is said, leaves the data on the disk. V(auto) discards or overwrites every block.
  type: str
  choices: [auto, signatures, discard, zero, random]
reserved:
  description: Keep the disk out of every berth.
  type: bool
labels:
  description:
    - Labels of the LocalDisk, for the disk selectors of applications. Labels that are not named are left alone.
  type: dict
"""
_RESERVED = """\
reserved:
  description: Keep the disk out of every berth.
  type: bool
"""
_NAME = """\
name:
  description:
    - Name of the LocalDisk.
    - By default made from the node's name and the strongest key of the identity, so that the same disk in the same
      node always has the same name.
  type: str
"""
_DISK = f"""\
{_NAME}node_name:
  description: Node that the disk is in. It never changes.
  type: str
identity:
  description:
    - The keys that tell the disk from all others. All that are given must match.
    - A new LocalDisk needs the size and one of wwn, serial and by_path. The identity of a LocalDisk never changes.
  type: dict
  suboptions:
{indent(_KEYS, "    ")}\
{_SETTINGS}observed:
  description:
    - What the host has just reported of this disk, a record of M(berth.stateful.block_device_info).
    - An empty mapping means that the disk was looked for and not found. When left out, the status is not touched.
  type: dict
"""


def _under(path: str, options: str) -> str:
    """The options as suboptions of ``path``, an option with a list of disks."""
    return indent(options.replace("O(@", f"O({path}[]."), "      ")


class ModuleDocFragment:
    #: one disk, at the top level (local_disk)
    DOCUMENTATION: str = f"""
options:
{indent(_DISK.replace("O(@", "O("), "  ")}"""

    #: the wipe of one (local_disk)
    WIPE: str = f"""
options:
  wipe:
    description:
      - Destroy what is on the disk. The agent of its node does it, and only while nobody holds the disk and nothing
        has it mounted.
      - A disk that keeps the data of a replica is wiped with O(force_retained=true) alone.
      - Asking for it wants the right to create C(localdisks/wipe) of C(berth.dev). The ClusterRole C(berth-disk-wiper)
        has it.
      - Every task asks for a new wipe, unless one is under way; that one is waited for then.
    type: dict
    suboptions:
      identity:
        description:
          - The identity once more. At least one of wwn, serial and by_path, and all that are given must match.
        type: dict
        required: true
        suboptions:
{indent(_KEYS, "          ")}\
      method:
        description: How thoroughly. Without it, as O(wipe_method) of the LocalDisk says.
        type: str
        choices: [auto, signatures, discard, zero, random]
      request_id:
        description:
          - A name for this wipe. Given again, it asks for nothing and waits for that wipe.
          - By default a new one every time.
        type: str
      requested_by:
        description: Who asks; recorded with the wipe. By default the user and host that run the task.
        type: str"""

    #: several (local_disk)
    LIST: str = f"""
options:
  disks:
    description:
      - Several disks at once, each with the options above, in place of them.
      - O(node_name) goes for those that do not name their own.
    type: list
    elements: dict
    suboptions:
{_under("disks", _DISK)}"""

    #: the disk in place of another (disk_replace)
    NEW: str = f"""
options:
  new:
    description:
      - The new disk. It is on the node of the old one, and what is not said is as the old one's.
      - C(volumeMode) and C(fsType) cannot differ.
    type: dict
    required: true
    suboptions:
{indent(_NAME, "      ")}\
      identity:
        description: The identity that the new disk must have; the size, and at least one of wwn, serial and by_path.
        type: dict
        required: true
        suboptions:
{indent(_KEYS, "          ")}\
{indent(_SETTINGS.replace("O(@", "O(new.").replace(_RESERVED, ""), "      ")}"""

    #: what should be there (local_disk_info)
    DECLARED: str = f"""
options:
  declared:
    description:
      - The disks that should be there, as O(berth.stateful.local_disk#module:disks) takes them and
        M(berth.stateful.local_disk_plan) returns them (RV(berth.stateful.local_disk_plan#module:declared)).
      - All LocalDisks of the nodes named here, and of O(node_name), are compared. A disk with C(observed) is
        compared with that report of the host, else with the status of its LocalDisk.
    type: list
    elements: dict
    suboptions:
{_under("declared", _DISK)}"""

    #: what an inventory says (local_disk_plan)
    INVENTORY: str = f"""
options:
  disks:
    description: Disks by their identity, as in the host variable C(berth_disks).
    type: list
    elements: dict
    suboptions:
{_under("disks", _NAME + _KEYS + _SETTINGS)}
  selectors:
    description:
      - Disks by what they are, as in the host variable C(berth_disk_selectors). Of several that find a disk the
        first one counts, and an entry of O(disks) counts before all.
    type: list
    elements: dict
    suboptions:
      query:
        description:
          - JMESPath expression that filters O(block_devices).
          - LocalDisks of this node look to it as they did when they were adopted, blank and unmounted.
        type: str
        required: true
{_under("selectors", _SETTINGS)}"""
