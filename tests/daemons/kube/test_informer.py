"""List-watch on the real API server, through restarts, old versions, broken networks and bursts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import ConflictError, GoneError, NotFoundError
from berth_core.model.resources import CONFIG_MAP, CRD, LEASE, Resource
from berth_kube.client import KubeClient
from berth_kube.informer import Informer, pause
from berth_kube.store import Key, key_of
from tests.daemons.kube.conftest import until
from tests.support.etcd_backup import Backup
from tests.support.tcp import Proxy

Run = Callable[..., Any]
Connect = Callable[..., KubeClient]


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


class Told:
    """What handlers were told, in order."""

    def __init__(self, informer: Informer) -> None:
        self.lines: list[str] = []
        informer.on(
            add=lambda new: self._note("add", new),
            update=lambda old, new: self._note(f"update from {old['data'].get('x')}", new),
            delete=lambda old: self._note("delete", old),
        )

    def _note(self, what: str, item: dict[str, Any]) -> None:
        if item["metadata"]["name"] != "kube-root-ca.crt":
            self.lines.append(f"{what} {item['metadata']['name']} {item['data'].get('x')}")


@contextlib.asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[None]:
    task = asyncio.ensure_future(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(informer: Informer) -> list[str]:
    return sorted(item["metadata"]["name"] for item in informer.all() if item["metadata"]["name"] != "kube-root-ca.crt")


def test_what_is_there_and_what_changes(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            for name in ("a", "b", "c"):
                await client.create(CONFIG_MAP, config_map(namespace, name, x="1"))
            informer = Informer(
                client, CONFIG_MAP, namespace, limit=2, indexers={"x": lambda item: [item["data"].get("x", "")]}
            )
            told = Told(informer)
            assert not informer.synced
            async with running(informer):
                await informer.wait_synced()
                assert sorted(told.lines) == ["add a 1", "add b 1", "add c 1"]
                await client.patch(CONFIG_MAP, "b", namespace, {"data": {"x": "2"}})
                await client.delete(CONFIG_MAP, "a", namespace)
                await until(lambda: len(told.lines) == 5)
                assert told.lines[3:] == ["update from 1 b 2", "delete a 1"]
                assert [item["metadata"]["name"] for item in informer.by_index("x", "1")] == ["c"]
                assert [item["metadata"]["name"] for item in informer.by_index("x", "2")] == ["b"]
                assert "managedFields" not in informer.get("b", namespace)["metadata"]
                late = Told(informer)
                assert sorted(late.lines) == ["add b 2", "add c 1"]
            assert informer.lists == 1

    run(story())


def test_selectors_and_transform(run: Run, connect: Connect, namespace: str) -> None:
    """An object that stops matching goes; what the transform does not want or cannot read is left out."""

    def transform(item: dict[str, Any]) -> dict[str, Any] | None:
        if item["metadata"]["name"] == "bad":
            raise KeyError("no such field")
        return None if item["data"].get("x") == "hide" else {"metadata": item["metadata"], "data": item["data"]}

    async def story() -> None:
        async with connect() as client:
            informer = Informer(client, CONFIG_MAP, namespace, labels="pick=me", transform=transform)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                for name in ("a", "bad", "b"):
                    body = config_map(namespace, name, x="1")
                    body["metadata"]["labels"] = {"pick": "me"}
                    await client.create(CONFIG_MAP, body)
                await client.create(CONFIG_MAP, config_map(namespace, "other", x="1"))
                await client.patch(CONFIG_MAP, "a", namespace, {"metadata": {"labels": {"pick": None}}})
                await until(lambda: informer.get("b", namespace))
                assert set(informer.get("b", namespace) or {}) == {"metadata", "data"}
                await client.patch(CONFIG_MAP, "b", namespace, {"data": {"x": "hide"}})
                await until(lambda: len(told.lines) == 4)
                assert told.lines == ["add a 1", "add b 1", "delete a 1", "delete b 1"]
                assert informer.all() == []

    run(story())


def test_many_short_watches_lose_nothing(run: Run, connect: Connect, namespace: str) -> None:
    """Each watch ends after a second or two; the next goes on where it ended, without a list."""

    async def story() -> None:
        async with connect() as client:
            informer = Informer(client, CONFIG_MAP, namespace, watch_seconds=1.0)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                for i in range(40):
                    await client.create(CONFIG_MAP, config_map(namespace, f"c{i:02}", x="1"))
                    await asyncio.sleep(0.1)
                await until(lambda: len(told.lines) == 40)
                assert told.lines == [f"add c{i:02} 1" for i in range(40)]
                assert informer.lists == 1
                assert client.requests["watch"] >= 2

    run(story())


def test_the_network_breaks_in_the_middle(
    run: Run, connect: Connect, far: Connect, proxy: Proxy, namespace: str
) -> None:
    async def story() -> None:
        async with connect() as client, far() as behind:
            informer = Informer(behind, CONFIG_MAP, namespace)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                for i in range(30):
                    await client.create(CONFIG_MAP, config_map(namespace, f"c{i:02}", x="1"))
                    if i % 10 == 5:
                        proxy.cut()
                proxy.refuse = True
                proxy.cut()
                for i in range(0, 30, 3):
                    await client.delete(CONFIG_MAP, f"c{i:02}", namespace)
                await asyncio.sleep(0.5)
                proxy.refuse = False
                await until(lambda: len(told.lines) >= 40)
                assert sorted(told.lines) == sorted(
                    [f"add c{i:02} 1" for i in range(30)] + [f"delete c{i:02} 1" for i in range(0, 30, 3)]
                )
                assert informer.lists == 1, "a broken watch goes on from its last event"

    run(story())


def test_versions_that_are_gone(
    run: Run, connect: Connect, far: Connect, proxy: Proxy, namespace: str, ours: Any
) -> None:
    """Away while things happen and the API server forgets them: 410, a new list, and the deletions are told too."""

    async def story() -> None:
        async with connect() as client, far() as behind:
            for name in ("stays", "changes", "goes", "replaced"):
                await client.create(CONFIG_MAP, config_map(namespace, name, x="1"))
            informer = Informer(behind, CONFIG_MAP, namespace)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                before = len(told.lines)
                proxy.refuse = True
                proxy.cut()
                await client.patch(CONFIG_MAP, "changes", namespace, {"data": {"x": "2"}})
                await client.delete(CONFIG_MAP, "goes", namespace)
                await client.delete(CONFIG_MAP, "replaced", namespace)
                await client.create(CONFIG_MAP, config_map(namespace, "replaced", x="3"))
                await client.create(CONFIG_MAP, config_map(namespace, "comes", x="1"))
                await asyncio.get_running_loop().run_in_executor(None, lambda: ours.restart_apiserver(kill=True))
                proxy.refuse = False
                await until(lambda: len(told.lines) >= before + 5)
                assert sorted(told.lines[before:]) == [
                    "add comes 1", "add replaced 3", "delete goes 1", "delete replaced 1", "update from 1 changes 2",
                ]  # fmt: skip
                assert told.lines.index("delete replaced 1") < told.lines.index("add replaced 3")
                assert names(informer) == ["changes", "comes", "replaced", "stays"]
                assert informer.lists == 2

    run(story())


def test_a_history_that_has_gone_back(run: Run, connect: Connect, far: Connect, proxy: Proxy, namespace: str) -> None:
    """As after an etcd that was restored (agent/test_restored.py): what the informer has come to is yet to come."""

    async def story() -> None:
        async with connect() as client, far() as behind:
            for name in ("stays", "goes"):
                await client.create(CONFIG_MAP, config_map(namespace, name, x="1"))
            informer = Informer(behind, CONFIG_MAP, namespace)
            told = Told(informer)
            informer.on(rewound=lambda: told.lines.append("rewound"))
            async with running(informer):
                await informer.wait_synced()
                before = len(told.lines)
                proxy.refuse = True
                proxy.cut()
                await client.delete(CONFIG_MAP, "goes", namespace)
                await client.create(CONFIG_MAP, config_map(namespace, "comes", x="1"))
                informer._version = str(int(informer.version) + 1_000_000)
                proxy.refuse = False
                await until(lambda: len(told.lines) >= before + 4)
                assert told.lines[before] == "rewound"
                assert sorted(told.lines[before + 1 :]) == ["add comes 1", "delete goes 1", "update from 1 stays 1"]
                assert names(informer) == ["comes", "stays"]

    run(story())


def test_what_a_list_knows_otherwise_than_a_request_is_told(run: Run, connect: Connect, namespace: str) -> None:
    """No event tells of what came and went, or was undone, while nobody watched. Its version is the answer's."""

    async def story() -> None:
        async with connect() as client:
            await client.create(CONFIG_MAP, config_map(namespace, "stays", x="1"))
            informer = Informer(client, CONFIG_MAP, namespace)
            told, versions = Told(informer), []
            informer.on(delete=lambda _old: versions.append(informer.version))
            async with running(informer):
                await informer.wait_synced()
            come_to, before = informer.version, len(told.lines)
            stays = informer.get("stays", namespace) or {}
            for answer, there in (("stays", stays["metadata"]["uid"]), ("stays", "another"), ("gone", "another")):
                meta = {"name": answer, "namespace": namespace, "uid": there, "resourceVersion": "7"}
                informer.settle({"metadata": meta, "data": {"x": "9"}})
            assert told.lines[before:] == ["update from 9 stays 1", "delete stays 9", "delete gone 9"]
            assert versions == ["7", "7"]
            assert informer.version == come_to
            assert names(informer) == ["stays"]

    run(story())


