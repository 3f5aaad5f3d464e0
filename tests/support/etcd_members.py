"""An etcd of three members, one a host, as the template of an app; and a writer that knows what it was acknowledged.

The members have the addresses of their hosts, where no Service has to be resolved; the program is the one that every
host of the development cluster has.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import threading
import time
from typing import Any

from tests.dev.hosts_help import eventually

CLIENTS, PEERS = 2379, 2380
#: A member that says nothing for so long is left for the next one.
SILENCE = 2.0
#: Ten a second are enough around each fault.
PAUSE = 0.1


def addresses(cluster: Any) -> dict[str, str]:
    return {host: one["ansible_host"] for host, one in cluster.hosts.inventory()["berth_hosts"]["hosts"].items()}


def template(cluster: Any, **container: Any) -> dict[str, Any]:
    """Of the pods. Ready is a member that knows a leader and can read what a quorum has; not one that misses a beat."""
    peers = ",".join(f"{host}=http://{address}:{PEERS}" for host, address in addresses(cluster).items())
    flags = {
        "name": "$(NODE)",
        "data-dir": "/data/member",
        "initial-cluster": peers,
        "initial-advertise-peer-urls": f"http://$(ADDRESS):{PEERS}",
        "listen-peer-urls": f"http://$(ADDRESS):{PEERS}",
        "advertise-client-urls": f"http://$(ADDRESS):{CLIENTS}",
        "listen-client-urls": f"http://$(ADDRESS):{CLIENTS}",
        "election-timeout": "2000",
        "heartbeat-interval": "200",
    }
    where = {"NODE": "spec.nodeName", "ADDRESS": "status.hostIP"}
    main = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["/opt/k/etcd", *(f"--{name}={value}" for name, value in flags.items())],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in where.items()],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": CLIENTS},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "programs", "mountPath": "/opt/k"}],
        **container,
    }
    spec = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 5,
        "containers": [main],
        "volumes": [{"name": "programs", "hostPath": {"path": "/opt/k", "type": "Directory"}}],
    }
    return {"spec": spec}


def ask(address: str, call: str, **body: Any) -> Any:
    """Raises OSError and http.client.HTTPException where the member is away, AssertionError where it says no."""
    connection = http.client.HTTPConnection(address, CLIENTS, timeout=SILENCE)
    with contextlib.closing(connection):
        connection.request("POST", f"/v3/kv/{call}", json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
    assert answer.status == 200, text
    return json.loads(text)


def _text(data: str) -> str:
    return base64.b64encode(data.encode()).decode()


class Puts:
    """Puts one key after the other, to whichever member answers. ``acknowledged``: the keys that a quorum has.

    ``name``: what they begin with, so that those of two stories are told apart.

    Use as a context manager. A put that was not acknowledged may be there all the same, as its answer can be lost.
    """

    def __init__(self, cluster: Any, name: str = "key") -> None:
        self.members, self.name = addresses(cluster), name
        self.acknowledged: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Puts:
        self._thread.start()
        self.go_on()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        members, number = list(self.members.values()), 0
        while not self._over.wait(PAUSE):
            key, number = f"{self.name}-{number:06d}", number + 1
            try:
                ask(members[0], "put", key=_text(key), value=_text(str(time.time())))
            except (OSError, http.client.HTTPException, AssertionError):
                members.append(members.pop(0))
            else:
                self.acknowledged.append(key)

    def go_on(self) -> None:
        """Wait until more of them are acknowledged: a quorum is there now."""
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) > before + 5, 30, "puts that are acknowledged")

    def missing(self) -> dict[str, list[str]]:
        """Member -> acknowledged keys that its own disk does not have, once it has caught up."""
        promised, found = set(self.acknowledged), {}
        for host, address in self.members.items():
            with contextlib.suppress(AssertionError):
                eventually(lambda address=address: promised <= self._keys(address), 20)  # type: ignore[misc]
            found[host] = sorted(promised - self._keys(address))
        return {host: keys for host, keys in found.items() if keys}

    def _keys(self, address: str) -> set[str]:
        """What the member itself has, without asking the others."""
        span = {"key": _text(f"{self.name}-"), "range_end": _text(f"{self.name}."), "keys_only": True}
        told = ask(address, "range", serializable=True, **span).get("kvs") or ()
        return {base64.b64decode(one["key"]).decode() for one in told}
