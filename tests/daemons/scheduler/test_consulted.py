"""Extenders of the configuration: asked as kube-scheduler asks them, and what is done with their words.

The real API server, berth-scheduler as a process, a real kube-scheduler beside it, and extenders that listen on
real ports. Pods that concern no extender are never kept waiting by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.config.connections import parse_extenders
from berth_core.errors import StateError
from berth_core.framework.binding import Binding
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.model.preemption import Candidate, VictimFacts
from berth_kube import config
from berth_kube.client import KubeClient
from berth_scheduler.consulted.opinions import Whole
from berth_scheduler.consulted.pool import Pool
from tests.daemons.scheduler.extending import Stock
from tests.daemons.scheduler.others import Answer, Somebody, lets_pass, named, prefers
from tests.daemons.scheduler.world import until
from tests.support.certificates import authority, inline, pem

pytestmark = pytest.mark.slow

THING = "example.com/thing"
ASKS = {"requests": {"cpu": "100m", THING: "1"}, "limits": {THING: "1"}}
CONCERNED = {"containers": [{"name": "main", "image": "none", "resources": ASKS}]}
MANAGED = {"managedResources": [{"name": THING, "ignoredByScheduler": True}]}


@pytest.fixture
def somebody() -> Iterator[Callable[..., Somebody]]:
    """``somebody(filter=..., prioritize=...)``: an extender with these verbs."""
    running: list[Somebody] = []

    def begin(context: ssl.SSLContext | None = None, port: int = 0, **answers: Answer) -> Somebody:
        running.append(Somebody(answers, context, port))
        return running[-1]

    yield begin
    for one in running:
        one.stop()


@pytest.fixture
def asks(world: Any, start: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """``asks(configuration, ...)`` starts berth-scheduler with these extenders."""

    def begin(*extenders: dict[str, Any], **options: Any) -> Any:
        return start(config=world.configuration(tmp_path / "extenders.yaml", extenders=list(extenders)), **options)

    return begin


@pytest.mark.parametrize("by_name", [True, False], ids=["names", "whole nodes"])
def test_both_schedulers_ask_the_same_and_go_by_the_answer(
    plane: Any, world: Any, asks: Any, somebody: Any, tmp_path: Path, by_name: bool
) -> None:
    for suffix in ("a", "b", "c", "d"):
        world.node(suffix, cpu="8" if suffix == "a" else "2")
    one = somebody(filter=lets_pass("b", "c", failed={"a": "is too good"}), prioritize=prefers(c=7))
    configured = one.configuration(nodeCacheCapable=by_name, **MANAGED)
    asks(configured)
    stock = Stock(plane, world, tmp_path, None, [configured], f"{world.name}-stock")
    try:
        world.pod("ours", **CONCERNED)
        world.pod("theirs", schedulerName=f"{world.name}-stock", **CONCERNED)
        assert world.placed("ours", "theirs") == [f"{world.name}-c"] * 2
        for verb in ("filter", "prioritize"):
            ours, theirs = (shape(one.questions(verb, pod)[0]) for pod in ("ours", "theirs"))
            assert ours == theirs
        one.answers["filter"] = lets_pass(failed={"a": "is too good"}, hopeless={"b": "is broken", "d": "is broken"})
        world.pod("ours-too", **CONCERNED)
        world.pod("theirs-too", schedulerName=f"{world.name}-stock", **CONCERNED)
        world.refused("theirs-too", "1 is too good, 2 is broken")
        world.refused("ours-too", "1 is too good, 1 node(s) were left out by an extender, 2 is broken")
    finally:
        stock.stop()


def shape(question: dict[str, Any]) -> tuple[Any, ...]:
    """All of a question that must be the same for both, the pods' own names left out."""
    nodes = sorted(question["NodeNames"] or [one["metadata"]["name"] for one in question["Nodes"]["items"]])
    whole = sorted((question["Nodes"] or {"items": [{}]})["items"][0].keys() - {"apiVersion", "kind"})
    pod = question["Pod"]
    return (
        sorted(question),
        nodes,
        whole,
        sorted(pod["spec"]),
        sorted(pod["spec"]["containers"][0]),
        sorted(pod["metadata"]),
    )


def test_who_waits_for_an_extender_keeps_nobody_else_waiting(world: Any, asks: Any, somebody: Any) -> None:
    world.node("a")
    go = threading.Event()

    def slow(question: dict[str, Any]) -> Any:
        go.wait(60)
        return lets_pass("a")(question)

    one = somebody(filter=slow)
    asks(one.configuration(httpTimeout="60s", **MANAGED))
    world.pod("waits", **CONCERNED)
    until(lambda: one.questions("filter", "waits"), "the extender was not asked")
    plain = [f"plain-{number}" for number in range(5)]
    for name in plain:
        world.pod(name)
    world.placed(*plain)
    assert world.where("waits") == "", "the extender has not answered"
    go.set()
    world.placed("waits")
    assert {named(document) for _verb, document in one.asked} == {"waits"}, "the others are none of its business"


