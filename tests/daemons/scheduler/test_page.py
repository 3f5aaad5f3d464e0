"""The live page: what the report shows, of the scheduler's own caches, in a real browser; to nobody from elsewhere."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import h11
import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LOCAL_DISK
from berth_kube import config
from berth_kube.client import KubeClient
from berth_scheduler import page as page_module
from berth_scheduler.cluster import Cluster
from berth_scheduler.page import Page
from tests.daemons.scheduler.world import until
from tests.support.chromium import chromium
from tests.support.tcp import free_port

HOSTILE = "</script><script>document.title='broken in'</script>"


def disk(world: Any, node: str) -> str:
    """A disk of the node that is free, and says what nobody should believe."""
    name: str = world.disk(node, 0)
    turned = {"type": "Odd", "status": "False", "reason": "Odd", "message": HOSTILE}
    turned["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    world.api.patch(LOCAL_DISK, name, None, {"status": {"conditions": [turned]}}, subresource="status")
    return name


def get(port: int, path: str = "/", host: str = "localhost") -> tuple[int, str]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": f"{host}:{port}"})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()


@pytest.mark.slow
def test_a_browser_shows_what_the_scheduler_knows(world: Any, start: Any, tmp_path: Path) -> None:
    node, port = world.node(), free_port()
    name = disk(world, node)
    start("--page-port", str(port))
    code, text = until(lambda: (found := get(port))[0] == 200 and found, "the page is there")
    assert code == 200
    assert name in text
    assert HOSTILE not in text
    assert "&lt;/script&gt;" in text

    shown = chromium("--dump-dom", f"http://localhost:{port}/#q={node}", profile=tmp_path / "profile")
    root = re.search(r"<html [^>]*>", shown.stdout)
    assert root, shown.stderr
    assert 'data-shown="1"' in root.group(), "the script runs, and finds the node"
    assert "<title>berth</title>" in shown.stdout
    assert "not ready" not in shown.stdout.split(node, 1)[1].split("</article>")[0]

    # A site in the operator's browser that calls itself by this address is told nothing; nor is there anything else.
    code, said = get(port, host="rebound.example.com")
    assert (code, name in said) == (403, False)
    assert get(port, "/metrics")[0] == 404


def ask(method: bytes = b"GET", target: bytes = b"/") -> h11.Request:
    return h11.Request(method=method, target=target, headers=[(b"Host", b"127.0.0.1:1")])


def test_it_is_made_once_for_all_who_look_and_is_never_too_large(
    world: Any, plane: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.node()

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster = Cluster(client)
            page = Page(0, cluster)
            assert (await page.respond(ask())).status == 503, "not every kind was listed yet"
            running = asyncio.ensure_future(cluster.run())
            await cluster.wait_synced()
            answers = await asyncio.gather(*(page.respond(ask()) for _each in range(5)))
            assert ({answer.status for answer in answers}, page.made) == ({200}, 1)
            assert (await page.respond(ask(b"POST"))).status == 405
            monkeypatch.setattr(page_module, "MOST", 1000)
            refused = await Page(0, cluster).respond(ask())
            assert (refused.status, b"use the module report" in refused.body) == (503, True)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
