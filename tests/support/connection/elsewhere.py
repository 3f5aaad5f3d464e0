# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection that is not called local: whatever runs over it runs as an ordinary module, as on another machine."""

from __future__ import annotations

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: elsewhere
short_description: local under another name
description: [Local under another name.]
"""


class Connection(Local):
    transport = "elsewhere"