@pytest.mark.parametrize("bump", [True, False], ids=["revision raised", "revision gone back"])
def test_an_etcd_that_was_restored(
    run: Run, connect: Connect, namespace: str, ours: Any, tmp_path: Path, bump: bool
) -> None:
    """From a snapshot, by etcd's own tools: what changed since is told as it was, what came since as gone."""

    async def story() -> None:
        async with connect() as client, connect() as own:
            for name in ("stays", "changes", "goes"):
                await client.create(CONFIG_MAP, config_map(namespace, name, x="1"))
            informer = Informer(own, CONFIG_MAP, namespace)
            told, loop = Told(informer), asyncio.get_running_loop()
            informer.on(rewound=lambda: told.lines.append("rewound"))
            async with running(informer):
                await informer.wait_synced()
                backup = await loop.run_in_executor(None, Backup(ours, tmp_path).save)
                for turn in range(60):  # more than an API server writes when it starts
                    await client.patch(CONFIG_MAP, "changes", namespace, {"data": {"x": str(turn)}})
                await client.delete(CONFIG_MAP, "goes", namespace)
                await client.create(CONFIG_MAP, config_map(namespace, "comes", x="1"))
                await until(lambda: told.lines[-1] == "add comes 1")
                before = len(told.lines)
                await loop.run_in_executor(None, lambda: backup.restore(bump=bump))
                await until(lambda: len(told.lines) >= before + 5)
                assert told.lines[before] == "rewound"
                wanted = ["add goes 1", "delete comes 1", "update from 1 stays 1", "update from 59 changes 1"]
                assert sorted(told.lines[before + 1 :]) == wanted
                assert names(informer) == ["changes", "goes", "stays"]
                await client.patch(CONFIG_MAP, "stays", namespace, {"data": {"x": "2"}})
                await until(lambda: told.lines[-1] == "update from 1 stays 2")

    run(story())