def test_the_choice_rests_on_the_cluster_as_it_is_when_the_answer_comes(world: Any, asks: Any, somebody: Any) -> None:
    first, second = world.node("a"), world.node("b", unschedulable=True)
    go = threading.Event()

    def slow(question: dict[str, Any]) -> Any:
        go.wait(60)
        return lets_pass("a", "b")(question)

    one = somebody(filter=slow)
    asks(one.configuration(httpTimeout="60s", **MANAGED))
    world.pod("waits", **CONCERNED)
    until(lambda: one.questions("filter", "waits"), "the extender was not asked")
    world.pod("fills", cpu="1950m")
    assert world.placed("fills") == [first]
    world.api.patch(kinds.NODE, second, None, {"spec": {"unschedulable": None}})
    world.pod("later", cpu="1500m")
    assert world.placed("later") == [second], "the scheduler knows of the second node"
    go.set()
    assert world.placed("waits") == [second]
    assert [one["NodeNames"] for one in one.questions("filter", "waits")] == [[first], [second]]


def test_an_extender_that_is_not_there(world: Any, asks: Any, somebody: Any) -> None:
    world.node("a")
    gone = somebody(filter=lets_pass("a"))
    gone.stop()
    may_be_ignored = somebody(filter=lets_pass("a"))
    may_be_ignored.answers["filter"] = lambda _question: (500, b"out of order")
    asks(may_be_ignored.configuration(ignorable=True), gone.configuration(**MANAGED))
    world.pod("plain")
    world.placed("plain")
    assert len(may_be_ignored.questions("filter", "plain")) == 1
    world.pod("waits", **CONCERNED)
    until(
        lambda: world.told("waits", "FailedScheduling", f"extender {gone.url}: filter: no answer within 20 s"),
        lambda: world.story_of("waits"),
    )
    back = somebody(port=gone.port, filter=lets_pass("a"))
    world.placed("waits")
    assert back.questions("filter", "waits")


ANSWERS = {
    "error": ({"Error": "nobody knows"}, "filter: nobody knows"),
    "stranger": ({"NodeNames": ["elsewhere"]}, "it lets pass node 'elsewhere', about which it was not asked"),
    "page": ((200, b"<html>"), "filter: the answer is not JSON"),
    "list": ([], "an ExtenderFilterResult: expected an object, got list"),
    "number": ({"NodeNames": [7]}, "NodeNames: expected a list of names"),
    "refusal": ((403, b"go away"), "HTTP status 403, expected 200: go away"),
}


def test_answers_that_no_extender_should_give(world: Any, asks: Any, somebody: Any) -> None:
    world.node("a")
    one = somebody(filter=lambda question: ANSWERS[named(question)][0])
    scheduler = asks(one.configuration(**MANAGED))
    for name in ANSWERS:
        world.pod(name, **CONCERNED)
    for name, (_said, words) in ANSWERS.items():
        until(lambda: words in str(world.events(name)), lambda: world.story_of(name))  # noqa: B023 - waited for here
    world.pod("plain")
    world.placed("plain")
    assert "Traceback" not in scheduler.text()


def test_an_extender_binds(world: Any, asks: Any, somebody: Any) -> None:
    node = world.node("a")

    def bind(question: dict[str, Any]) -> Any:
        body = {
            "metadata": {"name": question["PodName"], "uid": question["PodUID"]},
            "target": {"name": question["Node"]},
        }
        world.api.create(
            kinds.POD,
            {**body, "metadata": {**body["metadata"], "namespace": question["PodNamespace"]}},
            subresource="binding",
        )
        return {"Error": ""} if question["PodName"] == "said" else (500, b"done, but the answer is lost")

    one = somebody(bind=bind)
    asks(one.configuration(**MANAGED))
    world.pod("said", **CONCERNED)
    world.pod("unsaid", **CONCERNED)
    world.pod("plain")
    assert world.placed("said", "unsaid", "plain") == [node] * 3
    for name in ("said", "unsaid"):
        until(lambda name=name: world.told(name, "Scheduled", f"to {node}"), lambda name=name: world.story_of(name))
        assert len(one.questions("bind", name)) == 1
    assert not one.questions("bind", "plain")


def test_who_leads_no_more_has_nothing_bound(plane: Any, world: Any, somebody: Any) -> None:
    node = world.node("a")
    pod = world.pod("p", **CONCERNED)
    one = somebody(bind=lambda _question: {"Error": ""})
    (configured,) = parse_extenders([one.configuration()])

    def check() -> None:
        raise StateError("the lease is somebody else's")

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client, contextlib.aclosing(Pool()) as pool:
            client.guard_writes(check)
            (extender,) = pool.take([configured])
            binding = Binding(pod, PlacementRequest(PodInfo.from_manifest(pod)), Placement(node), client)
            with pytest.raises(StateError, match="the lease is somebody else's"):
                await extender.bind(binding)

    asyncio.run(story())
    assert one.asked == []


