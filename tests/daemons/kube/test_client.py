"""KubeClient on the real API server: every verb, what is refused, what is counted, and what a broken network means."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from berth_core.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from berth_core.model.resources import CONFIG_MAP, LEASE, NAMESPACE, NODE, POD, Resource
from berth_kube.client import KubeClient
from berth_kube.watch import Event, Watch
from tests.daemons.kube.conftest import account
from tests.support.tcp import Proxy

Run = Callable[[Any], Any]
Connect = Callable[..., KubeClient]


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def first(watch: Watch) -> Event:
    async with watch as events:
        return await events.__anext__()


def test_the_life_of_an_object(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect(field_manager="one") as client:
            made = await client.create(CONFIG_MAP, config_map(namespace, "a", x="1"))
            assert await client.get(CONFIG_MAP, "a", namespace) == made
            swapped = await client.replace(CONFIG_MAP, {**made, "data": {"x": "2"}})
            with pytest.raises(ConflictError, match=rf"cannot replace ConfigMap {namespace}/a"):
                await client.replace(CONFIG_MAP, {**made, "data": {"x": "3"}})
            merged = await client.patch(CONFIG_MAP, "a", namespace, {"data": {"y": "4", "x": None}})
            assert merged["data"] == {"y": "4"}
            test_and_set = [
                {"op": "test", "path": "/data/y", "value": "4"},
                {"op": "replace", "path": "/data/y", "value": "5"},
            ]
            assert (await client.patch(CONFIG_MAP, "a", namespace, test_and_set, kind="json"))["data"] == {"y": "5"}
            with pytest.raises(InvalidError):
                await client.patch(CONFIG_MAP, "a", namespace, test_and_set, kind="json")
            with pytest.raises(ConflictError):
                await client.delete(CONFIG_MAP, "a", namespace, uid="00000000-0000-0000-0000-000000000000")
            assert await client.delete(CONFIG_MAP, "a", namespace, uid=swapped["metadata"]["uid"]) is True
            assert await client.delete(CONFIG_MAP, "a", namespace) is False
            assert await client.find(CONFIG_MAP, "a", namespace) is None
            with pytest.raises(NotFoundError):
                await client.get(CONFIG_MAP, "a", namespace)
            assert client.requests == {"create": 1, "get": 3, "replace": 2, "patch": 3, "delete": 3}
            assert (client.writes, client.written) == (9, 5)

    run(story())


def test_apply_owns_its_fields_only(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            await client.apply(CONFIG_MAP, config_map(namespace, "a", x="1"), manager="one")
            await client.apply(CONFIG_MAP, config_map(namespace, "a", y="2"), manager="two")
            with pytest.raises(ConflictError, match="one"):
                await client.apply(CONFIG_MAP, config_map(namespace, "a", x="9"), manager="two", force=False)
            after = await client.apply(CONFIG_MAP, config_map(namespace, "a"), manager="two")
            assert after["data"] == {"x": "1"}
            taken = await client.apply(CONFIG_MAP, config_map(namespace, "a", x="9"), manager="two")
            assert taken["data"] == {"x": "9"}

    run(story())


def test_dry_run_writes_nothing(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            await client.create(CONFIG_MAP, config_map(namespace, "a"), dry_run=True)
            assert await client.find(CONFIG_MAP, "a", namespace) is None
            assert (client.writes, client.written) == (1, 0)

    run(story())


def test_unknown_fields_are_refused(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            with pytest.raises(Exception, match="unknown field"):
                await client.create(CONFIG_MAP, {**config_map(namespace, "a"), "dta": {}})

    run(story())


def test_pages_make_one_list(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            await asyncio.gather(*(client.create(CONFIG_MAP, config_map(namespace, f"c{i:02}")) for i in range(25)))
            whole = await client.list(CONFIG_MAP, namespace, limit=0)
            before = client.requests["list"]
            paged = await client.list(CONFIG_MAP, namespace, limit=4)
            assert client.requests["list"] - before >= 7
            assert paged.items == whole.items
            assert {item["kind"] for item in paged.items} == {"ConfigMap"}
            found = await client.list(CONFIG_MAP, namespace, fields="metadata.name=c03")
            assert [item["metadata"]["name"] for item in found.items] == ["c03"]
            await client.patch(CONFIG_MAP, "c04", namespace, {"metadata": {"labels": {"pick": "me"}}})
            found = await client.list(CONFIG_MAP, namespace, labels="pick=me")
            assert [item["metadata"]["name"] for item in found.items] == ["c04"]

    run(story())


def test_compressed_lists_are_the_same(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client, connect(gzip=True) as small:
            await client.create(CONFIG_MAP, config_map(namespace, "a", big="x" * 500_000))
            assert (await small.list(CONFIG_MAP, namespace)).items == (await client.list(CONFIG_MAP, namespace)).items

    run(story())


def test_watch_tells_what_happens(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            version = (await client.list(CONFIG_MAP, namespace)).version
            seen = []
            async with client.watch(CONFIG_MAP, version, seconds=60, namespace=namespace) as events:
                await client.create(CONFIG_MAP, config_map(namespace, "a", big="x" * 300_000))
                await client.patch(CONFIG_MAP, "a", namespace, {"data": {"big": "ä"}})
                await client.delete(CONFIG_MAP, "a", namespace)
                async for event in events:
                    if event.object["metadata"].get("name") == "a":
                        seen.append((event.type, len(event.object["data"]["big"])))
                    if event.type == "DELETED":
                        break
            assert seen == [("ADDED", 300_000), ("MODIFIED", 1), ("DELETED", 1)]

    run(story())


def test_a_watch_ends_by_itself(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            version = (await client.list(CONFIG_MAP, namespace)).version
            async with client.watch(CONFIG_MAP, version, seconds=1, namespace=namespace) as events:
                assert {event.type async for event in events} <= {"BOOKMARK", "ADDED"}

    run(story())


def test_a_compacted_version_is_gone(run: Run, connect: Connect, namespace: str, ours: Any) -> None:
    """After a restart the API server remembers nothing older: a watch from there says 410."""

    async def write() -> str:
        async with connect() as client:
            version = (await client.list(CONFIG_MAP, namespace)).version
            for i in range(5):
                await client.create(CONFIG_MAP, config_map(namespace, f"c{i}"))
            return version

    async def read(version: str) -> None:
        async with connect() as client:
            with pytest.raises(GoneError, match="too old resource version"):
                await first(client.watch(CONFIG_MAP, version, seconds=60, namespace=namespace))

    version = run(write())
    ours.restart_apiserver(kill=True)
    run(read(version))


def test_a_watch_that_may_not(run: Run, namespace: str, ours: Any, name: str) -> None:
    from berth_kube import config

    async def story() -> None:
        async with KubeClient(config.load(str(ours.user_kubeconfig(name)))) as client:
            with pytest.raises(ForbiddenError, match=r"verb watch on configmaps"):
                async with client.watch(CONFIG_MAP, "1", seconds=5, namespace=namespace):
                    pass
            with pytest.raises(ForbiddenError, match=r"verb update on nodes/status\)"):
                await client.replace(NODE, {"metadata": {"name": "x"}}, subresource="status")
            assert client.written == 0

    run(story())


def test_a_kind_that_is_not_served(run: Run, connect: Connect) -> None:
    async def story() -> None:
        async with connect() as client:
            with pytest.raises(NotFoundError, match=r"does not serve things\.example\.org/v1"):
                await client.list(Resource("example.org", "v1", "things", "Thing", False))

    run(story())


def test_subresources(run: Run, connect: Connect, namespace: str) -> None:
    """Binding a pod and evicting it: POST to a subresource; the pod's status is another endpoint than its spec."""

    async def story() -> None:
        async with connect() as client:
            pod = {
                "metadata": {"name": "p", "namespace": namespace, "labels": {"app": "p"}},
                "spec": {
                    "schedulerName": "nobody",
                    "automountServiceAccountToken": False,
                    "containers": [{"name": "c", "image": "none"}],
                },
            }
            await account(client, namespace)
            await client.create(POD, pod)
            status = {"status": {"conditions": [{"type": "berth.dev/Test", "status": "True"}]}}
            after = await client.patch(POD, "p", namespace, status, kind="strategic", subresource="status")
            assert "berth.dev/Test" in {entry["type"] for entry in after["status"]["conditions"]}
            target = {"apiVersion": "v1", "kind": "Node", "name": "no-such-node"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
            await client.create(POD, binding, name="p", namespace=namespace, subresource="binding")
            assert (await client.get(POD, "p", namespace))["spec"]["nodeName"] == "no-such-node"
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
            await client.create(POD, eviction, name="p", namespace=namespace, subresource="eviction")
            await client.delete(POD, "p", namespace, grace_seconds=0)
            assert await client.find(POD, "p", namespace) is None

    run(story())


def test_writes_are_guarded_right_before_they_are_sent(run: Run, connect: Connect, namespace: str) -> None:
    def no() -> None:
        raise PermissionError("not now")

    async def story() -> None:
        async with connect() as client:
            client.guard_writes(no)
            with pytest.raises(PermissionError):
                await client.create(CONFIG_MAP, config_map(namespace, "a"))
            assert await client.find(CONFIG_MAP, "a", namespace) is None
            assert client.writes == 0

    run(story())


def test_warnings_of_the_server_are_told_once(
    run: Run, connect: Connect, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with connect() as client:
            old = Resource("", "v1", "componentstatuses", "ComponentStatus", False)  # deprecated, and says so
            await client.list(old)
            await client.list(old)

    with caplog.at_level(logging.WARNING, "berth_kube"):
        run(story())
    assert len([record for record in caplog.records if "deprecated" in record.getMessage()]) == 1


def test_many_at_once_use_few_connections(run: Run, far: Connect, proxy: Proxy) -> None:
    async def story() -> None:
        async with far(connections=3) as client:
            await asyncio.gather(*(client.get(NAMESPACE, "default") for _index in range(60)))
            assert proxy.accepted <= 3
            cancelled = [asyncio.ensure_future(client.get(NAMESPACE, "default")) for _index in range(20)]
            await asyncio.sleep(0)
            for task in cancelled[::2]:
                task.cancel()
            await asyncio.gather(*cancelled, return_exceptions=True)
            await asyncio.gather(*(client.get(NAMESPACE, "default") for _index in range(20)))

    run(story())


def test_a_connection_that_was_closed_while_idle(run: Run, far: Connect, proxy: Proxy, namespace: str) -> None:
    """Nothing was sent on it yet, so that a create goes through another one, once."""

    async def story() -> None:
        async with far() as client:
            for i in range(5):
                await client.create(CONFIG_MAP, config_map(namespace, f"c{i}"))
                proxy.cut()
                await asyncio.sleep(0.05)
            assert client.requests["create"] == 5

    run(story())


def test_an_answer_that_is_lost_leaves_a_create_open(run: Run, far: Connect, proxy: Proxy, namespace: str) -> None:
    """It is not sent again by itself; what may be sent twice is."""

    async def story() -> None:
        async with far(timeout=60) as client:
            await client.get(NAMESPACE, "default")
            proxy.hold()
            creating = asyncio.ensure_future(client.create(CONFIG_MAP, config_map(namespace, "a")))
            await asyncio.sleep(0.2)
            proxy.cut()
            proxy.release()
            with pytest.raises(UnavailableError, match="may or may not have been carried out"):
                await creating
            assert client.requests["create"] == 1
            proxy.hold()
            reading = asyncio.ensure_future(client.get(NAMESPACE, "default"))
            await asyncio.sleep(0.2)
            proxy.cut()
            proxy.release()
            assert (await reading)["metadata"]["name"] == "default"

    run(story())


def test_closing_ends_what_is_under_way(run: Run, far: Connect, proxy: Proxy) -> None:
    async def story() -> None:
        client = far()
        await client.get(NAMESPACE, "default")
        proxy.hold()
        asked = [asyncio.ensure_future(client.get(NAMESPACE, "default")) for _index in range(20)]
        await asyncio.sleep(0.2)
        await client.close()
        for error in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(error, UnavailableError)
        with pytest.raises(UnavailableError, match="this client is closed"):
            await client.get(NAMESPACE, "default")

    run(story())


def test_a_server_that_says_nothing(run: Run, far: Connect, proxy: Proxy) -> None:
    async def story() -> None:
        async with far() as client:
            await client.get(NAMESPACE, "default")
            proxy.hold()
            with pytest.raises(UnavailableError, match="no complete answer in time") as caught:
                await client.get(NAMESPACE, "default", timeout=0.5)
            assert caught.value.reason == "Timeout"
            proxy.release()
            assert await client.get(NAMESPACE, "default")

    run(story())


def test_a_server_that_accepts_and_closes(run: Run, far: Connect, proxy: Proxy) -> None:
    async def story() -> None:
        proxy.refuse = True
        async with far(timeout=3) as client:
            with pytest.raises(UnavailableError, match="cannot list namespaces: no answer from the API server"):
                await client.list(NAMESPACE)
            assert client.requests["list"] <= 6
            proxy.refuse = False
            assert (await client.list(NAMESPACE)).items

    run(story())


def test_a_restart_in_the_middle_of_many_reads_and_writes(
    run: Run, connect: Connect, namespace: str, ours: Any
) -> None:
    """Reads and replaces wait for it; each write happened at most once."""

    async def count(client: KubeClient, lease: str, stop: asyncio.Event) -> int:
        done = 0
        while not stop.is_set():
            try:
                seen = await client.get(LEASE, lease, namespace)
                seen["spec"] = {"leaseTransitions": seen["spec"]["leaseTransitions"] + 1}
                await client.replace(LEASE, seen)
                done += 1
            except (UnavailableError, ConflictError):  # the answer was lost: look again
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.02)
        return done

    async def story() -> None:
        stop = asyncio.Event()
        async with connect(timeout=20) as client:
            names = [f"l{i}" for i in range(4)]
            for name in names:
                body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"leaseTransitions": 0}}
                await client.create(LEASE, body)
            counting = [asyncio.ensure_future(count(client, name, stop)) for name in names]
            await asyncio.sleep(0.5)
            await asyncio.get_running_loop().run_in_executor(None, lambda: ours.restart_apiserver(kill=True))
            await asyncio.sleep(1)
            stop.set()
            for i, done in enumerate(await asyncio.gather(*counting)):
                kept = (await client.get(LEASE, names[i], namespace))["spec"]["leaseTransitions"]
                assert done <= kept <= done + 2, "an answer may be lost, a write may not"

    run(story())


def test_a_raw_path(run: Run, connect: Connect) -> None:
    """A raw path is given as it is."""

    async def story() -> None:
        async with connect() as client:
            assert await client.raw("/readyz") == b"ok"
            assert json.loads(await client.raw("/version"))["major"] == "1"
            with pytest.raises(NotFoundError):
                await client.raw("/no/such/path")

    run(story())
