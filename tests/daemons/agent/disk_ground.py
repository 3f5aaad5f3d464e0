"""Where the tests of a disk's life on its node stand: a host, its agent, disks of their own, berths and locks by hand.

Programs of the host can be replaced by wrappers that do the real thing and kill the agent before, inside or after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.fsid import filesystem_uuid, namespace_link
from tests.dev.hosts_help import eventually
from tests.support import berths
from tests.support.agent import AgentOnHost, conditions_of
from tests.support.kube import forget, patch_disk

NAMESPACE = "default"
ROOT = "/var/lib/berth/disks"
SECONDS = 90.0
#: Stops each process that wipes, for as long as this runs, once it has written so many bytes.
HALT = """
import os, re, signal, sys, time
most = int(sys.argv[1])
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/io") as io:
                if b"berth_host.wiper" in line.read() and int(re.search("wchar: (.*)", io.read())[1]) > most:
                    os.kill(int(pid), signal.SIGSTOP)
        except OSError:
            pass
    time.sleep(0.01)
"""


class Ground:
    """One host. Everything that a test makes here is undone by `clean`."""

    #: how many seconds a wait lasts at most
    patience = SECONDS

    def __init__(self, cluster: Any, host: str) -> None:
        self.cluster, self.host = cluster, host
        self.agent = AgentOnHost(cluster, host, "disks")
        self.plugged: dict[str, dict[str, Any]] = {}
        self.berths: list[str] = []

    # -- disks -----------------------------------------------------------------------------------------------------

    def plug(self, size: str = "96Mi") -> str:
        """A new disk in the host; its short name."""
        name = f"k{uuid4().hex[:5]}"
        self.cluster.hosts.disk_add(self.host, name, size)
        self._know(name)
        return name

    def _know(self, name: str) -> None:
        self.plugged[name] = next(each for each in self.cluster.hosts.disks(self.host) if each["name"] == name)

    def pull(self, name: str) -> None:
        self.cluster.hosts.disk_remove(self.host, name)

    def put_back(self, name: str) -> None:
        self.cluster.hosts.disk_add(self.host, name)
        self._know(name)

    def device(self, name: str) -> str:
        return str(self.plugged[name]["device"])

    def name_it(self, name: str, wwn: str) -> None:
        """The disk has this world wide name from now on, as a LUN has it in each host that sees it."""
        known = f"/run/berth/disks/{self.device(name).removeprefix('/dev/')}"
        pattern = f's/"ID_WWN": "[^"]*"/"ID_WWN": "{wwn}"/'
        self.agent.here(f"sed '{pattern}' {known} > /tmp/named && cat /tmp/named > {known} && udevadm trigger")

    def hold(self, name: str) -> str:
        """A process that has the disk open for itself from now on; its pid."""
        said = f"{self.agent.folder}/held-{name}"
        alone = f"os.open('{self.device(name)}', os.O_RDONLY | os.O_EXCL)"
        code = f"import os, time; {alone}; open('{said}', 'w'); time.sleep(600)"
        pid = self.agent.here(f'nohup python3 -c "{code}" >/dev/null 2>&1 & echo $!')
        eventually(lambda: self.agent.here(f"ls {said}", check=False), SECONDS, f"{name} held by a process")
        return pid

    def checksum(self, *names: str) -> list[str]:
        return [self.agent.here(f"sha256sum < {self.device(name)}") for name in names]

    # -- objects ---------------------------------------------------------------------------------------------------

    def declare(self, **values: Any) -> None:
        """The configuration names every disk that is plugged in by its serial number."""
        disks = [{"serial": each["serial"], **values.get(name, {})} for name, each in self.plugged.items()]
        intervals = {"scan": 60, "poll": 0.5, "debounce": 0.1, "health": 1, "wipe_progress": 0.2}
        fixed = {"intervals": intervals, "policies": {"devices": False}, "usage": {"store": "none"}}
        if self.agent.pids or self.agent.values:
            self.agent.configure(disks=disks, **fixed)
        else:
            self.agent.install(disks=disks, **fixed)

    def object(self, name: str) -> dict[str, Any]:
        return dict(self.agent.disks()[self.plugged[name]["serial"]])

    def object_name(self, name: str) -> str:
        return str(self.object(name)["metadata"]["name"])

    def patch(self, name: str, **spec: Any) -> None:
        patch_disk(self.agent.api, self.object_name(name), **spec)

    def berth(self, name: str, phase: str = "Reserved") -> dict[str, Any]:
        """A new Berth for the disk; the lock that names it."""
        lock = berths.lock_of_new(self.agent.api, self.host, self.object_name(name), phase)
        self.berths.append(lock["name"])
        return lock

    def record(self, berth: str, phase: str) -> None:
        berths.record(self.agent.api, berth, phase)

    def lock(self, name: str, phase: str = "Reserved") -> dict[str, Any]:
        """The disk is held by a new berth from now on."""
        ref = self.berth(name, phase)
        self.patch(name, claimRef=ref)
        return ref

    def release(self, name: str, lock: dict[str, Any], **more: str) -> None:
        kept = {**{key: lock[key] for key in ("namespace", "app", "ordinal", "claim", "dataUID")}, **more}
        self.patch(name, claimRef=None, retainedFor=kept)

    def ask_wipe(self, name: str, method: str, by: str = "ann", request: str = "") -> str:
        request = request or uuid4().hex[:8]
        wipe = {"requestID": request, "identity": self.object(name)["spec"]["identity"], "requestedBy": by}
        self.patch(name, wipe={**wipe, "method": method})
        return request

    # -- what is to come -------------------------------------------------------------------------------------------

    def point(self, name: str) -> str:
        return f"{ROOT}/{self.object_name(name)}"

    def link(self, name: str, namespace: str = NAMESPACE) -> str:
        """The path of volumes for claims of that namespace."""
        return namespace_link(self.object_name(name), namespace)

    def linked(self, name: str) -> dict[str, str]:
        """Which namespaces have a path to the disk, and where it leads."""
        folder = self.link(name).rpartition("/")[0]
        lines = self.agent.here(f"find {folder} -mindepth 1 -printf '%f %l\\n'", check=False).splitlines()
        return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}

    def uuid(self, name: str, lock: dict[str, Any]) -> str:
        return filesystem_uuid(lock["dataUID"], self.object_name(name))

    def wait(self, name: str, what: str, test: Any) -> dict[str, Any]:
        """The LocalDisk's object that is so; with what it is and the agent's log in the failure."""

        def look() -> dict[str, Any] | None:
            disk = self.object(name)
            return disk if test(disk) else None

        try:
            return dict(eventually(look, self.patience, what))
        except AssertionError as exc:
            disk = self.object(name)
            told = json.dumps({part: disk.get(part) for part in ("spec", "status")}, indent=1)
            raise AssertionError(f"{exc}\n{told}\n{self.agent.log()[-6000:]}") from None

    def wait_phase(self, name: str, phase: str) -> dict[str, Any]:
        return self.wait(name, f"phase {phase}", lambda disk: (disk.get("status") or {}).get("phase") == phase)

    def wait_condition(self, name: str, kind: str, status: str, reason: str) -> str:
        """The condition's message, when it is so."""
        disk = self.wait(
            name, f"{kind}={status}/{reason}", lambda disk: conditions_of(disk).get(kind) == (status, reason)
        )
        return next(str(each.get("message")) for each in disk["status"]["conditions"] if each["type"] == kind)

    def wait_mounted(self, name: str, lock: dict[str, Any]) -> None:
        """Ready for that lock, by the journal and by the host."""
        ours = self.uuid(name, lock)
        self.wait(
            name,
            "mounted for its lock",
            lambda disk: (
                conditions_of(disk).get("Prepared") == ("True", "Mounted")
                and disk["status"]["journal"]["lockUID"] == lock["uid"]
                and disk["status"].get("phase") == "InUse"
            ),
        )
        source = self.agent.here(f"findmnt -no SOURCE,UUID {self.point(name)}").split()
        assert source[:1] == [self.device(name)]
        assert self.agent.here(f"blkid -p -o value -s UUID {self.device(name)}") == ours

    # -- programs of the host --------------------------------------------------------------------------------------

    def wrapper(self, program: str, script: str) -> str:
        """PATH with ``program`` replaced; in the script $REAL is the real one, and each call is written to `calls`."""
        return self.wrappers({program: script})

    def wrappers(self, scripts: dict[str, str]) -> str:
        """The same with several: the script by the program. What was called before is forgotten."""
        folder = f"bin-{uuid4().hex[:5]}"
        self.agent.here(f"mkdir -p {self.agent.folder}/{folder}; rm -f {self.agent.folder}/calls")
        for program, script in scripts.items():
            real = self.agent.here(f"command -v {program}")
            text = f"#!/bin/sh\nREAL={real}\necho {program} >> {self.agent.folder}/calls\n{script}\n"
            self.agent.here(f"chmod 755 {self.agent.put(f'{folder}/{program}', text)}")
        return f"PATH={self.agent.folder}/{folder}:/usr/sbin:/usr/bin:/sbin:/bin"

    def calls(self, program: str) -> int:
        return self.agent.here(f"cat {self.agent.folder}/calls 2>/dev/null", check=False).split().count(program)

    @contextmanager
    def halted_wipers(self) -> Iterator[None]:
        """Who wipes stops in the middle of its disk (of 128 MiB: after the ends and two pieces of eight), and goes on
        afterwards. So no disk has to be so large that it is not done before the test has looked."""
        path = self.agent.put("halt.py", HALT)
        watcher = self.agent.here(f"nohup python3 {path} {40 << 20} >/dev/null 2>&1 & echo $!")
        try:
            yield
        finally:
            self.agent.here(f"kill {watcher}; pkill -CONT --full berth_host.wiper || true")

    # -- the end ---------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        self.agent.stop()
        names = [each["metadata"]["name"] for each in self.agent.disks().values()]
        for name in names:
            self.agent.here(f"umount {ROOT}/{name} 2>/dev/null; rmdir {ROOT}/{name} 2>/dev/null", check=False)
            forget(self.agent.api, kinds.LOCAL_DISK, name)
        for which in self.berths:
            self.agent.api.delete(kinds.BERTH, which, berths.NAMESPACE)
        present = {each["name"]: each for each in self.cluster.hosts.disks(self.host)}
        for name in self.plugged:
            if present[name]["broken"]:
                self.cluster.hosts.disk_heal(self.host, name)
            if present[name]["plugged"]:
                self.pull(name)
        self.agent.clean()
