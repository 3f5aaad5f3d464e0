"""The KubeSchedulerConfiguration file: read at the start, taken up again when it changes; a bad one is refused.

__main__ calls `load`, and runs `watch` beside the work. Without a file there is one profile, berth-scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from berth_core.config.configuration import KIND, SchedulerConfiguration
from berth_core.config.plugin_args import API_VERSION
from berth_core.errors import InputError
from berth_kube import option_values

from .outside import Extends, known_plugins
from .settings import Settings

_log = logging.getLogger(__name__)

NAME = "berth-scheduler"
LOOK_SECONDS = 2.0
#: A file of ten thousand lines has a tenth of it.
MAX_BYTES = 4 << 20
_DEFAULT: Mapping[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "profiles": [
        {"schedulerName": NAME, "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}},
    ],
}


class Configurations:
    """The file of one process, and the plugins that it may name. Raises InputError where a plugin cannot be loaded."""

    def __init__(self, settings: Settings, check: Callable[[SchedulerConfiguration], None] | None = None) -> None:
        """``check``: raises InputError for what is wrong on this host alone, as files that are missing."""
        self._settings, self._check = settings, check or (lambda _found: None)
        self._path = Path(settings.config) if settings.config else None
        self.table, self._extends = _plugins()
        self._text: bytes | None = None

    def load(self) -> SchedulerConfiguration:
        """The configuration as it stands now. Raises InputError with the path of what is wrong."""
        if self._path is None:
            return self._parse(_DEFAULT)
        self._text = self._read(self._path)
        return self._parse(self._decode(self._text))

    async def watch(self, take: Callable[[SchedulerConfiguration | InputError], None]) -> None:
        """Hand over each changed configuration, or why it is refused, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._path is None:
                continue
            try:
                text = self._read(self._path)
            except InputError as exc:
                if self._text is not None:
                    take(exc)
                self._text = None
                continue
            if text == self._text:
                continue
            self._text = text
            try:
                take(self._parse(self._decode(text)))
            except InputError as exc:
                take(exc)

    def _read(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
        except OSError as exc:
            raise InputError(f"configuration {path} cannot be read: {exc.strerror or exc}") from exc
        if len(text) > MAX_BYTES:
            raise InputError(f"configuration {path} has more than {MAX_BYTES >> 20} MiB: that is no configuration")
        return text

    def _decode(self, text: bytes) -> Mapping[str, Any]:
        try:
            found = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as exc:
            raise InputError(f"configuration {self._path} is not YAML: {' '.join(str(exc).split())}") from exc
        if not isinstance(found, dict):
            raise InputError(f"configuration {self._path}: expected a {KIND}, got {type(found).__name__}")
        return found

    def _parse(self, source: Mapping[str, Any]) -> SchedulerConfiguration:
        found = SchedulerConfiguration.parse(source, self.table, self._extends)
        found.check(self.table)
        self._check(found)
        return replace(found, leader_election=self._election(found, source.get("leaderElection") or {}))

    def _election(self, found: SchedulerConfiguration, given: Mapping[str, Any]) -> Any:
        """kube-scheduler's own Lease is never this daemon's unless the file names it: both may run at once."""
        lease = found.leader_election
        if given.get("resourceName"):
            option_values.check_object_name("leaderElection.resourceName", lease.resource_name, "Lease")
        if given.get("resourceNamespace"):
            option_values.check_namespace("leaderElection.resourceNamespace", lease.resource_namespace)
        return replace(
            lease,
            leader_elect=lease.leader_elect and self._settings.leader_elect,
            resource_name=lease.resource_name if given.get("resourceName") else NAME,
            resource_namespace=lease.resource_namespace if given.get("resourceNamespace") else self._settings.namespace,
        )


def _plugins() -> tuple[Any, Extends]:
    return known_plugins()
