"""A whole agent process with its node's token on the real API server; its host is the recorded tree of a machine.

For what needs no disk to be touched: publishing once, the agent's own figures over TLS.
"""

from __future__ import annotations

import re
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.core.app.disk_samples import held
from tests.dev.hosts_help import eventually
from tests.support.certificates import authority, pem
from tests.support.made_up_host import MadeUp, made_up, said
from tests.support.tcp import free_port


@pytest.fixture
def host(control_plane: Any) -> Iterator[MadeUp]:
    with made_up(control_plane) as made:
        yield made


def test_once_publishes_what_is_there_touches_nothing_and_ends(host: MadeUp) -> None:
    host.configure()
    with host.start("once") as process:
        log = process.communicate(timeout=120)[0]
    assert process.returncode == 0, log
    found = host.disks()
    assert [disk["status"]["phase"] for disk in found] == ["Available", "Available"], log
    host.patch(found[0], claimRef=held())
    with host.start("once") as process:
        log = process.communicate(timeout=120)[0]
    assert process.returncode == 0, log
    locked, free = host.disks()
    assert locked["status"]["phase"] == "Locked", "seen and said"
    assert not {"journal", "health"} & locked["status"].keys(), "and nothing begun"
    assert free["metadata"]["resourceVersion"] == found[1]["metadata"]["resourceVersion"], "nothing new, no write"


def test_an_agent_at_work_is_not_disturbed_by_once_and_serves_its_figures_over_tls(host: MadeUp) -> None:
    key, certificate = authority()
    (host.folder / "tls.key").write_bytes(pem(key))
    (host.folder / "tls.crt").write_bytes(certificate)
    tls = {"tls_certificate": str(host.folder / "tls.crt"), "tls_key": str(host.folder / "tls.key")}
    host.configure(metrics={"port": free_port(), **tls})
    with host.start("run") as process:
        try:
            lines = said(process, "figures at")
            port = int(re.findall(r"figures at 127\.0\.0\.1:(\d+)/metrics", lines)[0])
            trusting = ssl.create_default_context(cadata=certificate.decode())
            eventually(lambda: fetch(port, "readyz", trusting).startswith("ok"), 60, "ready")
            figures = fetch(port, "metrics", trusting)
            assert 'berth_agent_disks{phase="Available"} 2' in figures
            names = sorted(disk["metadata"]["name"] for disk in host.disks())
            free = [f'berth_agent_disk_phase{{disk="{name}",phase="Available",holder=""}} 1.0' for name in names]
            assert [line for line in figures.splitlines() if line.startswith("berth_agent_disk_phase{")] == free
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                fetch(port, "metrics", ssl.create_default_context())
            with host.start("once") as second:
                refused = second.communicate(timeout=120)[0]
            assert second.returncode == 1
            assert f"an agent (pid {process.pid}) works on this host already" in refused
        finally:
            process.send_signal(signal.SIGTERM)
            log = process.communicate(timeout=60)[0]
            print(log)
    assert process.returncode == 0, log


def test_the_kubelets_folder_may_be_wrong_and_may_move(host: MadeUp) -> None:
    """Where the DRA plugin listens follows the configuration; a folder that cannot be used ends no agent."""
    roots = [f"/{'x' * 100}", "/k1", "/k2"]
    sockets = [host.folder / f"tree{root}/plugins/berth.dev/dra.sock" for root in roots]
    settings = {"policies": {"devices": True}, "intervals": {"poll": 0.5}}

    def move(root: str) -> None:
        host.configure(**settings, kubelet={"root": root})

    move(roots[0])
    with host.start("run") as process:
        try:
            said(process, "cannot be used: AF_UNIX path too long")
            for at in (1, 2):
                move(roots[at])
                eventually(sockets[at].exists, 120, f"a socket in {roots[at]}")
                eventually(lambda: [one.exists() for one in sockets].count(True) == 1, 60, "and in no other folder")
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
            log = process.communicate(timeout=60)[0]
            print(log)
    assert process.returncode == 0, log


def fetch(port: int, path: str, context: ssl.SSLContext) -> str:
    """The page; the words of a refusal, too."""
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/{path}", timeout=20, context=context) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as exc:
        return str(exc.read().decode())
