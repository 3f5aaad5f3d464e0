"""Small parts of the agent's frame: signs of life for systemd, the host's lock, what the Lease says, fresh tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from berth_agent import single
from berth_agent.config import InForce
from berth_agent.notify import Notifier
from berth_agent.report import Report
from berth_agent.single import HostLock
from berth_core.errors import StateError
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.token import claims_of, renew_at, renew_token
from tests.dev.hosts_help import eventually


def test_systemd_hears_that_we_are_ready(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(10)
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
        notifier = Notifier(environment)
        assert notifier.watchdog == 1.5
        assert environment == {}  # no program that the agent starts speaks in its name
        notifier.tell("READY=1", "STATUS=fine")
        assert manager.recv(100) == b"READY=1\nSTATUS=fine"
    notifier.tell("WATCHDOG=1")  # nobody listens any more: no reason to fail


def test_without_a_service_manager_nothing_is_told() -> None:
    assert Notifier({}).watchdog == 0
    assert Notifier({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}).watchdog == 0  # meant for another process
    Notifier({}).tell("READY=1")


HOLD = """
import sys, time
from berth_agent.single import HostLock
lock = HostLock(sys.argv[1])
print(lock.take(), lock.identity("h1"), flush=True)
time.sleep(600)
"""


def test_the_hosts_lock_is_given_up_by_a_killed_process_and_its_next_holder_has_the_same_name(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        taken, name = holder.stdout.readline().split()
        assert taken == "True"
        lock = HostLock(str(tmp_path / "state"))
        assert not lock.take()
        assert lock.owner() == str(holder.pid)
        holder.kill()
    assert lock.take()
    assert lock.identity("h1") == name
    other = HostLock(str(tmp_path / "elsewhere"))
    other.take()
    assert other.identity("h1") != name


def test_a_cloned_machine_is_another_holder_of_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same machine-id, same files down to the inode, same node name: two virtual machines of one image."""
    lock = HostLock(str(tmp_path / "state"))
    assert lock.take()
    names = set()
    for boot in ("one", "other"):
        (tmp_path / boot).write_text(f"{boot}\n")
        monkeypatch.setattr(single, "BOOT_ID", str(tmp_path / boot), raising=False)
        names.add(lock.identity("h1"))
        assert lock.identity("h1") in names
    assert len(names) == 2


def test_the_lease_says_which_configuration_is_in_force_and_changes_only_with_it() -> None:
    ticks = iter(f"2026-01-01T00:00:0{each}Z" for each in range(10))
    touched: list[int] = []
    report = Report(lambda: next(ticks), "1.2.3", lambda: touched.append(1))
    report.configuration(InForce("abc", "then", ""))
    first = report.annotations()
    assert (first["berth.dev/configuration"], first["berth.dev/configuration-since"]) == ("abc", "then")
    count = len(touched)
    report.configuration(InForce("abc", "then", ""))
    assert (report.annotations(), len(touched)) == (first, count)
    report.configuration(InForce("abc", "then", "line 3: is odd"))
    (condition,) = json.loads(report.annotations()["berth.dev/conditions"])
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Refused", "line 3: is odd")
    assert len(touched) > count


def test_what_is_no_token_is_refused() -> None:
    for text in ("", "a.b", "a.bm9wZQ.c", "a.W10.c"):
        with pytest.raises(StateError, match="no service account token"):
            claims_of(text)
    assert renew_at({"iat": 100, "exp": 400}) == 200


def test_a_token_is_renewed_in_its_file_and_stays_bound_to_its_node(control_plane: Any, tmp_path: Path) -> None:
    """An agent's own token, which is about to end, on the real API server and under the agents' real rights."""
    from tests.support.agent import install_rights, kubeconfig, token

    install_rights(control_plane)
    node = f"n{uuid4().hex[:8]}"
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    path = tmp_path / "token"
    eventually(lambda: path.write_text(token(control_plane, node, 600)), 60, "a token")
    old = path.read_text()
    # A third of ten minutes is not over: an older one is what the agent would find.
    before = claims_of(old)
    assert before["kubernetes.io"]["node"]["name"] == node

    async def renew() -> None:
        access = config.load(kubeconfig_file(tmp_path, kubeconfig(control_plane, control_plane.api_url, str(path))))
        async with KubeClient(access) as client:
            task = asyncio.ensure_future(renew_token(client, path, now=lambda: time.time() + 300))
            for _each in range(600):
                if path.read_text() != old or task.done():
                    break
                await asyncio.sleep(0.1)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(renew())
    after = claims_of(path.read_text())
    assert after["kubernetes.io"]["node"] == before["kubernetes.io"]["node"]
    assert after["exp"] > before["exp"]
    assert path.stat().st_mode & 0o777 == 0o600
    control_plane.kubectl("delete", "node", node)


def kubeconfig_file(folder: Path, text: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(text)
    return str(path)
