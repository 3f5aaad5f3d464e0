"""An agent whose Node is not there says so within seconds, and once; a server that answers like the API server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence

import pytest

from berth_agent import node_there
from berth_kube.client import KubeClient
from berth_kube.config import from_mapping

WARNING = "there is no Node h1-typo in this cluster"


def status(code: int) -> bytes:
    kinds = {200: {"kind": "Node", "metadata": {"name": "h1-typo"}}}
    reason = {403: "Forbidden", 404: "NotFound"}.get(code, "")
    body = kinds.get(code) or {"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": reason}
    text = json.dumps({"apiVersion": "v1", **body}).encode()
    head = f"HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    return head.encode() + text


def told(answers: Sequence[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the agent logs while it gets these answers, one after the other."""
    monkeypatch.setattr(node_there, "_SECONDS", 0.01)
    caplog.set_level(logging.INFO, "berth_agent.node")
    left = list(answers)
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while left and (request := await reader.readuntil(b"\r\n\r\n")):
            assert request.startswith(b"GET /api/v1/nodes/h1-typo ")
            writer.write(status(left.pop(0)))
        done.set()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        content = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": address}}],
        }
        async with server, KubeClient(from_mapping(content, "test", "", None, True)) as client:
            asking = asyncio.ensure_future(node_there.tell_of_missing_node(client, "h1-typo"))
            async with asyncio.timeout(10):
                await done.wait()
                await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(story())
    return [record.getMessage() for record in caplog.records if record.name == "berth_agent.node"]


def test_a_node_that_is_not_there_is_told_of_once_and_when_it_has_come(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missing, come = told([404, 404, 200], monkeypatch, caplog)
    assert missing.startswith(WARNING)
    assert "correct --node-name" in missing
    assert come == "Node h1-typo is there now"


@pytest.mark.parametrize("code", [200, 403])
def test_one_that_is_there_or_that_may_not_be_asked_for_is_not(
    code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert told([code], monkeypatch, caplog) == []