def forget_history(cluster: Any, version: str) -> None:
    """Nothing older is left: etcd is compacted, and the API server starts without the snapshots of its cache."""
    pki, port = cluster._pki, cluster._control_plane().settings.ports["etcd-http"]
    tls = ssl.create_default_context(cafile=str(pki.authority("etcd-ca").cert))
    pair = pki.client("kube-apiserver", authority="etcd-ca")
    tls.load_cert_chain(pair.cert, pair.key)
    body = json.dumps({"revision": version, "physical": True}).encode()
    asked = urllib.request.Request(f"https://127.0.0.1:{port}/v3/kv/compaction", body, method="POST")
    with urllib.request.urlopen(asked, timeout=60, context=tls) as answer:
        assert answer.status == 200
    cluster.restart_apiserver(kill=True)


def test_history_that_is_gone_in_the_middle_of_a_list(run: Run, connect: Connect, namespace: str, ours: Any) -> None:
    """The first page is there, the second is answered with 410: one list in one go, and no page of two moments."""

    async def story() -> None:
        async with connect() as client, connect() as reader:
            for i in range(5):
                await client.create(CONFIG_MAP, config_map(namespace, f"c{i}", x="1"))
            informer, read, answers = Informer(reader, CONFIG_MAP, namespace, limit=2), reader.page, []
            told = Told(informer)

            async def page(*args: Any, **options: Any) -> Any:
                try:
                    listing = await read(*args, **options)
                except GoneError:
                    answers.append("gone")
                    raise
                answers.append([item["metadata"]["name"] for item in listing.items])
                if len(answers) == 1:
                    await client.delete(CONFIG_MAP, "c0", namespace)
                    await client.patch(CONFIG_MAP, "c3", namespace, {"data": {"x": "2"}})
                    last = await client.create(CONFIG_MAP, config_map(namespace, "c9", x="1"))
                    version = last["metadata"]["resourceVersion"]
                    await asyncio.get_running_loop().run_in_executor(None, forget_history, ours, version)
                return listing

            reader.page = page  # type: ignore[method-assign]
            async with running(informer):
                await informer.wait_synced()
                assert answers[:2] == [["c0", "c1"], "gone"]
                assert sorted(told.lines) == ["add c1 1", "add c2 1", "add c3 2", "add c4 1", "add c9 1"]
                assert names(informer) == ["c1", "c2", "c3", "c4", "c9"]
                await client.create(CONFIG_MAP, config_map(namespace, "later", x="1"))
                await until(lambda: "add later 1" in told.lines)
                assert informer.lists == 1, "the watch goes on from the version of the whole list"

    run(story())


