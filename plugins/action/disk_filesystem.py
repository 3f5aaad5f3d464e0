# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the LocalDisk anew on the controller, right before the module touches the disk on its host.

Credentials stay on the controller. A filesystem is made for the lock that the play has seen, or not at all.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._glue.arguments import check_shapes
from ..module_utils._glue.auth import AUTH_ARGUMENT_SPEC
from ..module_utils._glue.disk_fence import fenced
from ..module_utils.berth_core.app.disk_record import check_local_disk
from ..module_utils.berth_core.errors import BerthError
from ..plugin_utils.connecting import connect, in_the_clear

display = Display()
_NAMES = {name: name for name in AUTH_ARGUMENT_SPEC}
_NAMES.update((alias, name) for name, spec in AUTH_ARGUMENT_SPEC.items() for alias in spec.get("aliases", ()))


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Called by Ansible once per host and item."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        given = in_the_clear(self._task.args)
        arguments = {name: value for name, value in given.items() if name not in _NAMES}
        access = {_NAMES[name]: value for name, value in given.items() if name in _NAMES}
        try:
            # What is no mapping at all, the module's own check of its arguments names.
            if arguments.get("state", "prepared") == "prepared" and isinstance(arguments.get("disk"), dict):
                check_local_disk(arguments["disk"], "disk")
                check_shapes(AUTH_ARGUMENT_SPEC, access)
                client = connect(access.get, self._loader, os.getcwd(), os.environ, display.warning)
                arguments["disk"] = fenced(client, arguments["disk"], datetime.now(timezone.utc))
        except BerthError as exc:
            return {**result, "failed": True, "msg": exc.message, **exc.details}
        except AnsibleError as exc:
            return {**result, "failed": True, "msg": f"disk_filesystem: {exc}"}
        answer: dict[str, Any] = self._execute_module(
            module_name="berth.stateful.disk_filesystem", module_args=arguments, task_vars=task_vars
        )
        return {**result, **answer}
