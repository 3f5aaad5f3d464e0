# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host as these modules see it: small files of the kernel, and commands. All of berth_host goes through it.

``root`` is another folder than / when somebody looks into the tree of a machine that is not running (tests do, with the
recorded trees of hardware that is not here). Changes nothing by itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: A dead disk can hold a process for minutes: no question about a disk is worth more than this.
TIMEOUT_SECONDS = 20.0
_KILLED_SECONDS = 1.0
NOT_STARTED = 127
TIMED_OUT = 124


class Answer(NamedTuple):
    """What a command said: exit status, standard output and standard error."""

    status: int
    out: str
    err: str

    def why(self) -> str:
        """The reason of a failure, in one line."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return "; ".join(lines[-3:]) or f"exit status {self.status}"


class Machine:
    """One host, looked at from inside."""

    def __init__(self, root: str = "/", host_root: str = "") -> None:
        """``host_root``: where a container sees the whole tree of its host; empty: the process is on the host."""
        self.root, self.host_root = root, host_root.rstrip("/")
        self.is_running = os.path.realpath(root) == "/"

    def path(self, name: str) -> str:
        """Where ``name`` (absolute, on the host) is for this process."""
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name: str) -> str:
        """The text of a file, stripped; empty where there is none or the kernel refuses (a dying disk's)."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def read_bytes(self, name: str, limit: int) -> bytes:
        """The beginning of a file; empty where there is none or the kernel refuses."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read(limit)
        except OSError:
            return b""

    def read_whole(self, name: str) -> str:
        """The text of a file as it is; empty where there is none. What cannot be read is an error."""
        if not self.exists(name):
            return ""
        with open(self.path(name), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()

    def number(self, name: str) -> int:
        """The number in a file, 0 where there is none."""
        text = self.read(name)
        return int(text) if text.isdigit() else 0

    def names(self, name: str) -> list[str]:
        """The sorted names in a folder; none where there is no such folder."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        """Whether the host has it."""
        return os.path.lexists(self.path(name))

    def run(self, argv: Sequence[str], timeout: float = TIMEOUT_SECONDS, keep: Sequence[int] = ()) -> Answer:
        """Run a command of the host (never a shell's text), in the C locale. ``keep``: open files that it inherits."""
        missing = Answer(NOT_STARTED, "", f"{argv[0]} is not installed on this host")
        if not self.is_running:
            return missing
        try:
            # Not run_command: daemons have no module, and it waits for one that a dead disk keeps (decision 0004).
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=_environment(),
                pass_fds=tuple(keep),
            )
        except (FileNotFoundError, PermissionError):
            return missing
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            # A dead disk keeps a process in the kernel, killed or not: it is not waited for (subprocess.run would).
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_KILLED_SECONDS)
            return Answer(TIMED_OUT, "", f"{argv[0]} gave no answer within {timeout:.0f} s")
        return Answer(process.returncode, out, err)

    def start(self, argv: Sequence[str], extra: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a command and do not wait for it. Raises FileNotFoundError. Its owner reads and ends it.

        ``extra``: more of the environment. It gets a process group of its own, and pipes for its three streams.
        """
        if not self.is_running:
            raise FileNotFoundError(2, "is not installed on this host", argv[0])
        pipe = subprocess.PIPE
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**_environment(), **(extra or {})},
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "LANG": "C", "PATH": _search_path()}


def _search_path() -> str:
    """PATH with the administrator's folders: a login over ssh often lacks them."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])
