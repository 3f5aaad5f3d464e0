"""The configuration in force: read when the file changes, refused as a whole, the last good one kept.

Asked by `agent` on every poll and on SIGHUP. The last good text is also kept in the state directory, so that an agent
that starts with a broken file goes on as before. Never writes the file itself.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from berth_core.app.agent_config import Checked
from berth_core.app.agent_settings import FIXED, Settings
from berth_core.app.yaml_lines import Problem
from berth_core.errors import InputError

from .config_check import check_text

LOG = logging.getLogger("berth_agent.config")
LAST_GOOD = "configuration.last-good.yaml"


class InForce(NamedTuple):
    """What the status says. ``problem`` is why the file as it is now is not the one in force; empty when it is."""

    digest: str
    since: str
    problem: str
    problems: tuple[str, ...] = ()


class Configuration:
    """One host's configuration.

    ``paths``: the first that exists is read. ``node``: as the command line says, or empty; a file that says otherwise
    is refused. ``clock``: RFC 3339.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        node: str,
        state_directory: str,
        clock: Callable[[], str],
    ) -> None:
        self.paths, self.node, self.clock = list(paths), node, clock
        self.settings = Settings(node=node, state_directory=state_directory)
        self.in_force = InForce("", "", "")
        self._read: Any = None
        self._seen: Any = None

    def start(self) -> None:
        """Take the file, or else the last good one. Raises InputError with every problem when there is neither."""
        if self.reload():
            return
        problems = self.in_force.problems
        kept = self._last_good()
        try:
            text = kept.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(
                f"{self.path()}: {'; '.join(problems)}. There is no last good configuration to go on with",
                problems=list(problems),
            ) from None
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            raise InputError(
                f"{self.path()}: {'; '.join(problems)}. And the last good one, {kept}, cannot be read: {why}",
                problems=list(problems),
            ) from exc
        checked = self._check(text)
        if checked.settings is None:
            told = "; ".join(map(str, checked.problems))
            raise InputError(
                f"{self.path()}: {'; '.join(problems)}. And the last good one, {kept}, is not read any more: {told}",
                problems=list(problems),
            )
        self.settings = checked.settings
        self.in_force = InForce(checked.digest, self.clock(), self.in_force.problem, problems)
        LOG.error("%s; goes on with the last good configuration %s", self.in_force.problem, checked.digest)

    def path(self) -> Path:
        """The file that is read: the first that exists, else the first."""
        return next((path for path in self.paths if os.path.exists(path)), self.paths[0])

    def poll(self) -> bool:
        """Reload if the file is another one than the one last read, and has been so since the last poll.

        A file that is being written is left alone until it stays the same. Returns whether the settings changed.
        """
        stamp = self._stamp()
        settled, self._seen = stamp == self._seen, stamp
        return self.reload() if settled and stamp != self._read else False

    def reload(self) -> bool:
        """Read the file now. Returns whether its settings are in force and were not before; never raises."""
        self._read = self._seen = self._stamp()
        try:
            text = self.path().read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            return self._refuse("", [f"cannot be read: {why}"])
        checked = self._check(text)
        if checked.settings is None:
            return self._refuse(checked.digest, [str(problem) for problem in checked.problems])
        return self._take(checked.settings, checked.digest, text)

    def _check(self, text: str) -> Checked:
        checked = check_text(text)
        if checked.settings is None:
            return checked
        settings = dataclasses.replace(
            checked.settings,
            node=checked.settings.node or self.node,
            state_directory=self.settings.state_directory,
        )
        problems = list(self._fixed(settings))
        if not settings.node:
            problems.append(Problem(1, "node is missing, and no --node-name is given: expected the name of the Node"))
        return checked._replace(settings=None if problems else settings, problems=problems)

    def _fixed(self, settings: Settings) -> list[Problem]:
        """What a running agent, or the command line, has settled already."""
        found = []
        for key in FIXED:
            wanted, has = attrgetter(key)(settings), attrgetter(key)(self.settings)
            settled = bool(self.in_force.digest) or key == "node"
            if settled and has and wanted != has:
                found.append(Problem(1, f"{key} is {wanted!r}, and this agent runs with {has!r}: restart it"))
        return found

    def _take(self, settings: Settings, digest: str, text: str) -> bool:
        if digest == self.in_force.digest:
            self.in_force = self.in_force._replace(problem="", problems=())
            return False
        self.settings = settings
        self.in_force = InForce(digest, self.clock(), "")
        LOG.info("configuration %s of %s is in force", digest, self.path())
        self._keep(text)
        return True

    def _refuse(self, digest: str, problems: list[str]) -> bool:
        told = f"{self.path()}{f' ({digest})' if digest else ''} is refused: {'; '.join(problems)}"
        if told != self.in_force.problem and self.in_force.digest:  # before, `start` tells of it
            LOG.error("%s; %s stays in force", told, self.in_force.digest)
        self.in_force = self.in_force._replace(problem=told, problems=tuple(problems))
        return False

    def _last_good(self) -> Path:
        return Path(self.settings.state_directory) / LAST_GOOD

    def _keep(self, text: str) -> None:
        """Keep what is in force, whole or not at all. A full disk must not stop a reload."""
        target = self._last_good()
        fresh = target.with_suffix(".new")
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, target)
        except OSError as exc:
            LOG.warning("%s cannot be kept for the next start: %s", target, exc.strerror)

    def _stamp(self) -> Any:
        """What tells that a file is another one than before: inode, size, time of change."""
        try:
            status = os.stat(self.path())
        except OSError:
            return None
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
