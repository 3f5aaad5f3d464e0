"""The kubelet of this node, asked by its own address: its configuration and what its containers use.

Called by `facts` and `usage`. With the agent's own identity: the kubelet asks the API server whether it may
(nodes/configz, nodes/stats). Its certificate is verified against the cluster's authority, or the one in the settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

from berth_core.app.agent_settings import Kubelet, Settings
from berth_core.errors import ApiError, StateError
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.exchange import Endpoint
from berth_kube.tls import Pem

_PORT = 10250
_SECONDS = 20.0


def address_of(node: Mapping[str, Any], kubelet: Kubelet) -> tuple[str, int]:
    """Where the kubelet listens: as the settings say, else as its Node object says. Raises StateError."""
    status = node.get("status") or {}
    addresses = {each.get("type"): each.get("address") for each in status.get("addresses") or ()}
    host = kubelet.address or addresses.get("InternalIP") or ""
    if not host:
        raise StateError(f"Node {node['metadata']['name']} has no InternalIP: give kubelet.address")
    endpoint = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    return str(host), int(kubelet.port or endpoint or _PORT)


class KubeletClient:
    """Connections are kept while address and authority stay the same. Made inside a running loop."""

    def __init__(self, access: Config, settings: Callable[[], Settings], user_agent: str) -> None:
        self._access, self._settings, self._user_agent = access, settings, user_agent
        self._client: KubeClient | None = None
        self._made_for: tuple[Any, ...] = ()

    async def configuration(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The KubeletConfiguration as it runs."""
        found = (await self._ask(node, "/configz")).get("kubeletconfig")
        if not isinstance(found, dict):
            raise ApiError("the kubelet's /configz has no kubeletconfig")
        return found

    async def summary(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """What pods and containers use now (stats/v1alpha1 Summary)."""
        return await self._ask(node, "/stats/summary")

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _ask(self, node: Mapping[str, Any], path: str) -> dict[str, Any]:
        host, port = address_of(node, self._settings().kubelet)
        client = await self._client_for(host, port, self._settings().kubelet.ca_file)
        body = await client.raw(path, timeout=_SECONDS)
        try:
            found = json.loads(body)
        except ValueError as exc:
            raise ApiError(f"the kubelet's {path} is not JSON") from exc
        return found if isinstance(found, dict) else {}

    async def _client_for(self, host: str, port: int, ca_file: str) -> KubeClient:
        wanted = (host, port, ca_file)
        if self._client is None or wanted != self._made_for:
            await self.close()
            tls = self._access.tls
            if tls is not None and ca_file:
                tls = tls.trusting(Pem(path=ca_file))
            access = self._access._replace(endpoint=Endpoint(host, port), tls=tls, source="the kubelet")
            self._client = KubeClient(access, user_agent=self._user_agent, connections=1)
            self._made_for = wanted
        return self._client