def test_the_api_server_is_killed_again_and_again(run: Run, connect: Connect, namespace: str, ours: Any) -> None:
    """Writers and informers go on through it; at the end the cache is what the API server says, and was told so."""

    async def write(client: KubeClient, stop: asyncio.Event) -> None:
        i = 0
        while not stop.is_set():
            i += 1
            with contextlib.suppress(Exception):
                await client.apply(CONFIG_MAP, config_map(namespace, f"c{i % 10}", x=str(i)), timeout=2)
                await client.delete(CONFIG_MAP, f"c{(i + 5) % 10}", namespace, timeout=2)
            await asyncio.sleep(0.02)

    async def story() -> None:
        stop = asyncio.Event()
        async with connect() as client, connect() as writer:
            informer = Informer(client, CONFIG_MAP, namespace)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                writing = asyncio.ensure_future(write(writer, stop))
                for _index in range(2):
                    await asyncio.sleep(1)
                    again = functools.partial(ours.restart_apiserver, kill=True)
                    await asyncio.get_running_loop().run_in_executor(None, again)
                stop.set()
                await writing
                await client.create(CONFIG_MAP, config_map(namespace, "last", x="1"))
                await until(lambda: "last" in names(informer))
                truth = {key_of(item): item["data"] for item in (await client.list(CONFIG_MAP, namespace)).items}
                assert {key_of(item): item["data"] for item in informer.all()} == truth
                there = {}
                for line in told.lines:  # what was told, replayed, is the cache
                    what, *_between, name, value = line.split()
                    assert (what == "add") == (name not in there), line
                    there.pop(name) if what == "delete" else there.update({name: value})
                assert there == {name: data["x"] for (_ns, name), data in truth.items() if name != "kube-root-ca.crt"}

    run(story())


