"""What has a StatefulApp looked at, and what a look asks for again: real loop and caches, and no cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from berth_controller.apps import losing
from berth_controller.apps.building import Builder
from berth_controller.apps.downtimes import Downtimes
from berth_controller.apps.kept import Kept
from berth_controller.apps.losing import Losing
from berth_controller.apps.run import Later
from berth_controller.apps.visit import AppKey
from berth_controller.apps.watch import DEBOUNCE, Apps
from berth_controller.caches import Caches, slim_app_pod, slim_node
from berth_controller.reports import Metrics, Reports
from berth_core.app import manifests
from berth_core.app.controller_settings import Settings
from berth_core.app.maintenance_mark import ANNOTATION
from berth_core.app.observed import Observed
from berth_core.app.revisions import status_rows
from berth_core.app.stateful_app_object import CONTROLLER, PLAYBOOK
from berth_core.app.wanted import parse_app
from berth_core.errors import ConflictError, ForbiddenError
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.events import Recorder
from berth_kube.exchange import Endpoint
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.store import key_of
from tests.core.app.claim_world import disk
from tests.core.app.samples import changed, copied

APP = parse_app(changed())
RESYNC = 300.0


class Counted:
    """Answers a list of ControllerRevisions, and counts how often it was asked."""

    def __init__(self, *kept: dict[str, Any], refused: bool = False) -> None:
        self.kept, self.refused, self.asked = list(kept), refused, 0

    async def list(self, *_what: Any, **_which: Any) -> list[dict[str, Any]]:
        self.asked += 1
        if self.refused:
            raise ForbiddenError("no", 403)
        return self.kept


def revision(number: int, image: str) -> dict[str, Any]:
    """Of the StatefulSet of that uid."""
    metadata = {
        "name": f"db-{number}",
        "creationTimestamp": f"2026-01-01T00:0{number}:00Z",
        "ownerReferences": [{"kind": "StatefulSet", "uid": "set-uid"}],
    }
    template = {
        "metadata": {"labels": {"berth.dev/app": "db"}},
        "spec": {"containers": [{"name": "db", "image": image}]},
    }
    return {"metadata": metadata, "revision": number, "data": {"spec": {"template": {"$patch": "replace", **template}}}}


def seen(generation: int = 1, uid: str = "set-uid", **status: Any) -> Observed:
    meta = {"name": "db", "uid": uid, "generation": generation}
    told = {"observedGeneration": generation, "currentRevision": "db-1", "updateRevision": "db-2", **status}
    return Observed(APP.name, APP.namespace, stateful_set={"metadata": meta, "spec": {}, "status": told})


KEPT = (revision(1, "db:1"), revision(2, "db:2"))


def asks(kept: Kept, api: Any, there: Observed, back: str | None = None) -> list[dict[str, Any]] | None:
    return asyncio.run(kept.of(api, APP, there, back))


@pytest.mark.parametrize(
    ("there", "back"),
    [
        (seen(2), None),
        (seen(uid="another"), None),
        (seen(observedGeneration=0), None),
        (seen(currentRevision="db-2"), None),
        (seen(updateRevision="db-1"), None),
        (seen(), "previous"),
    ],
    ids=["generation", "made anew", "observed", "current", "update", "rollback"],
)
def test_revisions_are_listed_again_when_the_set_or_the_request_changes_and_else_not(
    there: Observed, back: str | None
) -> None:
    kept, api = Kept(RESYNC), Counted(*KEPT)
    first = asks(kept, api, seen())
    assert first is not None
    assert status_rows(first) == status_rows(KEPT)
    assert [asks(kept, api, seen()) for _look in range(5)] == [first] * 5
    assert api.asked == 1
    for _look in range(3):
        asks(kept, api, there, back)
    assert api.asked == 2


def test_a_revision_that_went_after_the_sets_word_is_gone_at_the_next_resync() -> None:
    now = [0.0]
    kept, api = Kept(RESYNC, lambda: now[0]), Counted(*KEPT)
    asks(kept, api, seen())
    api.kept = api.kept[1:]
    now[0] = RESYNC
    assert asks(kept, api, seen()) is not None
    assert api.asked == 2
    assert [one["revision"] for one in asks(kept, api, seen()) or ()] == [2]


def test_a_rollback_has_whole_templates() -> None:
    kept, api = Kept(RESYNC), Counted(*KEPT)
    asks(kept, api, seen())
    assert asks(kept, api, seen(), "previous") == list(KEPT)
    kept.forget(APP.namespace, APP.name)
    asks(kept, api, seen())
    assert api.asked == 3


def test_what_may_not_be_read_is_asked_for_again_at_the_next_resync_and_for_a_rollback() -> None:
    now = [0.0]
    kept, api = Kept(RESYNC, lambda: now[0]), Counted(*KEPT, refused=True)
    assert [asks(kept, api, seen()) for _look in range(3)] == [None] * 3
    assert api.asked == 1
    with pytest.raises(ForbiddenError):
        asks(kept, api, seen(), "1")
    assert api.asked == 2
    assert asks(kept, api, seen()) is None
    api.refused, now[0] = False, RESYNC
    assert status_rows(asks(kept, api, seen()) or ()) == status_rows(KEPT)
    assert api.asked == 4


def volume(below: str) -> dict[str, Any]:
    """For a berth whose lock on that disk somebody has taken off."""
    notes = {"berth.dev/berth-uid": "0123456789"}
    return {"metadata": {"name": f"{below}-01234567", "resourceVersion": "1", "annotations": notes}, "spec": {}}


HELD = {"namespace": "x", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "d", "dataUID": "u"}


async def due(apps: Apps) -> set[str]:
    """The apps that a worker would take now."""
    queue, names = apps._queue.queue, set()
    while len(queue):
        key = await queue.get()
        assert key is not None
        queue.done(key)
        names.add(key.name)
    return names


@asynccontextmanager
async def three_apps() -> AsyncIterator[tuple[Caches, Apps]]:
    """One that found no place, one with a disk, another, and one that a playbook carries out."""
    nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
    async with KubeClient(nobody, timeout=0.2) as client:
        caches, registry = Caches(client, "berth-system"), CollectorRegistry()
        reports = Reports(client, Recorder(client, "berth.dev/controller", "test"), Metrics(registry))
        apps = Apps(client, caches, reports, RequestMetrics(registry), Settings())
        for name in ("waits", "has", "other", "played"):
            meta = {"name": name, "namespace": "default", "uid": name, "generation": 1}
            spec = {"driver": PLAYBOOK if name == "played" else CONTROLLER}
            caches.apps.store.put(key_of({"metadata": meta}), {"metadata": meta, "spec": spec})
        apps._visits.unplaced.add(AppKey("default", "waits"))
        yield caches, apps


RECORD = {
    "metadata": {"name": "has-0", "namespace": "default", "resourceVersion": "1"},
    "spec": {"app": "has", "ordinal": 0, "nodeName": "n1", "disks": [{"claim": "d", "name": "n1-d0", "size": 1}]},
}


async def looked_at(held: bool, berth: bool) -> set[str]:
    """Which apps are looked at when a volume over a disk goes."""
    async with three_apps() as (caches, apps):
        below = disk(**({"claimRef": HELD} if held else {}))
        caches.disks.store.put(key_of(below), below)
        if berth:
            caches.berths.store.put(key_of(RECORD), RECORD)
        over = volume("n1-d0")
        caches.volumes._put(key_of(over), over)
        await asyncio.sleep(2 * DEBOUNCE)
        assert not await due(apps), "a volume more helps nobody"
        caches.volumes._forget(key_of(over))
        await asyncio.sleep(2 * DEBOUNCE)
        return await due(apps)


@pytest.mark.parametrize(
    ("held", "berth", "names"),
    [(False, False, {"waits"}), (True, False, set()), (True, True, {"has"}), (False, True, {"waits", "has"})],
)
def test_a_volume_that_goes_has_those_looked_at_who_wait_for_its_disk(held: bool, berth: bool, names: set[str]) -> None:
    assert asyncio.run(looked_at(held, berth)) == names


async def woken(kind: str, item: dict[str, Any]) -> list[set[str]]:
    """Which apps are looked at when an object of that kind comes, and when it goes."""
    async with three_apps() as (caches, apps):
        informer, found = getattr(caches, kind), []
        for change in (lambda: informer._put(key_of(item), item), lambda: informer._forget(key_of(item))):
            change()
            await asyncio.sleep(2 * DEBOUNCE)
            found.append(await due(apps))
        assert apps._visits.rooms == sum("waits" in names for names in found)
        return found


async def downtime_of(*ready: str) -> str:
    """What is told of db-0 whose pod is so at one moment after the other, a second apart; "gone": it is not there."""
    async with three_apps() as (caches, apps):
        now = [0.0]
        clocks = apps._visits.downtimes = Downtimes(lambda: now[0])
        key = AppKey("default", "has")
        clocks.begin(key, 0, True)
        for number, one in enumerate(ready):
            now[0] = float(number)
            told = {"conditions": [{"type": "Ready", "status": one}]}
            meta = {"name": "has-0", "namespace": "default", "uid": "u", "resourceVersion": str(number)}
            for name in ("has-0", "has-1", "has-0-pull-0123456789"):
                pod = slim_app_pod({"metadata": {**meta, "name": name}, "status": told})
                if one == "gone":
                    caches.app_pods._forget(key_of(pod))
                else:
                    caches.app_pods._put(key_of(pod), pod)
        return clocks._known[key].words()


def test_seconds_not_ready_are_counted_by_the_watch_of_pods_for_those_that_an_update_has_touched() -> None:
    assert asyncio.run(downtime_of("True", "False", "gone", "False", "True", "True")) == "0: 3 s"


PLAYED = {**RECORD, "metadata": {**RECORD["metadata"], "name": "played-0"}, "spec": {**RECORD["spec"], "app": "played"}}
THING = {"metadata": {"name": "n1-gpu0", "resourceVersion": "1"}, "spec": {}}


@pytest.mark.parametrize(
    ("kind", "item", "names"),
    [
        ("nodes", THING, [{"waits"}, {"waits"}]),
        ("devices", THING, [{"waits"}, {"waits"}]),
        ("classes", THING, [{"waits"}, {"waits"}]),
        ("berths", RECORD, [{"has"}, {"waits", "has"}]),
        ("berths", PLAYED, [set(), {"waits"}]),
    ],
)
def test_what_an_app_may_be_placed_on_has_those_looked_at_that_found_no_place(
    kind: str, item: dict[str, Any], names: list[set[str]]
) -> None:
    assert asyncio.run(woken(kind, item)) == names


def silent_node(name: str, **annotations: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": SINCE}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {}, "status": {"conditions": [ready]}}


SINCE = "2026-01-01T00:00:00Z"
MARK = f'{{"by": "eve@admin", "cordoned": true, "since": "{SINCE}", "state": "begun"}}'


def waits_for(node: dict[str, Any], **options: Any) -> Losing:
    """What is told of db-0 on that node, by what the watches have: nobody is asked."""
    record = {"metadata": {"name": "db-0", "uid": "u"}, "spec": {"ordinal": 0, "nodeName": "n1"}}
    there = Observed(APP.name, APP.namespace, berths={0: record}, stateful_set={"spec": {"replicas": 3}})
    nodes = {"n1": slim_node(node)}
    return asyncio.run(losing.look(None, options, APP, there, nodes.get))  # type: ignore[arg-type]


def test_who_waits_for_a_lost_node_is_told_by_what_the_watch_keeps_of_nodes() -> None:
    lost = waits_for(silent_node("n1"))
    (told,) = lost.waits
    assert told.startswith(
        f"replica default/db-0 waits for node n1 since {SINCE}: Ready is Unknown (NodeStatusUnknown)"
    )
    assert not lost.losses
    held = waits_for(silent_node("n1", **{ANNOTATION: MARK}))
    assert (held.waits, held.away) == ((), [f"pod db-0 waits for its node (maintenance of Node n1 since {SINCE})"])
    strange = waits_for(silent_node("n1", **{ANNOTATION: "{}"}))
    assert len(strange.waits) == 1, "a mark that cannot be read is none"


class Refusing:
    """Refuses to apply any StatefulSet but of the version that is there; what is there is what somebody else wrote."""

    def __init__(self, there: dict[str, Any] | None) -> None:
        self.there, self.applied = there, 0

    async def apply(self, _resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        meta = (self.there or {"metadata": {"resourceVersion": None}})["metadata"]
        if body["metadata"].get("resourceVersion") != meta["resourceVersion"]:
            raise ConflictError("somebody was faster", 409, "Conflict")
        self.applied += 1
        return {**body, "spec": {**body["spec"], "template": {"as": "answered"}}}

    async def find(self, *_what: Any) -> dict[str, Any] | None:
        return self.there


def stored(version: str, image: str) -> dict[str, Any]:
    body = copied(manifests.stateful_set(APP))
    body["metadata"]["resourceVersion"] = version
    body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body


@pytest.mark.parametrize(
    ("there", "written"),
    [
        (stored("1", "db:1"), True),
        (stored("2", "db:1"), True),
        (stored("2", "db:9"), False),
        (None, False),
    ],
    ids=["as it was seen", "another status", "another template", "gone"],
)
def test_a_set_that_somebody_has_changed_since_it_was_seen_is_looked_at_again(there: Any, written: bool) -> None:
    """Or a change would go untold."""
    api: Any = Refusing(there)
    run: Any = SimpleNamespace(api=api, app=APP, seen=replace(seen(), stateful_set=stored("1", "db:1")))
    work = Builder(run)._apply_stateful_set(manifests.stateful_set(APP))
    if not written:
        with pytest.raises(Later, match="StatefulSet db has changed"):
            asyncio.run(work)
    else:
        asyncio.run(work)
        assert run.seen.stateful_set["spec"]["template"] == {"as": "answered"}, "what the pods are brought to"
    assert api.applied == written
