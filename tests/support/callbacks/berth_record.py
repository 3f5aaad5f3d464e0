# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes every task result that Ansible reports to a file, one JSON object a line, for tests/support/playbook.py."""

from __future__ import annotations

import json
import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: berth_record
type: aggregate
short_description: records results for tests
description: [Records results for tests.]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "berth_record"
    CALLBACK_NEEDS_ENABLED = True

    def _record(self, kind: str, result) -> None:
        host = result._host.get_name()
        line = {
            "kind": kind,
            "host": host,
            "task": result._task.get_name(),
            "at": time.time(),
            "result": result._result,
        }
        with open(os.environ["BERTH_RECORD"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, default=str) + "\n")

    def v2_runner_on_ok(self, result) -> None:
        self._record("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors: bool = False) -> None:
        self._record("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_unreachable(self, result) -> None:
        self._record("unreachable", result)

    def v2_runner_on_skipped(self, result) -> None:
        self._record("skipped", result)
