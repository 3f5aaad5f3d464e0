# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of a pod group, as the lightweight form of scheduler-plugins has them: its name, and its least members.

The plugin Coscheduling reads them, and berth-tasks writes them for gangs.
"""

from __future__ import annotations

GROUP = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
