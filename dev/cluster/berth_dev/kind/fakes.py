# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake nodes beside the real ones of a kind cluster. `cluster` calls this, which calls `kwok`.

kwok runs on this machine as a process of the cluster's folder, with an identity and rights of its own. The nodes are
tainted: what must run somewhere comes to a real one, and only what tolerates the taint to them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .. import build, kwok, kwok_ready
from ..components import kwok_flags, words
from ..errors import ComponentError
from ..kubeapi import KubeApi
from ..pki import Pair
from ..state import ClusterDir, write_atomically
from .docker import Docker

PROCESS = "kwok"
SHAPE = kwok.Shape(tainted=True, zones=3)


class Fakes:
    """The fake nodes of the cluster in `folder`; `control_plane` is the node that signs kwok's certificate."""

    def __init__(self, folder: ClusterDir, docker: Docker, control_plane: str) -> None:
        self.folder, self._docker, self._control_plane = folder, docker, control_plane

    # -- what kwok.Home asks for -------------------------------------------------------------------------------------

    def api(self, timeout: float = 30.0) -> KubeApi:
        """As the administrator."""
        cluster, user = _parts(yaml.safe_load((self.folder.path / "kubeconfig").read_text()))
        authority = self._file("authority.crt", cluster["certificate-authority-data"])
        pair = Pair(
            self._file("admin.crt", user["client-certificate-data"]), self._file("admin.key", user["client-key-data"])
        )
        return KubeApi(cluster["server"], authority, pair, timeout)

    def ensure(self, name: str) -> bool:
        """Start kwok if it does not run."""
        if self.folder.alive(name):
            return False
        argv = words(build.ensure_binaries() / name, kwok_flags(self._kubeconfig(), self._data))
        self.folder.spawn(name, argv, cwd=self._data)
        return True

    def failure(self, name: str, what: str) -> ComponentError:
        """With the end of its log."""
        return ComponentError(f"{name}: {what}. The end of its log:\n{self.folder.log_tail(name)}")

    # -- what the cluster asks for -----------------------------------------------------------------------------------

    def lacks(self, wanted: int) -> list[str]:
        """What `fill` would do, a line each."""
        if kwok.checked_count(wanted) == 0:
            return []
        missing = wanted - len(kwok.names(self))
        idle = not self.folder.alive(PROCESS) and missing < wanted
        return ([f"{missing} fake nodes"] if missing > 0 else []) + (["kwok"] if idle else [])

    def fill(self, wanted: int) -> None:
        """At least so many fake nodes, Ready."""
        started = kwok.ensure_running(self, build.ensure_binaries())
        kwok.add(self, max(0, wanted - len(kwok.names(self))), SHAPE)
        kwok_ready.wait(self, started=started)

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _data(self) -> Path:
        return self.folder.path / "data"

    def _file(self, name: str, encoded: str) -> Path:
        path = self._data / name
        write_atomically(path, base64.b64decode(encoded).decode())
        return path

    def _kubeconfig(self) -> Path:
        """kubeadm makes the certificate, by the cluster's own authority; the address is that of this machine."""
        argv = ["kubeadm", "kubeconfig", "user", "--config", "/kind/kubeadm.conf", "--client-name", PROCESS]
        theirs = yaml.safe_load(self._docker("exec", self._control_plane, *argv))
        ours = yaml.safe_load((self.folder.path / "kubeconfig").read_text())
        theirs["clusters"][0]["cluster"] = _parts(ours)[0]
        path = self._data / "kwok.kubeconfig"
        write_atomically(path, json.dumps(theirs))
        return path


def stop(folder: ClusterDir) -> None:
    """End kwok; the nodes go with the cluster."""
    folder.stop(PROCESS, 0)


def _parts(kubeconfig: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cluster and user of a kubeconfig that has one of each."""
    return kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
