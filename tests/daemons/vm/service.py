"""The agent of the virtual machine as operators run it: the unit of the role node_agent, run by systemd.

The role itself takes the emulated machine most of two minutes of computing, for it starts Python a dozen times there.
So its files are made here from its own templates, and brought at once; the whole role meets systemd in
tests/integration/test_node_agent_systemd.py.
"""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth_dev.qemu import Vm
from tests.support.agent import ROOT, AgentOnHost, install_rights, kubeconfig, token, zipapp
from tests.support.playbook import run_playbook

UNIT = "berth-agent.service"
PYTHON = "/usr/bin/python3"
# Under software emulation, on a machine that does other things too.
SECONDS = 600.0
SLOW = "[Service]\nTimeoutStartSec=900\nWatchdogSec=300\nTimeoutAbortSec=3\n"
ROLE = ROOT / "roles" / "node_agent"
PUBLISHED = "everything that was seen is published"
#: Waits for a line of the journal of one start. Nothing is asked again and again of a machine that has one slow core.
FOLLOW = """
exec 3< <(exec journalctl --follow --no-tail -o cat "_SYSTEMD_INVOCATION_ID=$1" 2>/dev/null)
follower=$!
timeout "$3" grep -qm1 -F "$2" <&3
found=$?
kill "$follower"
exit "$found"
"""


class VmAgent(AgentOnHost):
    """The service of the machine's systemd. The machine is reached by ssh, and reaches the API server as 10.0.2.2."""

    def __init__(self, cluster: Any, vm: Vm, folder: Path) -> None:
        super().__init__(cluster, vm.spec.name, "vm")
        self.vm, self.plays = vm, folder  # what is made is written there
        self.program = folder / "berth-agent.pyz"

    def here(self, command: str, *, check: bool = True) -> str:
        return self.vm.run("sh", "-c", command, check=check).strip()

    # -- what the role would bring ------------------------------------------------------------------------------------

    @property
    def _server(self) -> str:
        return str(self.cluster.api_url).replace("127.0.0.1", "10.0.2.2")

    def install(self, **values: Any) -> VmAgent:
        """``values``: the role's variables."""
        self.values = values
        self.program.write_bytes(zipapp())
        files = {f"etc/systemd/system/{UNIT}.d/slow.conf": (SLOW.encode(), 0o644)}
        install_rights(self.cluster)
        self._bring({**files, **self._files()})
        self.vm.run("systemctl", "enable", "--quiet", "--now", UNIT, timeout=SECONDS)
        return self

    def _files(self) -> dict[str, tuple[bytes, int]]:
        """What the role puts on a host: path -> content and mode."""
        config = kubeconfig(self.cluster, self._server, "/etc/berth/token")
        made = self._from_templates()
        return {
            "opt/berth/berth-agent.pyz": (self.program.read_bytes(), 0o755),
            "etc/berth/agent.yaml": (made["agent.yaml"], 0o600),
            "etc/berth/kubeconfig": (config.encode(), 0o600),
            "etc/berth/token": (token(self.cluster, self.node).encode(), 0o600),
            f"etc/systemd/system/{UNIT}": (made[UNIT], 0o644),
        }

    def _from_templates(self) -> dict[str, bytes]:
        """The role's own unit and configuration, with its defaults and variables."""
        names, folder = ("agent.yaml", UNIT), self.plays / "made"
        folder.mkdir(exist_ok=True)
        given = folder / "values.json"
        given.write_text(json.dumps({"node_agent_node_name": self.node, **self.values}))
        include = [{"ansible.builtin.include_vars": str(ROLE / where / "main.yml")} for where in ("defaults", "vars")]
        render = [
            {"ansible.builtin.template": {"src": str(ROLE / "templates" / f"{name}.j2"), "dest": str(folder / name)}}
            for name in names
        ]
        run_playbook([*include, *render], folder, "-e", f"@{given}").ok()
        return {name: (folder / name).read_bytes() for name in names}

    def _bring(self, files: Mapping[str, tuple[bytes, int]]) -> None:
        """These files, and what the agent's first start would make in its cache, where both compile the same.

        Compiling takes the emulated machine a minute, and so do five calls where one does.
        """
        version = "import sys; print(sys.version_info[:2])"
        same = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=True).stdout
        compiled = self.here(f"{PYTHON} -c '{version}'") == same.strip()
        unpack = "tar -xzf - -C / && chmod 700 /etc/berth && systemctl daemon-reload"
        self.vm.run("sh", "-c", f"mkdir -p /etc/berth && {unpack}", data=_archive(files, compiled), timeout=SECONDS)

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

    def wait_ready(self, seconds: float = SECONDS) -> None:
        """Until an agent that was started by now says that everything is published."""
        until = time.monotonic() + seconds
        while not self._says(PUBLISHED, self.shown("InvocationID")):
            assert time.monotonic() < until, f"not ready after {seconds:.0f} s:\n{self.log()}"

    def _says(self, words: str, start: str) -> bool:
        """Whether that start says so within a minute: meanwhile systemd may have started it anew."""
        if not start:
            return False
        line = f"bash -c {shlex.quote(FOLLOW)} bash {start} {shlex.quote(words)} 60 && echo yes"
        return self.here(line, check=False) == "yes"

    # -- what it says ------------------------------------------------------------------------------------------------

    def said_of_it(self) -> str:
        """What systemd has said of it since the machine has started."""
        return self.here(f"journalctl -o cat --no-pager -b _PID=1 UNIT={UNIT}", check=False)

    def clean(self) -> None:
        self.stop()
        gone = f"/etc/systemd/system/{UNIT} /etc/systemd/system/{UNIT}.d /opt/berth /etc/berth /var/lib/berth"
        self.here(f"rm -rf {gone} /var/cache/berth-agent; systemctl daemon-reload")


def _archive(files: Mapping[str, tuple[bytes, int]], compiled: bool) -> bytes:
    """A compressed tar file of them, below /."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz", compresslevel=6) as archive:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
        if compiled:
            _add_compiled(archive)
    return whole.getvalue()


def _add_compiled(archive: tarfile.TarFile) -> None:
    """The agent's cache, made by the agent's own first file."""
    with tempfile.TemporaryDirectory() as scratch:
        program, cache = Path(scratch, "agent.pyz"), Path(scratch, "berth-agent")
        program.write_bytes(zipapp())
        cache.mkdir()
        unpack = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='looked at')['unpacked'](sys.argv[2])"
        subprocess.run([PYTHON, "-I", "-c", unpack, str(program), str(cache)], check=True)
        archive.add(cache, "var/cache/berth-agent")
