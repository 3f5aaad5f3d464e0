# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster is a folder: its processes, its logs and the journal of what it changed on the machine.

`cluster`, `control_plane`, `kwok` and `hosts` call this. It never knows what a process or a resource is for.

    <folder>/berth-dev.json     marks the folder as berth-dev's: nothing without it is ever removed
    <folder>/lock               flock of whoever changes the cluster
    <folder>/resources.json     journal of machine-wide resources, written BEFORE each one is made
    <folder>/run/<name>.json    who each process is (pid, start time, boot)
    <folder>/log/<name>.log     what it said
    <folder>/data/…             for the components: `path / "data" / …`

Every process gets the line BERTH_DEV_CLUSTER=<token> in its environment, which its children inherit. A process whose
starter was killed before it could write the file in run/ is found by that line, so `down` never loses one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import processes
from .errors import StateError
from .processes import Identity

MARKER = "berth-dev.json"
TAG = "BERTH_DEV_CLUSTER"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")

Fact = dict[str, Any]


@dataclass(frozen=True)
class Process:
    """One process of the cluster: its name, who it is (`identity.pid`), whether it runs, its log file."""

    name: str
    identity: Identity
    alive: bool
    log: Path


def default_folder(name: str) -> Path:
    """Where the cluster of that name lives: $XDG_STATE_HOME (or ~/.local/state)/berth-dev/<name>."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "berth-dev" / checked_name(name)


def checked_name(name: str) -> str:
    """The name itself. Raises StateError when it could not be a file name."""
    if not _NAME.match(name):
        raise StateError(f"name {name!r}: expected letters, digits, '.', '_' or '-', at most 63, not '.' or '-' first")
    return name


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file as one step: a reader, or one after the writer's death, sees the old or the new, never a part.

    No fsync: what must be survived is the death of a process, not of the machine (that takes the resources with it).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(temporary, path)


class ClusterDir:
    """The folder of one cluster. Cheap to make; touches nothing until `create()`. Safe to use from several threads."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.name = self.path.name
        self._mutex = threading.RLock()
        self._depth = 0
        self._lock_fd = -1

    # -- the folder ------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """True when the folder is there and is a cluster of berth-dev."""
        return (self.path / MARKER).is_file()

    def _somebody_elses(self) -> bool:
        """Something is there that is not berth-dev's. Who holds the lock has made the folder with it, and no more."""
        if self.exists() or not self.path.exists():
            return False
        return not self.path.is_dir() or any(entry.name != "lock" for entry in self.path.iterdir())

    def create(self) -> None:
        """Make the folder (0700) and its parts. Raises StateError for a folder that holds something else."""
        if self._somebody_elses():
            raise StateError(f"{self.path}: is not empty and has no {MARKER}, so it is not berth-dev's; name another")
        for part in (self.path, self.path / "run", self.path / "log", self.path / "data"):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.exists():
            write_atomically(self.path / MARKER, json.dumps({"name": self.name, "token": secrets.token_hex(16)}))

    def remove(self) -> None:
        """Delete the folder. Refuses one that holds more than a lock and not the marker, or a mount."""
        if not self.path.exists():
            return
        if self._somebody_elses():
            raise StateError(f"{self.path}: has no {MARKER}, so it is not berth-dev's; not removed")
        mounts = mounts_under(self.path)
        if mounts:
            raise StateError(f"{self.path}: still mounted: {', '.join(mounts)}; not removed")
        # The marker goes last: a removal that is cut short can be taken up again.
        for entry in sorted(self.path.iterdir(), key=lambda p: p.name in (MARKER, "lock")):
            remove_tree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        self.path.rmdir()

    @contextlib.contextmanager
    def lock(self, timeout: float = 600.0) -> Iterator[None]:
        """Hold the cluster against every other process and thread. Re-entrant. StateError after `timeout` seconds."""
        with self._mutex:
            if self._depth == 0:
                self._lock_fd = self._take_lock(timeout)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    os.close(self._lock_fd)

    def _take_lock(self, timeout: float) -> int:
        """An open file descriptor that holds the flock of <folder>/lock."""
        until, target = time.monotonic() + timeout, self.path / "lock"
        while True:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # `down` removes the file while others wait for it: then the lock on it is nobody's.
                if target.exists() and os.path.samestat(os.fstat(fd), target.stat()):
                    return fd
            except BlockingIOError:
                if time.monotonic() > until:
                    os.close(fd)
                    raise StateError(f"{self.path}: another berth-dev is at work on this cluster; try again") from None
                time.sleep(0.05)
            os.close(fd)

    # -- processes -------------------------------------------------------------------------------------------------

    @property
    def tag(self) -> str:
        """The environment line that every process of this cluster carries."""
        token: str = json.loads((self.path / MARKER).read_text())["token"]
        return f"{TAG}={token}"

    def log_path(self, name: str) -> Path:
        """The log file of the process of that name."""
        return self.path / "log" / f"{checked_name(name)}.log"

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The last lines that the process said."""
        try:
            with open(self.log_path(name), "rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - 16384))
                return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        pass_fds: Sequence[int] = (),
    ) -> int:
        """Start a process in a session of its own, its output appended to its log. Returns the pid.

        `env` replaces the environment (default: the caller's), the tag is added. StateError when one of that name runs.
        There is no preexec_fn, which is unsafe where threads run: start a wrapper (nsenter, unshare, a script) instead.
        """
        if self.alive(name):
            raise StateError(f"process {name} of {self.path}: runs already")
        key, value = self.tag.split("=")
        with open(self.log_path(name), "ab", opener=_private) as log:
            child = subprocess.Popen(
                [os.fspath(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**(os.environ if env is None else env), key: value},
                cwd=cwd,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        pid = child.pid
        # It outlives this process by design: keep Popen from waiting for it, or from warning that it still runs.
        child.returncode = 0
        who = processes.identity(pid)
        if who is None:
            processes.reap(pid)
            raise StateError(f"process {name} of {self.path}: ended at once:\n{self.log_tail(name)}")
        write_atomically(self._run_file(name), json.dumps(asdict(who)))
        return pid

    def pid(self, name: str) -> int | None:
        """The pid of the running process of that name, or None."""
        who = self._identity(name)
        return who.pid if who is not None and processes.alive(who) else None

    def alive(self, name: str) -> bool:
        """True when the very process that was started under that name runs."""
        return self.pid(name) is not None

    def stop(self, name: str, timeout: float = 10.0, *, group: bool = False) -> bool:
        """TERM, wait, KILL (at once with timeout 0), forget. False: it did not run. A recycled pid is left alone."""
        who = self._identity(name)
        if who is None:
            return False
        ended = processes.end(who, timeout, group=group)
        self._run_file(name).unlink(missing_ok=True)
        return ended

    def processes(self) -> list[Process]:
        """Everything that was started and not stopped, by name, dead ones too."""
        found = []
        for file in sorted((self.path / "run").glob("*.json")):
            who = self._identity(file.stem)
            if who is not None:
                found.append(Process(file.stem, who, processes.alive(who), self.log_path(file.stem)))
        return found

    def end_strays(self) -> int:
        """KILL every process that carries this cluster's tag, recorded or not. Returns how many."""
        try:
            return processes.end_tagged(self.tag)
        except TimeoutError as error:
            raise StateError(f"{self.path}: these processes cannot be ended: {error}") from error

    def _run_file(self, name: str) -> Path:
        return self.path / "run" / f"{checked_name(name)}.json"

    def _identity(self, name: str) -> Identity | None:
        try:
            return Identity(**json.loads(self._run_file(name).read_text()))
        except FileNotFoundError:
            return None

    # -- the journal -----------------------------------------------------------------------------------------------

    def record(self, kind: str, ident: str, /, **facts: Any) -> None:
        """Write down a machine-wide resource BEFORE it is made (netns, link, loop, mount, cgroup, sysctl with `old`).

        The same kind and id again: the new facts are added to the old ones, so an old sysctl value is to be kept by
        the caller (`recorded` first). Order of first recording is kept: undo in reverse.
        """

        def change(entries: list[Fact]) -> None:
            for entry in entries:
                if entry["kind"] == kind and entry["id"] == ident:
                    entry.update(facts)
                    return
            entries.append({"kind": kind, "id": ident, **facts})

        self._change_journal(change)

    def forget(self, kind: str, ident: str, /) -> None:
        """Strike a resource out AFTER it is gone. Not recorded: nothing happens."""

        def change(entries: list[Fact]) -> None:
            entries[:] = [e for e in entries if (e["kind"], e["id"]) != (kind, ident)]

        self._change_journal(change)

    def recorded(self, kind: str | None = None) -> list[Fact]:
        """What is written down (of that kind), oldest first: dicts with `kind`, `id` and the facts."""
        try:
            entries: list[Fact] = json.loads((self.path / "resources.json").read_text())
        except FileNotFoundError:
            return []
        return [entry for entry in entries if kind is None or entry["kind"] == kind]

    def _change_journal(self, change: Callable[[list[Fact]], None]) -> None:
        """Read, change and replace the journal under a lock of its own (threads and processes)."""
        fd = os.open(self.path / "resources.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            entries = self.recorded()
            change(entries)
            write_atomically(self.path / "resources.json", json.dumps(entries, indent=1))
        finally:
            os.close(fd)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def remove_tree(root: Path, workers: int = 16) -> None:
    """As shutil.rmtree, from many folders at a time, and what goes meanwhile is as good as removed.

    A disk that is told of every block that is free again (mount option discard) answers late, but to many at a time:
    the files of a host's images are gone in a sixth of the time.
    """

    def remove(folder: str) -> None:
        """The folders in it are gone already."""
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(folder)

    levels: dict[int, list[str]] = {}
    for folder, _folders, _files in os.walk(root):
        levels.setdefault(folder.count(os.sep), []).append(folder)
    with ThreadPoolExecutor(workers) as pool:
        for level in sorted(levels, reverse=True):
            list(pool.map(remove, levels[level]))


def mounts_under(path: Path, table: str = "/proc/self/mounts") -> list[str]:
    """Mount points at or under a folder, deepest first."""
    prefix = str(path)
    with open(table, encoding="utf-8", errors="surrogateescape") as stream:
        points = [line.split(" ")[1].replace("\\040", " ") for line in stream]
    return sorted((p for p in points if p == prefix or p.startswith(prefix + "/")), key=len, reverse=True)
