# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which archives of the cache are given up. `catalog` calls this, under its lock.

Each change of a daemon's source asks for new archives of some hundred megabytes. Of every name the last three stay, for
work that goes back and forth between commits, and those that were used a short time ago: a cluster may be starting.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

KEPT = 3
#: Seconds since its last use in which an archive stays.
IN_USE = 2 * 3600.0


def used(archive: Path) -> bool:
    """Note that it is wanted now, so that nobody gives it up; False: it is not there.

    Another user's read-only cache stays as it is.
    """
    try:
        os.utime(archive)
    except FileNotFoundError:
        return False
    except OSError:
        return archive.exists()
    return True


def superfluous(last_use: Mapping[Path, float], now: float) -> set[Path]:
    """Of archives of one name, with the seconds since the epoch of their last use: those to remove at `now`."""
    latest_first = sorted(last_use, key=lambda path: last_use[path], reverse=True)
    return {path for path in latest_first[KEPT:] if now - last_use[path] > IN_USE}


def prune(folder: Path, name: str) -> None:
    """Remove the archives of image `name` in `folder` that nobody is expected to want again."""
    # The hash has no hyphen, and another name may begin with this one.
    archives = [path for path in folder.glob(f"{name}-*.tar") if path.stem.rpartition("-")[0] == name]
    for path in superfluous({path: path.stat().st_mtime for path in archives}, time.time()):
        if time.time() - path.stat().st_mtime > IN_USE:  # nobody has come to want it meanwhile
            path.unlink()
