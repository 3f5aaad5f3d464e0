"""The agent of the virtual machine as operators run it: put there by the role node_agent over ssh, run by systemd."""

from __future__ import annotations

import functools
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from berth_dev.qemu import Vm
from tests.support.agent import AgentOnHost, zipapp
from tests.support.hosts import run_on
from tests.support.playbook import Run

UNIT = "berth-agent.service"
#: the role's tasks: they bring the program and its configuration, start it, and write down what was started
COPIED = "The agent, tried before it replaces the last"
CONFIGURED = "The configuration, checked on the host before it replaces the last good one"
STARTED = "Running with what is installed, now and after a boot"
REMEMBERED = "Remember what it was started with"
PYTHON = "/usr/bin/python3"
# Under software emulation, on a machine that does other things too.
SECONDS = 600.0
SLOW = "[Service]\nTimeoutStartSec=900\nWatchdogSec=300\nTimeoutAbortSec=3\n"


def changed(run: Run) -> list[str]:
    """The tasks that have changed something."""
    return [task.name.rpartition(" : ")[2] for task in run.tasks if task.result.get("changed")]


class VmAgent(AgentOnHost):
    """The service of the machine's systemd. The machine is reached by ssh, and reaches the API server as 10.0.2.2."""

    def __init__(self, cluster: Any, vm: Vm, folder: Path) -> None:
        super().__init__(cluster, vm.spec.name, "vm")
        self.vm, self.plays = vm, folder  # plays are written and recorded there
        self.program = folder / "berth-agent.pyz"

    def here(self, command: str, *, check: bool = True) -> str:
        return self.vm.run("sh", "-c", command, check=check).strip()

    # -- the role ----------------------------------------------------------------------------------------------------

    def play(self, *args: str, **values: Any) -> Run:
        """The role as a play for this machine; what it recorded. ``values``: its variables."""
        common = {
            "node_agent_kubeconfig": str(self.cluster.kubeconfig),
            "node_agent_api_server": self.cluster.api_url.replace("127.0.0.1", "10.0.2.2"),
            "node_agent_zipapp": str(self.program),
            "node_agent_wait_timeout": int(SECONDS),
        }
        role = {"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.node_agent"}}
        one = {"hosts": "all", "gather_facts": False, "vars": {**common, **self.values, **values}, "tasks": [role]}
        # Each file that needs no copying of its own saves seconds on an emulated machine.
        env = {"ANSIBLE_PIPELINING": "1", "ANSIBLE_TIMEOUT": "120"}
        return run_on(self.vm.inventory(), [one], self.plays, *args, timeout=2 * SECONDS, env=env)

    def install(self, **values: Any) -> VmAgent:
        """By the role; ``values``: its variables, here and in every later play."""
        self.values = values
        self.vm.put(f"/etc/systemd/system/{UNIT}.d/slow.conf", SLOW.encode())
        self._bring_compiled()
        self.program.write_bytes(zipapp())
        self.installed = self.play().ok()
        return self

    def _bring_compiled(self) -> None:
        """What the agent's first start would make in its cache; compiling takes the emulated machine a minute."""
        version = "import sys; print(sys.version_info[:2])"
        same = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=True).stdout
        if self.here(f"{PYTHON} -c '{version}'") == same.strip():
            self.vm.run("tar", "-C", "/var/cache", "-xf", "-", data=_compiled())

    # -- the service -------------------------------------------------------------------------------------------------

    def start(self, log: str = "log", environment: str = "", **options: str) -> int:
        assert (log, environment, options) == ("log", "", {}), "the unit says how it is started"
        self.here(f"systemctl restart {UNIT}")
        return int(self.shown("MainPID"))

    def stop(self) -> None:
        self.here(f"systemctl disable --quiet --now {UNIT} 2>/dev/null", check=False)

    def shown(self, name: str) -> str:
        """A property of the service."""
        return self.here(f"systemctl show --value -p {name} {UNIT}")

    def alive(self, pid: int | None = None) -> bool:
        return self.shown("ActiveState") == "active"

    def signal(self, name: str, pid: int | None = None) -> None:
        self.here(f"systemctl kill --kill-who=main -s {name} {UNIT}")

    def log(self, name: str = "log") -> str:
        """What it has said since its last start."""
        this = self.shown("InvocationID")
        return self.here(f"journalctl -o cat --no-pager _SYSTEMD_INVOCATION_ID={this}", check=False) if this else ""

    def said_of_it(self) -> str:
        """What systemd has said of it since the machine has started."""
        return self.here(f"journalctl -o cat --no-pager -b _PID=1 UNIT={UNIT}", check=False)

    def clean(self) -> None:
        self.stop()
        gone = f"/etc/systemd/system/{UNIT} /etc/systemd/system/{UNIT}.d /opt/berth /etc/berth /var/lib/berth"
        self.here(f"rm -rf {gone} /var/cache/berth-agent; systemctl daemon-reload")


@functools.cache
def _compiled() -> bytes:
    """The folder ``berth-agent`` of that cache, as a tar file; made by the agent's own first file."""
    with tempfile.TemporaryDirectory() as scratch:
        program, cache = Path(scratch, "agent.pyz"), Path(scratch, "berth-agent")
        program.write_bytes(zipapp())
        cache.mkdir()
        unpack = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='looked at')['unpacked'](sys.argv[2])"
        subprocess.run([PYTHON, "-I", "-c", unpack, str(program), str(cache)], check=True)
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as archive:
            archive.add(cache, "berth-agent")
    return whole.getvalue()
