# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images made on this machine, without a registry: see `catalog`."""

from __future__ import annotations

from .catalog import default_set, ensure, recipes

__all__ = ["default_set", "ensure", "recipes"]
