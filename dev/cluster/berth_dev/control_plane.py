# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts, watches and stops the control plane's processes. `cluster` calls this; it knows no hosts and no fake nodes.

What is already as it should be is left alone: `start()` starts what is dead, and restarts what runs with another
command line than is asked for now (the API server, when a cluster gets its first hosts).
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from .components import COMPONENTS, KUBELET_API_GROUP, LOOPBACK, PORT_NAMES, Context, Settings, environment
from .errors import ComponentError, StateError
from .kubeapi import KubeApi
from .pki import Pki
from .state import ClusterDir, write_atomically

CORE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
ADMIN = ("berth-dev:admin", ("system:masters",))
# Below the kernel's ephemeral ports (32768) and the NodePorts (30000): nothing else takes one by chance.
PORTS = range(20000, 29900)

# Seconds. An API server ends the short requests that it has within this; it would then wait for watches, for a minute.
GRACEFUL = 5.0

Progress = Callable[[str], None]

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def choose_ports(known: Mapping[str, int]) -> dict[str, int]:
    """A free port for each name that has none yet. Those that are known stay, so that addresses survive a restart."""
    ports = dict(known)
    for name in PORT_NAMES:
        if name not in ports:
            ports[name] = free_port(ports.values())
    return ports


def free_port(taken: Collection[int] = ()) -> int:
    """A port that nobody listens on, and that is not in `taken`."""
    while True:
        candidate = random.choice(PORTS)  # noqa: S311 (not a secret)
        if candidate not in taken and _free(candidate):
            return candidate


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 (only to see whether anybody has it)
        except OSError:
            return False
    return True


class ControlPlane:
    """The control plane of one cluster folder."""

    def __init__(self, folder: ClusterDir, pki: Pki, bin_dir: Path, settings: Settings) -> None:
        self.folder = folder
        self.pki = pki
        self.settings = settings
        self._context = Context(bin_dir, folder.path / "data", pki, settings)

    def api(self, timeout: float = 30.0) -> KubeApi:
        """A client of the API server as the cluster's administrator."""
        return KubeApi(self.settings.api_url, self.pki.ca_cert, self.pki.client(*ADMIN), timeout)

    def start(self, progress: Progress, timeout: float = 60.0) -> None:
        """All of the control plane, ready. Raises ComponentError with the end of the log of what is not."""
        began = time.monotonic()
        for name in reversed(CORE):  # clients first: an API server without etcd would take long to end
            if self._stale(name):
                self.stop(name)
        changed = [name for name in ("etcd", "kube-apiserver") if self.ensure(name)]
        self.wait_ready(timeout)
        if changed:
            progress(f"API server ready after {time.monotonic() - began:.1f} s: {self.settings.api_url}")
        self._allow_kubelet_api()
        managers = [name for name in ("kube-controller-manager", "kube-scheduler") if self.ensure(name)]
        for name in managers:
            self._wait(name, lambda name=name: self._healthy(name), timeout)  # type: ignore[misc]
        self._wait("kube-controller-manager", self._default_account, timeout)
        if changed or managers:
            progress(f"control plane ready after {time.monotonic() - began:.1f} s")

    def ensure(self, name: str) -> bool:
        """Start the component, or restart it when its command line has changed. False when nothing was to be done."""
        if self._stale(checked(name)):
            self.stop(name)
        if self.folder.alive(name):
            return False
        argv = COMPONENTS[name](self._context)
        write_atomically(self._remembered(name), json.dumps(argv))
        environ = {**environment(name), **os.environ}
        self.folder.spawn(name, argv, env=environ, cwd=self.folder.path / "data")
        return True

    def _stale(self, name: str) -> bool:
        """True when the component runs, but with another command line than is asked for now."""
        if not self.folder.alive(name):
            return False
        remembered = self._remembered(name)
        text = remembered.read_text(encoding="utf-8") if remembered.exists() else "null"
        return bool(json.loads(text) != COMPONENTS[name](self._context))

    def _remembered(self, name: str) -> Path:
        return self.folder.path / "data" / f"{name}.argv.json"

    def stop(self, name: str, timeout: float = GRACEFUL) -> bool:
        """TERM and wait: the API server ends the requests that it has. KILL after `timeout` seconds, at once with 0."""
        return self.folder.stop(checked(name), timeout)

    def restart(self, name: str, *, kill: bool = False, timeout: float = 60.0) -> None:
        """Stop (with `kill`: as a crash would), start, and wait until the API server is ready again."""
        self.stop(name, 0 if kill else GRACEFUL)
        self.ensure(name)
        self.wait_ready(timeout)

    def stop_all(self) -> None:
        """End everything at once, clients before servers. Nothing is lost: etcd has written what it has answered."""
        for name in reversed(COMPONENTS):
            self.folder.stop(name, 0)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Until /readyz says ok. Raises ComponentError with the log's end."""
        with self.api(timeout=5.0) as api:
            self._wait("kube-apiserver", api.ready, timeout, needs=("etcd",))

    def _wait(self, name: str, ready: Callable[[], bool], timeout: float, needs: tuple[str, ...] = ()) -> None:
        """Poll until `ready()`. A process that has ended is not waited for."""
        until = time.monotonic() + timeout
        while not ready():
            for process in (*needs, name):
                if not self.folder.alive(process):
                    raise self.failure(process, "ended instead of becoming ready")
            if time.monotonic() > until:
                raise self.failure(name, f"is not ready after {timeout:.0f} s")
            time.sleep(0.05)

    def failure(self, name: str, what: str) -> ComponentError:
        """The error for a component, with the end of its log."""
        log = self.folder.log_path(name)
        return ComponentError(f"{name}: {what}. The end of {log}:\n{self.folder.log_tail(name)}")

    def _healthy(self, name: str) -> bool:
        """True when the component's own /healthz (open to everybody) says ok; its certificate is verified."""
        context = ssl.create_default_context(cafile=str(self.pki.ca_cert))
        url = f"https://{LOOPBACK}:{self.settings.ports[name]}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=5.0, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _default_account(self) -> bool:
        """True when pods can be made in the default namespace: admission wants its service account."""
        with self.api() as api:
            path = "/api/v1/namespaces/default/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
            return bool(api.request("GET", path)["items"])

    def _allow_kubelet_api(self) -> None:
        """Let the API server's own identity do at kubelets what logs, exec and metrics need, and nothing else."""
        name = "berth-dev:kubelet-api"
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:kubelet-api-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": KUBELET_API_GROUP}],
        }
        with self.api() as api:
            api.create(f"{_RBAC}/clusterrolebindings", binding)


def checked(name: str) -> str:
    """The component's name. Raises StateError for one that does not exist."""
    if name not in COMPONENTS:
        raise StateError(f"component {name!r}: expected one of {', '.join(COMPONENTS)}")
    return name
