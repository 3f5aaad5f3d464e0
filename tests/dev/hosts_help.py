"""Reaching the hosts of a development cluster from a test as a user does: by ssh, and with kubectl."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable
from typing import Any

from berth_dev.cluster import Cluster


def ssh(cluster: Cluster, host: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a shell command on a host with the inventory's own settings."""
    inventory = cluster.hosts.inventory()["berth_hosts"]
    shared, address = inventory["vars"], inventory["hosts"][host]["ansible_host"]
    options = [*shlex.split(shared["ansible_ssh_common_args"]), "-i", shared["ansible_ssh_private_key_file"]]
    argv = ["ssh", *options, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", f"{shared['ansible_user']}@{address}"]
    done = subprocess.run([*argv, command], capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{host}: {command}: exit {done.returncode}: {done.stderr}")
    return done


def out(cluster: Cluster, host: str, command: str) -> str:
    """What a command on a host prints."""
    return ssh(cluster, host, command).stdout.strip()


def eventually(test: Callable[[], Any], seconds: float = 30.0, what: str = "it") -> Any:
    """The first true result of `test`, tried until then. Fails the test after `seconds`."""
    until, pause = time.monotonic() + seconds, 0.1
    while True:
        try:
            result = test()
        except Exception:  # an answer that is not there yet is tried again, and shown when time is up
            if time.monotonic() > until:
                raise
            result = None
        if result:
            return result
        assert time.monotonic() < until, f"{what}: not within {seconds:.0f} s"
        time.sleep(pause)
        pause = min(0.5, 1.3 * pause)  # most looks are a kubectl, which takes the processor from what is waited for


def apply(cluster: Cluster, *objects: dict[str, Any]) -> None:
    """Create or update objects."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def get(cluster: Cluster, *what: str) -> Any:
    """An object as JSON."""
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def pod(name: str, node: str, command: str, **spec: Any) -> dict[str, Any]:
    """A busybox pod on a node. `volumes`, `mounts`, `devices`, `privileged` by name."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "volumeMounts": spec.get("mounts", []),
        "volumeDevices": spec.get("devices", []),
        "securityContext": {"privileged": spec.get("privileged", False)},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": spec.get("volumes", []),
        },
    }


def running(cluster: Cluster, name: str) -> dict[str, Any]:
    """Wait until the pod runs; the object."""

    def test() -> Any:
        found = get(cluster, "pod", name)
        return found if found["status"].get("phase") == "Running" else None

    result: dict[str, Any] = eventually(test, 40, f"pod {name} Running")
    return result


def logs(cluster: Cluster, name: str) -> str:
    """What the pod has printed: through the API server and kubelet's verified, authorized port."""
    return cluster.kubectl("logs", name).strip()


def node_ready(cluster: Cluster, name: str) -> str:
    """The status of the node's Ready condition."""
    conditions = get(cluster, "node", name)["status"]["conditions"]
    return next(str(c["status"]) for c in conditions if c["type"] == "Ready")
