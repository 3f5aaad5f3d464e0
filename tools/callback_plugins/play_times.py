# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints how long each play of a playbook took. `make demo` switches it on; it is no part of the collection."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: play_times
type: aggregate
short_description: The time of each play
description:
  - Prints the seconds of wall time that each play took, after the recap.
"""


class CallbackModule(CallbackBase):
    """Collects (name, start) of every play; what lies between two starts is the first one's time."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "play_times"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._starts: list[tuple[str, float]] = []

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._starts.append((play.get_name(), time.monotonic()))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        del stats
        ends = [start for _name, start in self._starts[1:]] + [time.monotonic()]
        for (name, start), end in zip(self._starts, ends, strict=True):
            self._display.display(f"{end - start:8.1f} s  {name}")