@pytest.mark.slow
def test_a_burst(run: Run, connect: Connect, namespace: str) -> None:
    """1,200 changes as fast as they can be made; the last state of each object arrives, in order."""
    count, rounds = 100, 12

    async def bump(client: KubeClient, name: str) -> None:
        item = await client.create(LEASE, {"metadata": {"name": name, "namespace": namespace}, "spec": {}})
        for i in range(1, rounds):
            item["spec"] = {"leaseTransitions": i}
            item = await client.replace(LEASE, item)

    async def story() -> None:
        async with connect() as client, connect(connections=16, timeout=120) as writer:
            informer = Informer(client, LEASE, namespace)
            last: dict[Key, int] = {}
            events = 0

            def note(_old: Any, new: dict[str, Any]) -> None:
                nonlocal events
                events += 1
                now = new["spec"]["leaseTransitions"]
                assert last.get(key_of(new), 0) < now
                last[key_of(new)] = now

            informer.on(add=lambda new: None, update=note)
            async with running(informer):
                await informer.wait_synced()
                await asyncio.gather(*(bump(writer, f"l{i:03}") for i in range(count)))
                await until(lambda: list(last.values()) == [rounds - 1] * count)
                assert events == count * (rounds - 1)
                assert informer.lists == 1

    run(story(), 1200)


def test_a_kind_that_is_not_served_is_none_until_it_is(run: Run, connect: Connect, namespace: str) -> None:
    group = f"{namespace}.example.com"
    kind = Resource(group, "v1", "things", "Thing", True)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }

    async def story() -> None:
        async with connect() as client:
            informer = Informer(client, kind, namespace, optional=True, chance=lambda: 0.0)
            async with running(informer):
                await informer.wait_synced()
                assert informer.all() == []
                await client.create(CRD, {"metadata": {"name": f"things.{group}"}, "spec": spec})
                try:
                    thing = {"apiVersion": kind.api_version, "kind": "Thing", "metadata": {"name": "a"}}
                    await until(lambda: informer.lists == 1)
                    await client.create(kind, {**thing, "metadata": {"name": "a", "namespace": namespace}})
                    await until(lambda: informer.get("a", namespace) is not None)
                finally:
                    await client.delete(CRD, f"things.{group}")

    run(story())


def test_a_handler_s_fault_is_its_own(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            informer = Informer(client, CONFIG_MAP, namespace)
            informer.on(add=lambda _item: 1 / 0)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                with contextlib.suppress(ConflictError):
                    await client.create(CONFIG_MAP, config_map(namespace, "a", x="1"))
                await until(lambda: told.lines == ["add a 1"])

    run(story())


async def roots_are_there(client: KubeClient, namespace: str) -> None:
    """Kubernetes gives every new namespace its ConfigMap kube-root-ca.crt, in its own time."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NotFoundError):
                await client.get(CONFIG_MAP, "kube-root-ca.crt", namespace)
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("faulty", [False, True])
def test_an_empty_cache_is_filled_at_once(run: Run, connect: Connect, namespace: str, faulty: bool) -> None:
    """Who takes a list as a whole is told so, and of each only where it fails; what comes later is an addition."""

    async def story() -> None:
        async with connect() as client:
            for name in ("a", "b"):
                await client.create(CONFIG_MAP, config_map(namespace, name, x="1"))
            await roots_are_there(client, namespace)
            informer = Informer(client, CONFIG_MAP, namespace, limit=1)
            lists: list[list[str]] = []
            added: list[str] = []

            def fill(items: list[dict[str, Any]]) -> None:
                lists.append([item["metadata"]["name"] for item in items])
                if faulty:
                    raise ValueError("not as a whole")

            informer.on(add=lambda item: added.append(item["metadata"]["name"]), fill=fill)
            told = Told(informer)
            async with running(informer):
                await informer.wait_synced()
                assert len(lists) == 1
                assert sorted(lists[0]) == sorted([*names(informer), "kube-root-ca.crt"])
                assert sorted(added) == (sorted(lists[0]) if faulty else [])
                await client.create(CONFIG_MAP, config_map(namespace, "c", x="1"))
                await until(lambda: "c" in added)
            assert sorted(told.lines) == ["add a 1", "add b 1", "add c 1"]

    run(story())


def test_pauses_grow() -> None:
    assert [pause(failures, 0.0) for failures in (1, 2, 3, 7, 1000)] == [0.8, 1.6, 3.2, 30.0, 30.0]
    assert pause(1, 0.5) == 1.2000000000000002
