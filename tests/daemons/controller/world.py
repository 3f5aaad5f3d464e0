"""A world for the controller on the real control plane: classes, disks and claims, and the controller as a process.

The process is `python -m berth_controller` with a token of its own service account and nothing else, so that its RBAC
is what deploy/controller says. Everything that a world makes bears its name, and goes when it is cleared.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ConflictError, NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.support.kube import forget

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "controller"
NAMESPACE, ACCOUNT = "berth-system", "berth-controller"
#: Twice as long as a node is held back for a pod that it could not take (held_back.SECONDS), and less than half of what
#: passes until a claim is visited, or a parked pod tried, without being woken (300 s each): a lost wake-up fails.
PATIENCE = 120.0
#: Seconds between the first two looks of `until`, and between all of them for what is over soon.
MIDST = 0.05
GI = 1 << 30
OBSERVED = {"devicePath": "/dev/sdx", "health": "Healthy"}


def until(
    condition: Callable[[], Any], what: str | Callable[[], Any], patience: float = PATIENCE, longest: float = 0.3
) -> Any:
    """The first true value of the condition. Looks come less and less often: most are requests, or start a program in
    a host, which takes the processor from what is waited for.

    ``longest``: seconds between two looks at most; `MIDST` where a test goes on in the midst of what it has seen.
    """
    end, pause = time.monotonic() + patience, MIDST
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {patience:.0f} s: {what() if callable(what) else what}"
        time.sleep(pause)
        pause = min(longest, 1.5 * pause)


def kubeconfig(control_plane: Any, admin: ApiClient, path: Path, server: str | None = None) -> Path:
    """Of the controller's service account; ``server``: another way to the API server."""
    body = {"metadata": {"name": ACCOUNT, "namespace": NAMESPACE}, "spec": {"expirationSeconds": 7200}}
    token = admin.create(kinds.SERVICE_ACCOUNT, body, subresource="token")["status"]["token"]
    cluster = yaml.safe_load(Path(control_plane.kubeconfig).read_text())["clusters"][0]["cluster"]
    cluster = {**cluster, "server": server or cluster["server"]}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": str(token)}}],
    }
    path.write_text(yaml.safe_dump(content))
    path.chmod(0o600)
    return path


class Started(Protocol):
    """What tests use of subprocess.Popen."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


def anew(argv: Sequence[str], own: Mapping[str, str], log: int) -> Started:
    """`python -m` with these arguments. ``own``: what is added to this process's environment."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **own}
    return subprocess.Popen([sys.executable, "-m", *argv], stdout=log, stderr=log, cwd=ROOT, env=environment)


