"""Ground of the tests of berth_kube: a real API server, a client of the administrator, and a network that can break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import yaml

from berth_core.model.resources import NAMESPACE, SERVICE_ACCOUNT
from berth_kube import config
from berth_kube.client import KubeClient
from tests.support.tcp import Proxy

#: Long enough for a loaded machine; nobody waits for it when things work.
PATIENCE = 120.0


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a coroutine to its end, which must come."""

    async def bounded(work: Awaitable[Any], seconds: float) -> Any:
        return await asyncio.wait_for(work, seconds)

    return lambda work, seconds=PATIENCE * 3: asyncio.run(bounded(work, seconds))


async def until(condition: Callable[[], Any], what: str = "") -> None:
    """Wait for the condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what or condition}"
        await asyncio.sleep(0.02)


async def account(client: KubeClient, namespace: str, name: str = "default") -> None:
    """Wait for the service account, which a controller makes in each new namespace; admission of pods wants it too."""
    end = time.monotonic() + PATIENCE
    while not await client.find(SERVICE_ACCOUNT, name, namespace):
        assert time.monotonic() < end, f"no service account {namespace}/{name}"
        await asyncio.sleep(0.1)


@pytest.fixture
def admin(control_plane: Any) -> dict[str, Any]:
    """The administrator's kubeconfig, as a mapping to be changed."""
    content: dict[str, Any] = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    return content


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Write a kubeconfig, give back its path."""

    def write(content: dict[str, Any]) -> str:
        path = tmp_path / f"kubeconfig-{uuid4().hex[:6]}"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return write


@pytest.fixture
def connect(control_plane: Any) -> Callable[..., KubeClient]:
    """A client of the administrator; call it inside the loop."""
    return lambda **options: KubeClient(config.load(str(control_plane.kubeconfig)), **options)


@pytest.fixture
def proxy(admin: dict[str, Any]) -> Iterator[Proxy]:
    """A network to the API server that can break."""
    server = urlsplit(admin["clusters"][0]["cluster"]["server"])
    with Proxy(server.hostname or "", server.port or 443) as network:
        yield network


@pytest.fixture
def far(proxy: Proxy, admin: dict[str, Any], kubeconfig: Callable[[dict[str, Any]], str]) -> Callable[..., KubeClient]:
    """A client behind `proxy`; call it inside the loop."""
    cluster = admin["clusters"][0]["cluster"]
    path = kubeconfig(
        {
            **admin,
            "clusters": [{**admin["clusters"][0], "cluster": {**cluster, "server": f"https://127.0.0.1:{proxy.port}"}}],
        }
    )
    return lambda **options: KubeClient(config.load(path), **options)


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def namespace(control_plane: Any, connect: Callable[..., KubeClient], name: str) -> Iterator[str]:
    async def make() -> None:
        async with connect() as client:
            await client.create(NAMESPACE, {"metadata": {"name": name}})

    async def remove() -> None:
        async with connect() as client:
            await client.delete(NAMESPACE, name)

    asyncio.run(make())
    yield name
    asyncio.run(remove())


@pytest.fixture
def ours(control_plane: Any) -> Any:
    """The control plane, when the tests may break it."""
    if not hasattr(control_plane, "restart_apiserver"):
        pytest.skip("BERTH_KUBECONFIG names an existing cluster, whose API server the tests never restart")
    return control_plane


@pytest.fixture
def token(connect: Callable[..., KubeClient], control_plane: Any) -> Callable[..., str]:
    """A token of a service account, from the real API server."""

    def make(namespace: str, name: str = "default", seconds: int = 600) -> str:
        async def ask() -> str:
            async with connect() as client:
                body = {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": seconds},
                }
                await account(client, namespace, name)
                answer = await client.create(SERVICE_ACCOUNT, body, name=name, namespace=namespace, subresource="token")
                return str(answer["status"]["token"])

        return asyncio.run(ask())

    return make
