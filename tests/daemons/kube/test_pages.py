"""A list is read page by page, and the server makes a page while the one before it is kept: no API server is needed."""

from __future__ import annotations

import asyncio
from typing import Any

from berth_core.errors import GoneError
from berth_core.model.resources import POD
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.exchange import Endpoint
from berth_kube.informer import Informer
from berth_kube.reading import Listing

PAGES, EACH = 3, 2


class Lists(KubeClient):
    """It answers lists; ``told``: what happened, in order. ``gone``: the page at which the token is too old."""

    def __init__(self, gone: int) -> None:
        super().__init__(Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default"))
        self.told: list[str] = []
        self._gone = gone

    async def page(self, *_args: Any, limit: int = 500, token: str = "", **_options: Any) -> Listing:
        number = int(token or 0)
        self.told.append(f"asked {number}" if limit else "asked for all")
        await asyncio.sleep(0)
        if limit and number == self._gone:
            raise GoneError("the token is too old", 410)
        count = EACH if limit else PAGES * EACH
        items = [_pod(number * EACH + index) for index in range(count)]
        return Listing(items, "7", str(number + 1) if limit and number + 1 < PAGES else "")

    def watch(self, *_args: Any, **_options: Any) -> Any:
        raise asyncio.CancelledError


def _pod(number: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": f"p{number}", "uid": f"u{number}", "resourceVersion": "5"}}


def listed(gone: int = PAGES) -> list[str]:
    """What happened until an informer had its list."""

    async def main() -> list[str]:
        client = Lists(gone)

        def seen(pod: dict[str, Any]) -> dict[str, Any]:
            client.told.append(f"kept {pod['metadata']['name']}")
            return pod

        informer = Informer(client, POD, transform=seen)
        await asyncio.gather(informer.run(), return_exceptions=True)
        assert (informer.lists, informer.version) == (1, "7")
        assert sorted(pod["metadata"]["name"] for pod in informer.all()) == [f"p{each}" for each in range(PAGES * EACH)]
        return client.told

    return asyncio.run(main())


def test_the_next_page_is_asked_for_before_this_one_is_kept() -> None:
    assert listed() == [
        *("asked 0", "asked 1", "kept p0", "kept p1"),
        *("asked 2", "kept p2", "kept p3", "kept p4", "kept p5"),
    ]


def test_a_list_that_takes_longer_than_the_server_remembers_is_read_in_one_go() -> None:
    told = listed(gone=2)
    assert told[-7:] == ["asked for all", *(f"kept p{number}" for number in range(PAGES * EACH))]
