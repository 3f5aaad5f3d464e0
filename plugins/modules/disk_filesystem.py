#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: disk_filesystem
short_description: Make and mount the filesystem of a held local disk on its host
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Runs on the host that has the disk, as root. Makes the filesystem that belongs on a LocalDisk that a berth holds,
    mounts it, and lets it come back after a reboot by a line in C(/etc/fstab).
  - The disk is found by its identity, just before it is touched. A filesystem is made in one case alone - the disk is
    blank, nobody uses it, and its lock says that no data has ever been put on it (C(dataUID) is the holder's C(uid)).
  - The UUID of the filesystem is derived from C(dataUID) and the name of the LocalDisk. A disk that carries it is
    mounted
    and never formatted; a disk that carries anything else is refused. A blank disk that should carry data is refused.
  - A filesystem that was there before berth (M(berth.stateful.stateful_app_adoption)) has its own UUID on record
    (C(filesystemUUID)) and is never formatted. While its host mounts it for the volume of before nothing is done with
    it. Mounted here later, it is the folder C(.berth-data) that pods get, into which a person has moved the data.
  - Pods get the folder C(data) inside the filesystem, so that a disk that is not mounted is never taken for an empty
    volume. The folder is writable for every user, since a pod without C(fsGroup) may run as any; the folder of all
    disks
    is open to root alone.
  - A PersistentVolume names the folder by a link that the namespace of the lock has, and no other
    (C(/var/lib/berth/disks/.namespaces/DISK/NAMESPACE)). It lies beside the mount points. A link of another namespace
    is removed before the disk is mounted; anything else that lies there is refused.
  - For a C(Block) volume nothing is made; identity and use are checked.
  - Right before V(prepared) touches a disk, the LocalDisk is read again on the controller. It is refused where its lock
    is another one than that of O(disk), where the Berth that holds it is not Reserved yet or is being deleted, and
    where a node agent leads on the node or runs on the host, which makes the filesystems itself. The host gets no
    credentials.
options:
  disk:
    description:
      - The LocalDisk, as the API server has it just now (C(metadata), C(spec) and C(status)).
    type: dict
    required: true
  state:
    description:
      - V(prepared) makes and mounts the filesystem.
      - V(unmounted) unmounts it and removes the line from C(/etc/fstab) and the link of the namespace. It never changes
        what is on the disk, and is refused while a pod uses it.
    type: str
    choices: [prepared, unmounted]
    default: prepared
  mount_root:
    description: Folder below which every disk is mounted, under the name of its LocalDisk.
    type: path
    default: /var/lib/berth/disks
  agent_state_directory:
    description: The state directory of a node agent on this host. While a disk is prepared no agent begins there.
    type: path
    default: /var/lib/berth/agent
extends_documentation_fragment:
  - berth.stateful.auth
attributes:
  check_mode:
    description: Says what would be done, and refuses what would be refused.
    support: full
  diff_mode:
    description: Shows filesystem, mount and line of fstab.
    support: full
requirements:
  - mkfs.ext4 or mkfs.xfs, blkid, mount
seealso:
  - module: berth.stateful.local_disk
"""

EXAMPLES = r"""
- name: The held disks of this host
  berth.stateful.local_disk_info:
    node_name: "{{ inventory_hostname }}"
    query: "[?spec.claimRef]"
  delegate_to: localhost
  register: held

- name: Their filesystems
  berth.stateful.disk_filesystem:
    disk: "{{ item }}"
  loop: "{{ held.result }}"
  loop_control:
    label: "{{ item.metadata.name }}"
  become: true
"""

RETURN = r"""
actions:
  description: What was done (in check mode, would be done).
  returned: success
  type: list
  elements: str
  sample: [formatted, namespace link, mounted, fstab, data directory]
device:
  description: The disk's device node now.
  returned: with O(state=prepared)
  type: str
  sample: /dev/sdb
uuid:
  description: UUID of the filesystem; empty for a Block volume.
  returned: with O(state=prepared)
  type: str
volume_path:
  description: The path for the PersistentVolume.
  returned: with O(state=prepared)
  type: str
  sample: /var/lib/berth/disks/.namespaces/n1-9f86d08188/databases
"""

import contextlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._glue.auth import AUTH_ARGUMENT_SPEC
from ..module_utils.berth_core.app.disk_record import check_local_disk
from ..module_utils.berth_core.app.fsid import DEFAULT_MOUNT_ROOT, mount_point, namespace_link
from ..module_utils.berth_core.errors import BerthError, InputError
from ..module_utils.berth_host.agent_lock import STATE_DIRECTORY, no_agent
from ..module_utils.berth_host.filesystems import prepare
from ..module_utils.berth_host.machine import Machine
from ..module_utils.berth_host.unmounting import unmount


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "disk": {"type": "dict", "required": True},
            "state": {"type": "str", "choices": ["prepared", "unmounted"], "default": "prepared"},
            "mount_root": {"type": "path", "default": DEFAULT_MOUNT_ROOT},
            "agent_state_directory": {"type": "path", "default": STATE_DIRECTORY},
            **AUTH_ARGUMENT_SPEC,  # the action plugin's, who keeps their values
        },
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except BerthError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    except OSError as exc:
        module.fail_json(msg=f"disk_filesystem: {exc.filename or 'the host'}: {exc.strerror}")
    module.exit_json(**result)


def run(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    check_local_disk(params["disk"], "disk")
    name, lock = params["disk"]["metadata"]["name"], params["disk"]["spec"].get("claimRef")
    mount_point(name, params["mount_root"])
    if lock:
        namespace_link(name, lock["namespace"], params["mount_root"])
    if not params["agent_state_directory"].startswith("/"):
        raise InputError(
            f"agent_state_directory is {params['agent_state_directory']!r}: "
            f"expected an absolute path, as {STATE_DIRECTORY}"
        )
    prepared = params["state"] == "prepared"
    change = prepare if prepared else unmount
    with no_agent(params["agent_state_directory"]) if prepared and not check_mode else contextlib.nullcontext():
        outcome = change(Machine(), params["disk"], params["mount_root"], check_mode)
    result: dict[str, Any] = {"changed": bool(outcome.done), "actions": outcome.done}
    if outcome.plan is not None:
        result.update(device=outcome.plan.device, uuid=outcome.plan.uuid, volume_path=outcome.plan.path)
    if outcome.done:
        header = f"LocalDisk {params['disk']['metadata']['name']}"
        result["diff"] = {
            "before_header": header,
            "after_header": header,
            "before": outcome.before,
            "after": outcome.after,
        }
    return result


if __name__ == "__main__":
    main()
