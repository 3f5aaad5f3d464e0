# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs here: playbook, task and commit, for the history of berths. What is not known is left out.

Called by in_process.py. Starts no process: the commit is read from git's own files. Never fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
#: A file of git that says more than this is none.
_MOST = 1 << 20


def ran(task: Any, task_vars: Mapping[str, Any]) -> dict[str, str]:
    """``playbook``: the file's name. ``task``: its name, unless the task is not to be logged."""
    folder = task_vars.get("playbook_dir")
    found = {
        "playbook": _playbook(task),
        "task": "" if task.no_log else str(task.name or ""),
        "commit": commit(str(folder)) if folder else "",
    }
    return {key: value for key, value in found.items() if value}


def _playbook(task: Any) -> str:
    """Empty of an ad hoc task, which is in no file."""
    parent = task
    while getattr(parent, "_parent", None) is not None:
        parent = parent._parent
    play = getattr(parent, "_play", None)
    path = play.get_path() if play is not None else None
    return os.path.basename(re.sub(r"(:\d+)+$", "", str(path))) if path else ""


def commit(folder: str) -> str:
    """The commit that is checked out in the git work tree around ``folder``; empty where there is none."""
    try:
        git = _git(os.path.realpath(folder))
        head = _read(os.path.join(git, "HEAD")) if git else ""
        name = head[len("ref: ") :] if head.startswith("ref: ") else ""
        found = _of_ref(git, name) if name else head
    except (OSError, ValueError):
        return ""
    return found if _COMMIT.fullmatch(found) else ""


def _git(folder: str) -> str:
    """The folder of git's files; of a linked work tree, that of the work tree."""
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        if os.path.isfile(path):
            return os.path.join(folder, _read(path)[len("gitdir: ") :])
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _of_ref(git: str, name: str) -> str:
    common = os.path.join(git, "commondir")
    folders = [git, os.path.join(git, _read(common))] if os.path.isfile(common) else [git]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return _read(path)
    packed = os.path.join(folders[-1], "packed-refs")
    lines = _read(packed).splitlines() if os.path.isfile(packed) else []
    return next((line.split(" ")[0] for line in lines if line.split(" ")[1:] == [name]), "")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read(_MOST).strip()
