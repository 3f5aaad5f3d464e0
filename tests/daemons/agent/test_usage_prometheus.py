"""Samples of containers in a real Prometheus: written by remote write, read by remote read, refused as it refuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth_agent.usage.prometheus import PrometheusStore
from berth_agent.usage.samples import Sample
from berth_core.app.agent_settings import Usage
from berth_core.errors import ApiError
from tests.support.prometheus import prometheus


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of one that takes remote writes; it scrapes nothing."""
    with prometheus(tmp_path, "global: {}\n", "--web.enable-remote-write-receiver") as url:
        yield url


def test_what_was_written_is_read_back_and_a_refusal_is_told(url: str) -> None:
    now = int(time.time()) // 60 * 60
    first = [Sample(now - 60, "default", f"db-{at}", f"uid-{at}", "db", 0.25 + at, (1 << 20) + at) for at in range(50)]
    second = [each._replace(time=now, cpu=each.cpu * 2) for each in first]
    usage = Usage("prometheus", url=f"{url}/api/v1/write", read_url=f"{url}/api/v1/read")

    async def work() -> None:
        store, other = PrometheusStore(usage, "h1"), PrometheusStore(usage, "h2")
        await store.write(first)
        await store.write(second)
        await store.write(second)  # an agent that heard no answer writes the same minute again
        assert await store.read(now - 60, now + 60) == sorted([*first, *second])
        assert await store.read(now, now + 60, "default", "db-7") == [second[7]]
        assert await store.read(now - 60, now, "other") == []
        assert await other.read(now - 60, now + 60) == [], "a node reads its own samples"
        with pytest.raises(ApiError, match="refuses with 400") as refused:
            await store.write([second[0]._replace(cpu=9.0)])  # another value of the same moment
        assert refused.value.status == 400
        assert await store.read(now, now + 60, "default", "db-0") == [second[0]]
        await store.close()
        await other.close()

    asyncio.run(work())
