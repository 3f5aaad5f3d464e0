# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The development cluster: the one implementation behind the command, the Ansible role and the test fixtures.

    Cluster("default").up(hosts=3)      a cluster of that name, in its usual folder
    Cluster(Path("/tmp/x")).up(hosts=0) a cluster in that folder
    Existing(Path("kubeconfig"))        somebody else's cluster: only the parts that need no more than a kubeconfig

This puts the rooms together (binaries, identities, control plane, fake nodes, hosts) and holds the cluster's lock while
it changes the cluster. It never starts a process or makes a resource itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from . import build, kwok, kwok_ready, spec
from .components import GO_ENVIRONMENT
from .control_plane import ADMIN, CORE, GRACEFUL, ControlPlane, choose_ports
from .errors import KubeError, StateError
from .kwok import Shape
from .pki import Pki
from .spec import Spec, lacking, wanted_hosts
from .state import ClusterDir, default_folder

if TYPE_CHECKING:
    from .hosts import HostSet
    from .qemu import Vm

Progress = Callable[[str], None]


class Existing:
    """A cluster that somebody else runs, known by its kubeconfig."""

    def __init__(self, kubeconfig: Path, kubectl: Path | None = None) -> None:
        found = kubectl or shutil.which("kubectl")
        if not kubeconfig.is_file():
            raise StateError(f"kubeconfig {kubeconfig}: no such file")
        self._kubeconfig, self._kubectl = kubeconfig, Path(found) if found else None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._kubeconfig

    @property
    def api_url(self) -> str:
        """The API server's address, of the kubeconfig's current context."""
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        contexts = {entry["name"]: entry["context"]["cluster"] for entry in config["contexts"]}
        clusters = {entry["name"]: entry["cluster"]["server"] for entry in config["clusters"]}
        return str(clusters[contexts[config["current-context"]]])

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints. Raises KubeError with its complaint."""
        if self._kubectl is None:
            raise KubeError(
                "kubectl: not found on PATH; install it, or use a cluster of berth-dev, which brings its own"
            )
        return run_kubectl(self._kubectl, self.kubeconfig, args, stdin)


def kubectl_environment(kubeconfig: Path) -> dict[str, str]:
    """That kubeconfig in the caller's environment; kubectl's discovery cache stays beside it, and nothing in a home."""
    cache = kubeconfig.parent / ".kube-cache"
    return {**GO_ENVIRONMENT, **os.environ, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache)}


def run_kubectl(kubectl: Path, kubeconfig: Path, args: Sequence[str], stdin: str | None) -> str:
    """Run kubectl with that kubeconfig."""
    env = kubectl_environment(kubeconfig)
    done = subprocess.run([str(kubectl), *args], input=stdin, capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:
        raise KubeError(f"kubectl {' '.join(args)}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


class Cluster:
    """One cluster of this machine. Cheap to make; nothing is touched before `up`."""

    def __init__(self, where: str | Path = "default") -> None:
        self.folder = ClusterDir(default_folder(where) if isinstance(where, str) else where)

    # -- up and down -----------------------------------------------------------------------------------------------

    def up(
        self,
        hosts: int | None = None,
        fake_nodes: int = 0,
        version: str | None = None,
        *,
        node_grace: int | None = None,
        progress: Progress = build.quiet,
    ) -> None:
        """Bring the cluster to at least this: starts what is missing or dead, leaves alone what runs.

        `hosts`: None keeps what the cluster has; a new one gets 3, and without root none, which is said.
        `fake_nodes`: at least so many. `node_grace`: seconds of a node's silence until it is NotReady.
        On an error what was made stays, for `status` to show and `down` to remove.
        """
        known = spec.load(self.folder)
        hosts = wanted_hosts(hosts, known, os.geteuid() == 0, progress)
        version = self._version(version, known)
        kwok.checked_count(fake_nodes)
        bin_dir = build.ensure_binaries(version, progress)
        self.folder.create()
        with self.folder.lock():
            self.folder.create()  # again: a `down` that held the lock has removed it
            asked = self._spec(hosts, node_grace, bin_dir, version)
            plane = self._plane(asked)
            if all(self.folder.alive(name) for name in ("etcd", "kube-apiserver")):
                progress(f"cluster {self.folder.name} is up already; looking for what is missing")
            plane.start(progress)
            self._pki.kubeconfig(*ADMIN, plane.settings.api_url, path=self.kubeconfig)
            self._raise_fakes(plane, bin_dir, fake_nodes, progress)
            if hosts:
                self._hostset(asked).up(hosts, progress)

    def down(self, *, progress: Progress = build.quiet) -> bool:
        """Remove everything: hosts, processes, what the journal names, the folder. False when there was nothing."""
        if not self.folder.path.exists():
            return False
        if not self.folder.exists():
            self.folder.remove()  # says why it will not, unless there is nothing in it
            return False
        with self.folder.lock():
            if not self.folder.exists():  # another `down` was faster, and this lock made the folder anew
                shutil.rmtree(self.folder.path)
                return False
            if self.folder.recorded() or (self.folder.path / "data" / "hosts").exists():
                self._hostset(spec.load(self.folder) or Spec()).down()
            for process in self.folder.processes():
                self.folder.stop(process.name, 0)
            self.folder.end_strays()
            self.folder.remove()
        progress(f"cluster {self.folder.name} is down; {self.folder.path} is gone")
        return True

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (0600)."""
        return self.folder.path / "kubeconfig"

    def existing_kubeconfig(self) -> Path:
        """The administrator's kubeconfig. Raises StateError when the cluster is not up."""
        self._known()
        if not self.kubeconfig.exists():
            raise StateError(f"cluster {self.folder.name}: is not up yet; `berth-dev up` finishes it")
        return self.kubeconfig

    @property
    def api_url(self) -> str:
        """Where this machine reaches the API server."""
        return self._known().settings.api_url

    @property
    def bin_dir(self) -> Path:
        """The programs that the cluster runs."""
        return Path(self._known().bin)

    @property
    def ca_cert(self) -> Path:
        """The certificate against which the API server is verified."""
        return self._pki.ca_cert

    def user_kubeconfig(self, cn: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of that user in these groups; what they may do is for RBAC to say."""
        return self._pki.kubeconfig(cn, groups, self.api_url)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints, as the administrator. Raises KubeError with its complaint."""
        return run_kubectl(self.bin_dir / "kubectl", self.kubeconfig, args, stdin)

    def status(self) -> dict[str, Any]:
        """What is there and what runs. Never raises for a cluster that is down or half-made."""
        answer: dict[str, Any] = {
            "name": self.folder.name,
            "folder": str(self.folder.path),
            "kubeconfig": str(self.kubeconfig),
            "exists": False,
        }
        known = spec.load(self.folder)
        if known is None:
            return answer | {"exists": self.folder.exists(), "ready": False}
        plane = self._plane(known)
        with plane.api(timeout=5.0) as api:
            ready = api.ready()
        return answer | {
            "exists": True,
            "version": known.version,
            "api_url": known.settings.api_url,
            "kubectl": str(self.bin_dir / "kubectl"),
            "ready": ready,
            "components": {p.name: {"pid": p.identity.pid, "alive": p.alive} for p in self.folder.processes()},
            "hosts": self.hosts.status() if known.hosts else [],
            "fake_nodes": len(kwok.names(plane)) if ready else None,
        }

    def lacks(self, hosts: int | None = None, fake_nodes: int = 0, version: str | None = None) -> list[str]:
        """What `up` with these arguments would start or make, in words; empty when there is nothing to do.

        Raises what `up` would raise for arguments that cannot be. Changes nothing.
        """
        known = spec.load(self.folder)
        build.cache_key(self._version(version, known))
        wanted = wanted_hosts(hosts, known, os.geteuid() == 0, build.quiet)
        return lacking(self.status(), CORE, wanted, kwok.checked_count(fake_nodes))

    @property
    def hosts(self) -> HostSet:
        """The real hosts. Raises StateError when the cluster has none."""
        known = self._known()
        if not known.hosts:
            raise StateError(f"cluster {self.folder.name}: has no hosts; `berth-dev up --hosts 3` (as root) adds them")
        return self._hostset(known)

    @property
    def vm(self) -> Vm:
        """The virtual machine with real disks, whether it is there or not; it needs no control plane."""
        from .qemu import Vm  # only where it is wanted

        return Vm(self.folder)

    # -- parts of it -----------------------------------------------------------------------------------------------

    def restart_apiserver(self, *, kill: bool = False) -> None:
        """Stop the API server (with `kill`: as a crash would) and start it again on the same address, data kept."""
        with self.folder.lock():
            self._control_plane().restart("kube-apiserver", kill=kill)

    def stop_component(self, name: str, *, kill: bool = False) -> bool:
        """Stop one process of the control plane. False when it did not run."""
        with self.folder.lock():
            return self._control_plane().stop(name, 0 if kill else GRACEFUL)

    def start_component(self, name: str) -> bool:
        """Start one process of the control plane. False when it ran."""
        with self.folder.lock():
            return self._control_plane().ensure(name)

    def port(self, name: str) -> int:
        """Where one process of the control plane listens, on the loopback address."""
        return self._known().settings.ports[name]

    def add_nodes(self, count: int, shape: Shape | None = None, *, wait: bool = True) -> int:
        """Add `count` fake nodes; with `wait` until they are Ready. Returns how many were made."""
        with self.folder.lock():
            plane = self._control_plane()
            started = kwok.ensure_running(plane, self.bin_dir)
            made = kwok.add(plane, count, shape or Shape())
        if wait:
            kwok_ready.wait(plane, max(120.0, count / 10), started=started)
        return made

    def remove_nodes(self, prefix: str = "") -> int:
        """Remove the fake nodes whose names begin with `prefix`. Returns how many."""
        return kwok.remove(self._control_plane(), prefix)

    def fake_nodes(self) -> list[str]:
        """The names of the fake nodes."""
        return kwok.names(self._control_plane())

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _pki(self) -> Pki:
        return Pki(self.folder.path / "data" / "pki")

    def _control_plane(self) -> ControlPlane:
        return self._plane(self._known())

    def _plane(self, known: Spec) -> ControlPlane:
        return ControlPlane(self.folder, self._pki, Path(known.bin), known.settings)

    def _hostset(self, known: Spec) -> HostSet:
        from .hosts import HostSet  # only where hosts are wanted: it asks the machine for much

        return HostSet(self.folder, self._pki, Path(known.bin), known.settings.host_api_url)

    def _raise_fakes(self, plane: ControlPlane, bin_dir: Path, wanted: int, progress: Progress) -> None:
        """At least `wanted` fake nodes; kwok runs when there are any."""
        have = len(kwok.names(plane))
        if wanted or have:
            started = kwok.ensure_running(plane, bin_dir)
            made = kwok.add(plane, max(0, wanted - have), Shape())
            kwok_ready.wait(plane, started=started)
            progress(f"{have + made} fake nodes Ready ({made} new)")

    def _version(self, asked: str | None, known: Spec | None) -> str:
        if known is not None and asked is not None and asked != known.version:
            raise StateError(
                f"cluster {self.folder.name}: runs {known.version}, not {asked}; take it down, or use another name"
            )
        return asked or (known.version if known is not None else build.DEFAULT_VERSION)

    def _spec(self, hosts: int, node_grace: int | None, bin_dir: Path, version: str) -> Spec:
        """What the cluster is now asked to be, written down before anything is started."""
        old = spec.load(self.folder) or Spec()
        new = Spec(
            str(bin_dir),
            version,
            max(hosts, old.hosts),
            old.gateway,
            node_grace or old.node_grace,
            choose_ports(old.ports),
        )
        spec.save(self.folder, new)
        if hosts:
            planned = self._hostset(new)
            planned.plan(hosts)
            new = replace(new, gateway=planned.gateway)
            spec.save(self.folder, new)
        return new

    def _known(self) -> Spec:
        known = spec.load(self.folder)
        if known is None:
            raise StateError(f"cluster {self.folder.name}: is not up ({self.folder.path}); `berth-dev up` starts it")
        return known