class Process:
    """One controller, or another daemon with a ``command``. Ends with the test, whatever happens.

    ``start``: how, if not anew (`prepared.started`).
    """

    def __init__(
        self,
        config: Path,
        log: Path,
        *flags: str,
        module: str = "berth_controller",
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start: Callable[[Sequence[str], Mapping[str, str], int], Started] = anew,
    ) -> None:
        self.log = log
        argv = [module, *command, "--kubeconfig", str(config), "--port", "0", *flags]
        with log.open("ab") as stream:
            self.process = start(argv, environment or {}, stream.fileno())

    def text(self) -> str:
        return self.log.read_text()

    def rescued(self) -> list[str]:
        """What a resync of the controller has found to do although no change had told of it: a wake-up is missing
        (berth_controller_resync_rescues_total)."""
        return [line for line in self.text().splitlines() if "a resync found" in line]

    def works(self) -> Process:
        """Wait until it leads and its caches are filled."""
        until(lambda: " works as " in self.text() or self.process.poll() is not None, self.text)
        assert self.process.poll() is None, self.text()
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit status, when it has ended by itself."""
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class World:
    """Talks to the API server as the administrator."""

    def __init__(self, admin: ApiClient, name: str) -> None:
        self.api, self.name = admin, name
        self.api.create(kinds.NAMESPACE, {"metadata": {"name": name}})

    # -- making ----------------------------------------------------------------------------------------------------

    def storage_class(self, waits: bool = False, policy: str = "Retain", suffix: str = "") -> str:
        body = {
            "metadata": {"name": f"{self.name}{suffix}"},
            "provisioner": "local.berth.dev",
            "reclaimPolicy": policy,
            "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        }
        self.api.create(kinds.STORAGE_CLASS, body)
        return str(body["metadata"]["name"])  # type: ignore[index]

    def disk(self, node: str, index: int | str, size: int = 2 * GI, phase: str = "Available", **spec: Any) -> str:
        name = f"{self.name}-{node}-{index}"
        body = {
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "LocalDisk",
            "metadata": {"name": name, "labels": {"berth.dev/test": self.name}},
            "spec": {
                "nodeName": node,
                "identity": {"serial": f"S-{name}", "size": size},
                "storageClassName": self.name,
                "fsType": "ext4",
                **spec,
            },
        }
        self.api.create(kinds.LOCAL_DISK, body)
        self.observe(name, phase)
        return name

    def observe(self, disk: str, phase: str) -> None:
        """What an agent says of the disk."""
        status = {"metadata": {}, "status": {"phase": phase, "observed": OBSERVED}}
        self.api.patch(kinds.LOCAL_DISK, disk, None, status, "status")

    def claim(self, name: str, size: str = "1Gi", storage_class: str | None = None, **spec: Any) -> dict[str, Any]:
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {**self._claim_spec(size, storage_class), **spec},
        }
        return self.api.create(kinds.PVC, body)

    def _claim_spec(self, size: str, storage_class: str | None) -> dict[str, Any]:
        return {
            "storageClassName": storage_class or self.name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }

    def pod(self, name: str, *claims: str, **spec: Any) -> dict[str, Any]:
        """A pod for the stock scheduler; fake nodes run it."""
        volumes = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": one}} for number, one in enumerate(claims)
        ]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {
                "containers": [{"name": "main", "image": "none"}],
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "volumes": volumes,
                **spec,
            },
        }
        return self.api.create(kinds.POD, body)

    def stateful_set(self, name: str, claim: str) -> dict[str, Any]:
        """One replica with a claim of its own."""
        template = {"metadata": {"name": claim}, "spec": self._claim_spec("1Gi", None)}
        container = {"name": "main", "image": "none", "volumeMounts": [{"name": claim, "mountPath": "/data"}]}
        pod = {"containers": [container], "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}
        spec = {
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            "volumeClaimTemplates": [template],
        }
        return self.api.create(kinds.STATEFUL_SET, {"metadata": {"name": name, "namespace": self.name}, "spec": spec})

    # -- looking ---------------------------------------------------------------------------------------------------

    def get_claim(self, name: str) -> dict[str, Any]:
        return self.api.get(kinds.PVC, name, self.name)

    def bound(self, name: str) -> dict[str, Any] | None:
        """The claim, once it is Bound."""
        claim = self.get_claim(name)
        return claim if (claim.get("status") or {}).get("phase") == "Bound" else None

    def wait_bound(self, *names: str) -> list[dict[str, Any]]:
        return [until(lambda one=one: self.bound(one), lambda one=one: self.story(one)) for one in names]

    def disks(self) -> dict[str, dict[str, Any]]:
        found = self.api.list(kinds.LOCAL_DISK, labels=f"berth.dev/test={self.name}")
        return {one["metadata"]["name"]: one for one in found}

    def locks(self) -> dict[str, dict[str, Any]]:
        """disk -> lock."""
        return {name: one["spec"]["claimRef"] for name, one in self.disks().items() if one["spec"].get("claimRef")}

    def berths(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.api.list(kinds.BERTH, self.name)}

    def volumes(self) -> dict[str, dict[str, Any]]:
        found = self.api.list(kinds.PV, labels=f"berth.dev/namespace={self.name}")
        return {one["metadata"]["name"]: one for one in found}

    def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, note) of what was told of an object; those of things of the cluster are in default."""
        found = [*self.api.list(kinds.EVENT, self.name), *self.api.list(kinds.EVENT, "default")]
        return [
            (one["reason"], one.get("note") or "") for one in found if (one.get("regarding") or {}).get("name") == name
        ]

    def told(self, name: str, reason: str, words: str = "") -> bool:
        return any(one == reason and words in note for one, note in self.events(name))

    def story(self, name: str) -> str:
        return f"{self.get_claim(name)} {self.events(name)}"

    def held(self) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """The uid of the Berth behind each lock, by LocalDisk, and the Berths by uid. No two locks have the same Berth.

        A later list may be newer: only locks that exist before and after the Berths are listed are returned.
        """
        before = self.locks()
        uids = [lock["uid"] for lock in before.values()]
        assert len(uids) == len(set(uids)), f"one berth holds two disks: {before}"
        alive = {one["metadata"]["uid"]: one for one in self.berths().values()}
        after = {(disk, lock["uid"]) for disk, lock in self.locks().items()}
        return {disk: lock["uid"] for disk, lock in before.items() if (disk, lock["uid"]) in after}, alive

    def check(self) -> None:
        """What holds at every moment: one living berth behind each lock, one volume for each claim at most."""
        held, alive = self.held()
        for disk, uid in held.items():
            assert uid in alive, f"{disk} is held by a berth that is gone: {uid}"
            assert [one["name"] for one in alive[uid]["spec"]["disks"]] == [disk]
        volumes, locks, later = self.volumes(), self.locks(), self.volumes()
        for name in volumes.keys() & later.keys():
            if (volumes[name].get("status") or {}).get("phase") != "Released":
                notes = volumes[name]["metadata"]["annotations"]
                disk, uid = notes["berth.dev/local-disk"], notes["berth.dev/berth-uid"]
                assert locks.get(disk, {}).get("uid") == uid, f"{name} is over {disk}, whose lock is {locks.get(disk)}"

    # -- removing --------------------------------------------------------------------------------------------------

    def delete(self, resource: Any, name: str) -> None:
        if resource == kinds.LOCAL_DISK:
            forget(self.api, resource, name)
            return
        with contextlib.suppress(NotFoundError):
            self.api.delete(resource, name, self.name if resource.namespaced else None)

    def clear(self) -> None:
        """Everything of this world, by name, whether or not a controller is there to let go of it."""
        for one in self.api.list(kinds.STATEFUL_SET, self.name):
            self.delete(kinds.STATEFUL_SET, one["metadata"]["name"])
        for one in self.api.list(kinds.POD, self.name):
            self.delete(kinds.POD, one["metadata"]["name"])
        for one in self.api.list(kinds.PVC, self.name):
            self.delete(kinds.PVC, one["metadata"]["name"])
        until(lambda: not self.api.list(kinds.PVC, self.name), "the claims do not go")
        for name in self.berths():
            self.delete(kinds.BERTH, name)
            self._unpin(name)
        for name in self.volumes():
            self.delete(kinds.PV, name)
        for name in self.disks():
            self.delete(kinds.LOCAL_DISK, name)
        for one in self.api.list(kinds.STORAGE_CLASS):
            if one["metadata"]["name"].startswith(self.name):
                self.delete(kinds.STORAGE_CLASS, one["metadata"]["name"])
        self.delete(kinds.NAMESPACE, self.name)

    def _unpin(self, name: str) -> None:
        with contextlib.suppress(NotFoundError, ConflictError):
            self.api.patch(kinds.BERTH, name, self.name, {"metadata": {"finalizers": None}})


def install(control_plane: Any) -> None:
    """Rights and CSIDriver, as the deployment has them."""
    for file in ("rbac.yaml", "csidriver.yaml"):
        control_plane.kubectl("apply", "-f", str(DEPLOY / file))