def test_an_extender_has_a_word_about_victims(world: Any, asks: Any, somebody: Any) -> None:
    priority = kinds.Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
    high = f"{world.name}-high"
    world.api.create(priority, {"metadata": {"name": high}, "value": 1000})
    try:
        for suffix in ("a", "b"):
            node = world.node(suffix)
            world.pod(f"fills-{suffix}", cpu="1500m", nodeName=node)

        def only_b(question: dict[str, Any]) -> Any:
            assert sorted(question["NodeNameToMetaVictims"]) == world.nodes
            return {"NodeNameToMetaVictims": {
                node: one for node, one in question["NodeNameToMetaVictims"].items() if node.endswith("b")
            }}  # fmt: skip

        one = somebody(preempt=only_b)
        asks(one.configuration())
        world.pod("urgent", cpu="1", priorityClassName=high)
        assert world.placed("urgent") == [f"{world.name}-b"]
        assert world.get_pod("fills-b") is None
        assert world.get_pod("fills-a") is not None
        one.answers["preempt"] = lambda _question: {"NodeNameToMetaVictims": {}}
        world.pod("too-late", cpu="1500m", priorityClassName=high)
        world.refused("too-late", "preemption: no candidate node for preemption")
        assert world.get_pod("fills-a") is not None
    finally:
        world.api.delete(priority, high)


def test_a_victim_that_was_replaced_is_no_victim(plane: Any, world: Any) -> None:
    meta = world.pod("p")["metadata"]
    there, replaced = (VictimFacts(world.name, "p", uid, 0, ()) for uid in (meta["uid"], "of the one before"))

    async def story() -> list[str]:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            gone = VictimFacts(world.name, "gone", "u", 0, ())
            return list(await Whole(client).victims([Candidate("a", (there, replaced, gone), 0)]))

    assert asyncio.run(story()) == [meta["uid"]]


def test_over_tls_with_a_verified_certificate(world: Any, asks: Any, somebody: Any, tmp_path: Path) -> None:
    world.node("a")
    key, certificate = authority()
    file = tmp_path / "extender.pem"
    file.write_bytes(certificate + pem(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    one = somebody(context=context, filter=lets_pass("a"))
    known = one.configuration(enableHTTPS=True, tlsConfig={"caData": inline(certificate)}, **MANAGED)
    other = {"managedResources": [{"name": "example.com/other", "ignoredByScheduler": True}]}
    asks(known, one.configuration(enableHTTPS=True, **other))
    world.pod("trusts", **CONCERNED)
    world.placed("trusts")
    asking = {"requests": {"example.com/other": "1"}, "limits": {"example.com/other": "1"}}
    world.pod("does-not", containers=[{"name": "main", "image": "none", "resources": asking}])
    until(
        lambda: "its certificate does not verify" in str(world.events("does-not")), lambda: world.story_of("does-not")
    )
    assert world.where("does-not") == ""


def test_a_changed_configuration_brings_other_extenders(world: Any, asks: Any, somebody: Any, tmp_path: Path) -> None:
    world.node("a")
    one, two = (somebody(filter=lets_pass("a")) for _number in range(2))
    scheduler = asks(one.configuration())
    world.pod("first")
    world.placed("first")
    world.configuration(tmp_path / "extenders.yaml", extenders=[two.configuration()])
    scheduler.says("the changed configuration is in force")
    world.pod("second")
    world.placed("second")
    assert [named(document) for _verb, document in one.asked] == ["first"]
    assert [named(document) for _verb, document in two.asked] == ["second"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"urlPrefix": "ftp://x"}, "extenders[0].urlPrefix: expected http(s)://HOST[:PORT][/PATH], got 'ftp://x'"),
        ({"urlPrefix": "http://x:99999"}, "extenders[0].urlPrefix: expected http(s)://HOST"),
        ({"tlsConfig": {"caFil": "x"}}, "extenders[0].tlsConfig.caFil: unknown field; expected caData"),
        ({"tlsConfig": {"caData": "%"}}, "extenders[0].tlsConfig.caData: expected base64"),
        ({"tlsConfig": {"certFile": "x"}}, "expected a certificate with its key, got one of them"),
        ({"tlsConfig": {"caFile": "x", "insecure": True}}, "expected an authority or insecure, got both"),
    ],
)
def test_what_is_refused_at_the_start(asks: Any, wrong: dict[str, Any], words: str) -> None:
    process = asks({"urlPrefix": "https://127.0.0.1:1", "filterVerb": "filter", **wrong}, wait=False)
    process.says(words)
    until(lambda: process.process.poll() is not None, "it goes on")
    assert process.process.poll() == 2
