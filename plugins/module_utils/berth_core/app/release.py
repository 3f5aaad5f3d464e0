# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release this is, and what a version says of another one. Called by the module installation_check."""

from __future__ import annotations

from ..errors import SelectorError
from ..model.semver import Version

#: As in galaxy.yml; tests/tools/test_one_version.py holds them together.
VERSION = "0.2.0"


def version_of_image(image: str) -> str:
    """The version that an image's tag says; empty where it says none."""
    name = image.partition("@")[0]
    tag = name[name.rfind(":") + 1 :] if name.rfind(":") > name.rfind("/") else ""
    text = tag.removeprefix("v")
    return text if _parsed(text) else ""


def other_release(version: str) -> int:
    """1: of a newer release line (major and minor) than this one, -1: of an older one; 0: of the same, or unknown."""
    theirs, ours = _parsed(version), Version.parse(VERSION)
    if theirs is None:
        return 0
    return (theirs.order[:2] > ours.order[:2]) - (theirs.order[:2] < ours.order[:2])


def _parsed(text: str) -> Version | None:
    try:
        return Version.parse(text)
    except SelectorError:
        return None
