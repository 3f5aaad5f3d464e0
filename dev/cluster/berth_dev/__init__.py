# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The development cluster: a real Kubernetes on one machine. `cluster.Cluster` is the way in; `cli` is its command."""
