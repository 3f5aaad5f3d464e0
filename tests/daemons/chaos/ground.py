"""Where the faults happen: three real hosts, agents both ways, two controllers, three applications, and onlookers.

h1, h2   the agent as the shipped DaemonSet
h3       the agent as a process of the host, from its zipapp
disks    of each host: one for each replica, a filesystem and a raw volume that are held and that nobody writes to, one
         with somebody else's data, two that are given out and wiped all the time
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.observed import ready
from berth_dev.errors import DevError
from berth_dev.pytest_plugin import say
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.chaos.apps import Bank, Counters
from tests.daemons.chaos.churn import Churn
from tests.daemons.chaos.pair import Pair
from tests.daemons.chaos.witness import Witness
from tests.daemons.controller.world import World, install
from tests.dev.hosts_help import eventually, node_ready
from tests.support.agent import NAMESPACE, daemonset, install_rights
from tests.support.kube import client_for

HOSTS = ("h1", "h2", "h3")
BANK = "h1"
BY_DAEMONSET, BY_SERVICE = ("h1", "h2"), "h3"
SELECTOR = "app.kubernetes.io/name=berth-agent"
#: A host that was switched off has to start, and its pods.
PATIENCE = 180.0
#: A Lease is over soon, so that nobody has to sleep until one is. Agents that look at everything each second take a
#: third of the processor.
INTERVALS = {"scan": 60, "poll": 1, "debounce": 0.3, "health": 2, "wipe_progress": 0.2, "lease": 12}
SETTINGS = {"intervals": INTERVALS, "policies": {"devices": False}, "usage": {"store": "none"}, "metrics": {"port": 0}}
#: role of a disk -> size; which host has which
SIZES = {"bank": "384Mi", "log": "64Mi", "queue": "56Mi", "still": "48Mi", "raw": "40Mi", "foreign": "40Mi"}
CHURNING = ("churn1", "churn2")
#: what an agent says when it may write no more
SILENCED = "nothing is written until it is back"
WITHOUT_CLASS = ("still", "raw", "foreign")


def roles(host: str) -> list[str]:
    own = ["bank"] if host == BANK else ["queue"]
    return [*own, "log", "still", "raw", "foreign", *CHURNING]


class ChaosGround:
    """Everything that the faults meet. `up` makes it, `down` ends what does not end with the cluster."""

    def __init__(self, cluster: Any, folder: Path, seed: int = 1) -> None:
        self.cluster, self.folder, self.seed = cluster, folder, seed
        self.api = self._own_client()
        self.rooms = {host: Ground(cluster, host) for host in HOSTS}
        #: (host, role) -> the disk's short name
        self.names: dict[tuple[str, str], str] = {}
        self.locks: dict[tuple[str, str], dict[str, Any]] = {}
        self._points: dict[tuple[str, str], str] = {}

    # -- making it -------------------------------------------------------------------------------------------------

    def up(self) -> ChaosGround:
        install_rights(self.cluster)
        install(self.cluster)
        for image in ("berth", "postgresql"):
            self.cluster.hosts.load_image(image, say)
        self.world = World(self.api, f"chaos-{uuid4().hex[:5]}")
        for name, waits in (("bank", True), ("queue", False), ("log", False)):
            self.world.storage_class(waits=waits, suffix=f"-{name}")
        self.world.storage_class(policy="Delete", suffix="-churn")
        self._plug()
        self.witness = Witness(self.cluster.kubeconfig).start()
        self.start_agents()
        self.controllers = Pair(self.cluster, self._own_client(), self.folder).start()
        self._hold_still()
        self._start_apps()
        return self

    def _plug(self) -> None:
        for host, room in self.rooms.items():
            for role in roles(host):
                self.names[host, role] = room.plug(SIZES.get(role, "48Mi"))
            for role in ("foreign", "raw"):
                noise = (
                    f"head -c 8M /dev/urandom | dd of={self.device(host, role)} bs=1M seek=4 conv=notrunc status=none"
                )
                room.agent.here(noise)
            room.agent.here(f"mkfs.ext4 -q {self.device(host, 'foreign')}; sync")

    def settings_of(self, host: str) -> dict[str, Any]:
        """The agent's configuration: every disk by its serial number."""
        return {**SETTINGS, "node": host, "disks": [self._entry(host, role) for role in roles(host)]}

    def _entry(self, host: str, role: str) -> dict[str, Any]:
        found: dict[str, Any] = {"serial": self.rooms[host].plugged[self.names[host, role]]["serial"]}
        if role == "raw":
            found["volume_mode"] = "Block"
        if role not in WITHOUT_CLASS:
            found["storage_class"] = f"{self.world.name}-{role.rstrip('12')}"
        if role in CHURNING:
            found.update(reclaim_policy="Delete", wipe_method="signatures")
        return found

    def start_agents(self) -> None:
        files = {f"{host}.yaml": yaml.safe_dump(self.settings_of(host)) for host in BY_DAEMONSET}
        meta = {"name": "berth-agent", "namespace": NAMESPACE}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": files}
        shipped = daemonset()
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*BY_DAEMONSET]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        shipped["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
        items = {"apiVersion": "v1", "kind": "List", "items": [config, shipped]}
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(items))
        self.install_service()

    def install_service(self, *more: dict[str, Any]) -> None:
        """The agent that is a process of its host: with a token for its Node as it is now. ``more``: more disks."""
        agent, settings = self.rooms[BY_SERVICE].agent, self.settings_of(BY_SERVICE)
        agent.install(**{**settings, "disks": [*settings["disks"], *more]})
        self.start_service()

    def start_service(self) -> str:
        """As systemd would; the name of its log."""
        log = f"log-{uuid4().hex[:6]}"
        self.rooms[BY_SERVICE].agent.start(log)
        return log

    def _own_client(self) -> ApiClient:
        return client_for(self.cluster.kubeconfig, warn=lambda _text: None)

    def _hold_still(self) -> None:
        """Disks that are held by a berth each, and whose bytes nobody has a reason to change."""
        for host, room in self.rooms.items():
            for role in (*WITHOUT_CLASS, *CHURNING, "log"):
                room.wait_phase(self.names[host, role], "Pending" if role == "foreign" else "Available")
            for role in ("still", "raw"):
                self.locks[host, role] = room.lock(self.names[host, role])
        for host, room in self.rooms.items():
            room.wait_mounted(self.names[host, "still"], self.locks[host, "still"])
            room.wait_condition(self.names[host, "raw"], "Prepared", "True", "Raw")
            room.agent.here(f"cd {self.point(host, 'still')}/data && head -c 4M /dev/urandom > noise && sync -f noise")

    def _start_apps(self) -> None:
        self.bank, self.counters = Bank(self.cluster, self.world, BANK, self.folder), Counters(self.world)
        self.bank.create()
        self.counters.create_queue(self.cluster)
        self.counters.scale_log(self.cluster, self.folder)
        self.bank.start_writer()
        self.churn = Churn(self._own_client(), self.world.name, f"{self.world.name}-churn", 7, self.seed)
        self.churn.start()

    # -- looking ---------------------------------------------------------------------------------------------------

    def device(self, host: str, role: str) -> str:
        return self.rooms[host].device(self.names[host, role])

    def disks(self) -> dict[tuple[str, str], dict[str, Any]]:
        """(host, role) -> its LocalDisk, as they are now."""
        found = {one["spec"]["identity"].get("serial"): one for one in self.api.list(kinds.LOCAL_DISK)}
        return {key: found[self.rooms[key[0]].plugged[name]["serial"]] for key, name in self.names.items()}

    def disk(self, host: str, role: str) -> dict[str, Any]:
        return self.disks()[host, role]

    def point(self, host: str, role: str) -> str:
        """Where its filesystem is mounted; a LocalDisk keeps its name."""
        if (host, role) not in self._points:
            self._points[host, role] = self.rooms[host].point(self.names[host, role])
        return self._points[host, role]

    def pods(self) -> list[dict[str, Any]]:
        """Those of the three applications."""
        return [
            one for one in self.api.list(kinds.POD, self.world.name) if not one["metadata"].get("deletionTimestamp")
        ]

    def start_kube_scheduler(self) -> None:
        """It ends itself when it hears that a pod has lost its node, for one; a kubelet would start it anew."""
        self.cluster.start_component("kube-scheduler")

    def agent_pod(self, host: str) -> dict[str, Any] | None:
        """The agent's pod on that host, unless it is on its way out."""
        found = self.api.list(kinds.POD, NAMESPACE, labels=SELECTOR)
        mine = [one for one in found if one["spec"].get("nodeName") == host]
        return next((one for one in mine if not one["metadata"].get("deletionTimestamp")), None)

    def agent_pid(self, host: str) -> int:
        """The agent's process as the host sees it, whichever way it runs; 0 where there is none."""
        if host == BY_SERVICE:
            agent = self.rooms[host].agent
            return agent.pids[-1] if agent.pids and agent.alive() else 0
        found = self.rooms[host].agent.here("pgrep -f '^/usr/bin/python3 -I /opt/berth/agent run'", check=False)
        return int(found.split()[0]) if found else 0

    def losses(self, host: str) -> int:
        """How often an agent of that host has said that its Lease is lost; asked of the host, not of the API server."""
        logs = "/var/log/pods/berth-system_berth-agent-*/*/*.log*"
        if host == BY_SERVICE:
            logs = f"{self.rooms[host].agent.folder}/log-*"
        return int(self.rooms[host].agent.here(f"cat {logs} | grep -c '{SILENCED}'", check=False).splitlines()[-1])

    def kill_agent(self, host: str) -> str:
        """SIGKILL. The kubelet, or on the other host the test, starts it again. The new log (empty: the kubelet's)."""
        pid = self.agent_pid(host)
        if pid:
            self.rooms[host].agent.here(f"kill -KILL {pid}", check=False)
        if host != BY_SERVICE:
            return ""
        eventually(lambda: not self.agent_pid(host), 30, "the death of the agent")
        return self.start_service()

    def restart_pod(self, host: str, role: str) -> None:
        """The application's pod on that host goes, and its StatefulSet makes it again."""
        for pod in self.pods():
            name = pod["metadata"]["name"]
            if pod["spec"].get("nodeName") == host and name.startswith(f"{role}-"):
                self.cluster.kubectl("delete", "pod", name, "-n", self.world.name, "--grace-period=1")

    def spare(self, host: str, size: str = "48Mi") -> str:
        """One more disk, which nobody has declared; with something on it."""
        room = self.rooms[host]
        name = room.plug(size)
        room.agent.here(f"head -c 4M /dev/urandom | dd of={room.device(name)} bs=1M conv=notrunc status=none; sync")
        return name

    def power_off(self, host: str) -> None:
        self.cluster.hosts.power_off(host)

    def power_on(self, host: str, *more: dict[str, Any]) -> None:
        """Until its node is Ready; where the agent is a service, it is started as at a boot. ``more``: more disks."""
        self.cluster.hosts.power_on(host)
        eventually(lambda: self.rooms[host].agent.here("pgrep -x kubelet"), PATIENCE, f"{host} answers")
        eventually(lambda: node_ready(self.cluster, host) == "True", PATIENCE, f"node {host} is Ready")
        if host == BY_SERVICE:
            self.rooms[host].agent.pids.clear()
            self.install_service(*more)

    def witness_is_awake(self) -> None:
        """After an API server was away: a change that is made now has been seen."""
        seen = self.witness.changes
        name = self.disk(BANK, "raw")["metadata"]["name"]
        self.cluster.kubectl("annotate", "ld", name, f"berth.dev/test={uuid4().hex}", "--overwrite")
        eventually(lambda: self.witness.changes > seen, PATIENCE, "the witness sees again")

    def story(self) -> str:
        """What a failure shows."""
        parts = [str(self.cluster.kubectl("get", "ld,nodes", "-o", "wide"))]
        parts.append(str(self.cluster.kubectl("get", "pods,pvc,berths.berth.dev", "-A", "-o", "wide")))
        parts.append(self.controllers.story())
        parts += [self._of_pod(one) for one in self.pods() if not ready(one)]
        agent = self.rooms[BY_SERVICE].agent
        parts.append(
            agent.here(f"cd {agent.folder}; for f in $(ls -t log-* | head -2); do tail -25 $f; done", check=False)
        )
        parts.append(str(self.cluster.kubectl("logs", "-n", NAMESPACE, "-l", SELECTOR, "--tail", "30", "--prefix")))
        return "\n".join(parts)

    def _of_pod(self, pod: dict[str, Any]) -> str:
        """Why one that is not Ready is not: its last words, and what its host has of its disk."""
        name, host = pod["metadata"]["name"], pod["spec"].get("nodeName")
        try:
            said = self.cluster.kubectl("logs", "-n", self.world.name, name, "--previous", "--tail", "20")
        except DevError as exc:
            said = str(exc)
        if host not in self.rooms:
            return f"{name}: {said}"
        point = self.point(host, name.rpartition("-")[0])
        seen = self.rooms[host].agent.here(
            f"grep -e {point} -e {pod['metadata']['uid']} /proc/self/mountinfo; ls -la {point} {point}/data; "
            f"tail -c 64 {point}/data/numbers | od -c",
            check=False,
        )
        return f"{name}: {said}\n{seen}"

    # -- the end ---------------------------------------------------------------------------------------------------

    def down(self) -> None:
        """What runs on this machine ends, whatever becomes of the others; the hosts end with their cluster, which is
        nobody else's."""
        with ExitStack() as last_first:
            if hasattr(self, "controllers"):
                last_first.callback(self.controllers.stop)
            if hasattr(self, "bank"):
                last_first.callback(self.bank.stop_writer)
            for part in (getattr(self, "witness", None), getattr(self, "churn", None)):
                if part is not None:
                    last_first.callback(part.stop)


#: The ground, and the checksums of what nobody is to change.
Stage = tuple[ChaosGround, dict[tuple[str, str], str]]
