# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error tree of the development cluster. Everything raises these; `cli` prints them as one line.

DevError                 anything that a user of berth-dev can be told in one sentence
+-- StateError           the cluster's folder: not berth-dev's, busy, unreadable
+-- BuildError           a binary could not be built
+-- ComponentError       a process did not start, or died
+-- KubeError            the API server refused or did not answer
+-- HostError            a real host: its network, disks, processes
+-- KindError            a kind cluster: what was asked for, Docker, a node
"""

from __future__ import annotations


class DevError(Exception):
    """Names the object, what was wrong, what was expected and what to do."""


class StateError(DevError):
    """The cluster's folder is not berth-dev's, is busy, or cannot be read."""


class BuildError(DevError):
    """A binary could not be built."""


class ComponentError(DevError):
    """A process did not start, or died."""


class KubeError(DevError):
    """The API server refused a request or did not answer."""


class HostError(DevError):
    """Something about a real host: its network, disks or processes."""


class KindError(DevError):
    """A kind cluster: what was asked for cannot be had, or Docker or a node failed."""
