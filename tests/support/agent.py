"""A real node agent on a host of the development cluster: its zipapp, its own token, its configuration, its process.

For the tests of the agent and the benches. The agent runs as on a host without systemd: a plain process of the host.

What is asked of the host is run inside it, and objects are read by one client: an ssh session or a kubectl for each
look of a test that waits took a third of the machine.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import json
import shlex
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.errors import DevError
from tests.dev.hosts_help import eventually, ssh
from tests.support.kube import client_for, disks_of, forget, install_crds

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE, ACCOUNT = "berth-system", "berth-agent"
PYTHON = "/usr/bin/python3"
#: As a session of ssh has it: nothing of the machine's own.
ENVIRONMENT = ("HOME=/root", "USER=root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
#: The agent's image in the development cluster: `berth-dev image berth`.
IMAGE = "berth.local/berth:dev"


@functools.cache
def zipapp() -> bytes:
    """The agent as one file, built from the sources as they are."""
    from tools import zipapp as builder

    return builder.build(ROOT / "build" / "test" / "berth-agent.pyz").read_bytes()


@functools.cache
def compiled() -> Path:
    """What systemd gives the service: the agent's modules unpacked and compiled, by its own first file. For agents that
    run on the machine itself, with this Python; workers of pytest share it.
    """
    folder = ROOT / "build" / "test" / "agent-cache"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder.with_name("local-agent.pyz")
    unpack = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='looked at')['unpacked'](sys.argv[2])"
    with program.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program.write_bytes(zipapp())
        subprocess.run([sys.executable, "-I", "-c", unpack, str(program), str(folder)], check=True)
    return folder


def newer(program: Path, target: Path) -> Path:
    """Another version of the agent, as far as anybody can see: the same program with a file more."""
    target.write_bytes(program.read_bytes())
    target.chmod(0o755)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("NEWS", "newer\n")
    return target


def install_rights(cluster: Any) -> None:
    """CRDs and the agents' RBAC and admission policy. Idempotent."""
    install_crds(cluster.kubeconfig)
    cluster.kubectl("apply", "-f", str(ROOT / "deploy/agent/rbac.yaml"))


def daemonset() -> dict[str, Any]:
    """deploy/agent/daemonset.yaml with the image of the development cluster."""
    shipped: dict[str, Any] = yaml.safe_load((ROOT / "deploy/agent/daemonset.yaml").read_text())
    shipped["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    return shipped


def token(cluster: Any, node: str, seconds: int = 86400) -> str:
    """A token of the agents' service account, bound to the Node."""
    bound = ["--bound-object-kind", "Node", "--bound-object-name", node, f"--duration={seconds}s"]
    return str(cluster.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, *bound)).strip()


def kubeconfig(cluster: Any, server: str, token_file: str) -> str:
    """Who the agent is: the token in a file, the authority inline."""
    authority = base64.b64encode(Path(cluster.ca_cert).read_bytes()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "agent",
            "contexts": [{"name": "agent", "context": {"cluster": "it", "user": "agent"}}],
            "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": "agent", "user": {"tokenFile": token_file}}],
        }
    )


