"""The peer of claim/dynamic: rancher's local-path-provisioner, built from its Go module and run as it ships.

Its own manifest's rights, ConfigMap and command line; only the process is outside the cluster, as berth-controller's
is, and the image of its helper pods is the development cluster's busybox, because nothing is pulled. Called by
claims.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from berth_dev import build, toolchain
from tests.support.agent import kubeconfig

from .ground import say

MODULE = "github.com/rancher/local-path-provisioner"
VERSION = "v0.0.30"
SOURCE = Path(__file__).parent / "localpath"
NEEDED_GO = (1, 25, 0)
NAMESPACE, ACCOUNT = "local-path-storage", "local-path-provisioner-service-account"
PROVISIONER = "rancher.io/local-path"
NAME = f"local-path-provisioner {VERSION}"
FOLDER = "/opt/local-path-provisioner"
_SETUP = '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n'
_TEARDOWN = '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n'


def program() -> Path:
    """The provisioner, built once and kept beside the development cluster's programs."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCE.iterdir()))).hexdigest()[:16]
    cache = build.cache_folder()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = cache / f"local-path-{digest}"
    if not target.exists():
        say(f"building {NAME}")
        go = toolchain.find_go(cache, NEEDED_GO, say)
        fresh = cache / f".local-path-{digest}.{os.getpid()}"
        argv = [str(go), "build", "-trimpath", "-o", str(fresh), MODULE]
        subprocess.run(argv, cwd=SOURCE, env=toolchain.environment(), check=True, stdin=subprocess.DEVNULL)
        os.rename(fresh, target)
    return target


@contextmanager
def running(cluster: Any, folder: Path) -> Iterator[None]:
    """A provisioner with the rights of its own service account, on the real hosts of that cluster."""
    provisioner = program()
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(_manifests()))
    settings = folder / "local-path"
    settings.mkdir(mode=0o700)
    (settings / "token").write_text(cluster.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=7200s"))
    who = settings / "kubeconfig"
    who.write_text(kubeconfig(cluster, cluster.api_url, str(settings / "token")))
    for name, text in _config().items():
        (settings / name).write_text(text)
    argv = [str(provisioner), "--debug", "start", "--config", str(settings / "config.json")]
    argv += ["--kubeconfig", str(who), "--helper-pod-file", str(settings / "helperPod.yaml")]
    with (folder / "local-path.log").open("ab") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _config() -> dict[str, str]:
    """What its ConfigMap has, file by file."""
    paths = [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [FOLDER]}]
    container = {"name": "helper-pod", "image": "berth.local/busybox:1", "imagePullPolicy": "IfNotPresent"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {"priorityClassName": "system-node-critical", "containers": [container]},
    }
    return {
        "config.json": json.dumps({"nodePathMap": paths}),
        "setup": _SETUP,
        "teardown": _TEARDOWN,
        "helperPod.yaml": yaml.safe_dump(pod),
    }


def _manifests() -> list[dict[str, Any]]:
    """Its deploy/local-path-storage.yaml without the Deployment."""
    name, everything = "local-path-provisioner-role", ["get", "list", "watch", "create", "patch", "update", "delete"]
    reading = everything[:3]
    rights = [
        _rule("", ["nodes", "persistentvolumeclaims", "configmaps", "pods", "pods/log"], reading),
        _rule("", ["persistentvolumes"], everything),
        _rule("", ["events"], ["create", "patch"]),
        _rule("storage.k8s.io", ["storageclasses"], reading),
    ]
    whose = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _object("v1", "ServiceAccount", ACCOUNT),
        _object(rbac, "Role", name, rules=[_rule("", ["pods"], everything)]),
        _object(rbac, "RoleBinding", name, roleRef=_ref("Role", name), subjects=[whose]),
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rights},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": _ref("ClusterRole", name),
            "subjects": [whose],
        },
        _object("v1", "ConfigMap", "local-path-config", data=_config()),
    ]


def _object(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **more}


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
