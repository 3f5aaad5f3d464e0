# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the operation of the module task_batch inside the controller."""

from __future__ import annotations

from ..module_utils._glue.task_batch import OPERATION
from ..plugin_utils.in_process import InProcessAction


class ActionModule(InProcessAction):
    """See plugins/modules/task_batch.py."""

    operation = OPERATION