class AgentOnHost:
    """One agent of one host. Everything that it needs lies in ``folder`` on that host."""

    def __init__(self, cluster: Any, host: str, name: str = "agent") -> None:
        self.cluster, self.host, self.node = cluster, host, host
        self.folder = f"/run/berth-test/{name}-{uuid4().hex[:6]}"
        self.state = f"/var/lib/berth-test/{name}"
        # One agent of a name runs at a time, and others empty no cache of it.
        self.cache = f"/run/berth-test/cache/{name}"
        self.api: ApiClient = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.pids: list[int] = []
        self.values: dict[str, Any] = {}

    # -- the host --------------------------------------------------------------------------------------------------

    def here(self, command: str, *, check: bool = True) -> str:
        """What a command prints. What stays (nohup) is started by ssh: it lives in the control groups of its host."""
        if "nohup " in command:
            return ssh(self.cluster, self.host, command, check=check).stdout.strip()
        inside = ["env", "-i", *ENVIRONMENT, "bash", "-c", f'({command}\n); echo " $?"']
        try:
            said = self.cluster.hosts.enter(self.host, *inside)
        except DevError as exc:  # the host is off, or is just starting
            raise AssertionError(f"{self.host}: {command}: {exc}") from None
        output, _space, status = said.rstrip().rpartition(" ")
        if check and status != "0":
            raise AssertionError(f"{self.host}: {command}: exit {status}: {output}")
        return str(output).strip()

    def put(self, name: str, content: bytes | str) -> str:
        """A file in the folder, whole or not at all, private."""
        path = f"{self.folder}/{name}"
        data = content if isinstance(content, bytes) else content.encode()
        inventory = self.cluster.hosts.inventory()["berth_hosts"]
        shared = inventory["vars"]
        options = [*shlex.split(shared["ansible_ssh_common_args"]), "-i", shared["ansible_ssh_private_key_file"]]
        address = f"{shared['ansible_user']}@{inventory['hosts'][self.host]['ansible_host']}"
        command = f"umask 077; mkdir -p {self.folder}; cat > {path}.new && mv {path}.new {path}"
        subprocess.run(["ssh", *options, "-o", "BatchMode=yes", address, command], input=data, check=True, timeout=60)
        return path

    # -- the agent -------------------------------------------------------------------------------------------------

    def install(self, **values: Any) -> AgentOnHost:
        """Zipapp, identity and configuration."""
        self.put("agent.pyz", zipapp())
        self.put("token", token(self.cluster, self.node))
        self.put("kubeconfig", kubeconfig(self.cluster, self.cluster.hosts.server_url, f"{self.folder}/token"))
        self.configure(**values)
        return self

    def configure(self, **values: Any) -> None:
        """Replace the configuration. Short intervals, no port, unless said otherwise."""
        intervals = {"scan": 60, "poll": 0.5, "debounce": 0.1, "health": 5, "usage": 5, "facts": 5, "devices": 5}
        self.values = {"node": self.node, "intervals": intervals, "metrics": {"port": 0}, **values}
        self.put("agent.yaml", yaml.safe_dump(self.values))

    def command(self, *args: str, **options: str) -> str:
        """The command line of the agent."""
        given = {
            "--config": f"{self.folder}/agent.yaml",
            "--kubeconfig": f"{self.folder}/kubeconfig",
            "--state-directory": self.state,
            **{f"--{key.replace('_', '-')}": value for key, value in options.items()},
        }
        flat = [text for pair in given.items() for text in pair]
        return shlex.join([PYTHON, "-I", f"{self.folder}/agent.pyz", *args, *flat])

    def start(self, log: str = "log", environment: str = "", **options: str) -> int:
        """Start it; the pid. It has a cache, as from systemd: without, each start compiles all sources once more."""
        command = f"CACHE_DIRECTORY={self.cache} {environment} nohup setsid {self.command('run', **options)}"
        pid = int(self.here(f"cd /; mkdir -p {self.cache}; {command} >>{self.folder}/{log} 2>&1 </dev/null & echo $!"))
        self.pids.append(pid)
        return pid

    def alive(self, pid: int | None = None) -> bool:
        return self.here(f"kill -0 {pid or self.pids[-1]} 2>/dev/null && echo yes", check=False) == "yes"

    def signal(self, name: str, pid: int | None = None) -> None:
        self.here(f"kill -{name} {pid or self.pids[-1]}")

    def stop(self) -> None:
        """End every agent that was started here, and wait for that."""
        for pid in self.pids:
            gone = f"for i in $(seq 100); do kill -0 {pid} 2>/dev/null || exit 0; sleep .1; done"
            self.here(f"kill -TERM {pid} 2>/dev/null; {gone}; kill -KILL {pid}", check=False)
        self.pids.clear()

    def clean(self) -> None:
        """Stop, and leave nothing on the host."""
        self.stop()
        self.here(f"rm -rf {self.folder} {self.state}")

    def forget(self) -> None:
        """Unmount and delete every LocalDisk of the node, and the agent's Lease."""
        for disk in self.disks().values():
            name = disk["metadata"]["name"]
            self.here(f"umount /var/lib/berth/disks/{name} 2>/dev/null; sed -i '/{name}/d' /etc/fstab", check=False)
            forget(self.api, kinds.LOCAL_DISK, name)
        self.api.delete(kinds.LEASE, f"berth-agent-{self.node}", NAMESPACE)

    def log(self, name: str = "log") -> str:
        return self.here(f"cat {self.folder}/{name} 2>/dev/null", check=False)

    # -- what it says ----------------------------------------------------------------------------------------------

    def lease(self) -> dict[str, Any]:
        try:
            return dict(self.api.get(kinds.LEASE, f"berth-agent-{self.node}", NAMESPACE))
        except BerthError as exc:
            raise AssertionError(f"the Lease of {self.node}: {exc}") from None

    def annotations(self) -> dict[str, str]:
        return dict(self.lease()["metadata"].get("annotations") or {})

    def conditions(self) -> dict[str, dict[str, str]]:
        return {each["type"]: each for each in json.loads(self.annotations().get("berth.dev/conditions", "[]"))}

    def disks(self) -> dict[str, dict[str, Any]]:
        """The node's LocalDisks by serial number."""
        return {each["spec"]["identity"].get("serial", ""): each for each in disks_of(self.api, self.node)}

    def phases(self) -> dict[str, str]:
        return {serial: (each.get("status") or {}).get("phase", "") for serial, each in self.disks().items()}

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Until an agent that was started by now says that everything is published."""
        began = time.monotonic()
        try:
            eventually(lambda: "everything that was seen is published" in self.log(), seconds, "a published agent")
        except AssertionError:
            raise AssertionError(f"not ready after {time.monotonic() - began:.0f} s:\n{self.log()}") from None


def conditions_of(thing: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """(status, reason) by type."""
    return {each["type"]: (each["status"], each["reason"]) for each in thing["status"].get("conditions") or ()}
