#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: block_device_info
short_description: Report the block devices of a host
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Reads what the kernel, udev and lsblk know about every block device of the host, disks and partitions, with the
    Python
    standard library alone. Nothing is written.
  - Of the content of a device only its signatures are read, by C(blkid -p), as root, and only where udev knows of
    none.
  - Memory disks, optical drives, floppies and loop devices without a file are left out.
options:
  probe:
    description:
      - Whether C(blkid) looks for signatures where udev knows of none. A disk that nobody has looked into is not
        usable.
      - By default it does when the module runs as root.
    type: bool
attributes:
  check_mode:
    description: Changes nothing anyway.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
seealso:
  - module: berth.stateful.local_disk_plan
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: What is there
  berth.stateful.block_device_info:
  register: found

- name: The disks that could be taken
  ansible.builtin.debug:
    msg: "{{ found.block_devices | selectattr('usable') | map(attribute='path') }}"
"""

RETURN = r"""
block_devices:
  description: Disks and partitions, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: Name of the kernel. It may be another one after a reboot., type: str, sample: sdb}
    path: {description: Device node., type: str, sample: /dev/sdb}
    number: {description: Major and minor number., type: str, sample: "8:16"}
    type: {description: "Kind of device (disk, part, loop, lvm, crypt, mpath) as lsblk names it.", type: str,
    sample: disk}
    parent: {description: The disk of a partition., type: str, sample: ""}
    by_id: {description: Names of the links below C(/dev/disk/by-id)., type: list, elements: str}
    by_path: {description: Names of the links below C(/dev/disk/by-path)., type: list, elements: str}
    wwn: {description: World wide name., type: str, sample: "0x5002538e00000001"}
    serial: {description: Serial number., type: str, sample: S5H9NS0N986704}
    model: {description: Model., type: str, sample: Samsung SSD 870}
    vendor: {description: Vendor., type: str, sample: ATA}
    transport: {description: How it is attached., type: str, sample: ata}
    kernel:
      description: >-
        What the kernel itself says of the disk; compared again when it is open. C(diskseq) counts disks and media since
        the boot.
      type: dict
      sample: {wwid: naa.5002538e00000001, serial: S5H9NS0N986704, diskseq: 12}
    size: {description: Bytes., type: int, sample: 480103981056}
    rotational: {description: Whether it is a spinning disk., type: bool}
    removable: {description: Whether its medium can be taken out., type: bool}
    read_only: {description: Whether the kernel refuses writes., type: bool}
    fstype:
      description: >-
        Filesystem or other signature; C(data) where there is none, and the first or last 64 KiB are not all zeros.
      type: str
      sample: ext4
    fsuuid: {description: UUID of the filesystem., type: str}
    label: {description: Label of the filesystem., type: str}
    pttype: {description: Partition table., type: str, sample: gpt}
    partitions: {description: Names of the partitions., type: list, elements: str}
    mounts: {description: Where it is mounted., type: list, elements: str}
    partly_mounted: {description: Nothing but binds of folders inside it are left of its mounts., type: bool}
    holders: {description: Devices that the kernel builds on this one., type: list, elements: str}
    slaves: {description: Devices that this one is built on., type: list, elements: str}
    swap: {description: Whether it is swapped to., type: bool}
    is_system: {description: "Whether it or what is built on it carries the running system.", type: bool}
    health: {description: "Healthy, Faulted or Unknown.", type: str, sample: Healthy}
    problem: {description: What is wrong with it., type: str}
    usable: {description: "Whether it is a blank, healthy disk that nobody uses.", type: bool}
    refusals: {description: Why it is not usable., type: list, elements: str, sample: ["it is mounted at /srv"]}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.berth_host.block_devices import survey
from ..module_utils.berth_host.machine import Machine


def main() -> None:
    module = AnsibleModule(argument_spec={"probe": {"type": "bool"}}, supports_check_mode=True)
    module.exit_json(changed=False, block_devices=survey(Machine(), module.params["probe"]))


if __name__ == "__main__":
    main()
