"""What the backend keeps in mind, without a cluster: what was told, whom it kills, which pods no quota counts yet."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from berth_core.errors import StateError
from berth_core.tasks.bounds import demand_of
from berth_core.tasks.policies import Policies
from berth_core.tasks.task import Status, Task
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.exchange import Endpoint
from berth_tasks.backend import KubernetesTaskSchedulerBackend
from berth_tasks.kubernetes_client import KubernetesClient
from berth_tasks.nodes import Nodes
from berth_tasks.quotas import GRACE, Quotas
from berth_tasks.task_registry import TaskRegistry, Update
from berth_tasks.usage import Usage
from tests.core.tasks.samples import task


def backend(client: KubeClient) -> KubernetesTaskSchedulerBackend:
    """One that is never asked to start anything."""
    nodes, quotas = Nodes(client, lambda: None), Quotas(client, lambda: None)
    usage = Usage(client, 0.1, 60, 15)
    return KubernetesTaskSchedulerBackend(KubernetesClient(client, 0), nodes, dict, quotas, Policies(), usage, {})


def run(check: Any) -> None:
    async def main() -> None:
        nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
        async with KubeClient(nobody) as client:
            check(backend(client))

    asyncio.run(main())


def test_a_pod_is_subtracted_from_a_quota_until_its_status_counts_it() -> None:
    """From when it is given until the watch has come to its version, or a moment after it was made."""
    now = [100.0]

    async def main() -> None:
        nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
        async with KubeClient(nobody) as client:
            quotas = Quotas(client, lambda: None, clock=lambda: now[0])
            asked, made, none = (("uid", number) for number in (1, 2, 3))
            for charge in (asked, made, none):
                quotas.ask(charge, "ns", demand_of(task()))
            quotas.made(made, 7)
            quotas.made(("another", 1), 7)
            quotas.drop(none)
            assert ([where for where, _demand in quotas.now()[1]], quotas.unsettled) == (["ns", "ns"], True)
            now[0] += GRACE
            assert (len(quotas.now()[1]), quotas.unsettled) == (1, False), "what is not made yet stays"

    asyncio.run(main())


def after(tries: int) -> Task:
    return replace(task(), status=Status(tries=tries))


def test_each_state_is_told_once() -> None:
    """To whom, and at whose pace: test_told.py."""

    def check(one: KubernetesTaskSchedulerBackend) -> None:
        told = [("Submitted", 0), ("Running", 0), ("Submitted", 1), ("Running", 1), ("Succeeded", 2)]
        for state, tries in told:
            assert one.status_update(after(tries), state)
            assert not one.status_update(after(tries), state), "it was told before"
        assert not one.status_update(after(2), "Running"), "nothing follows a final state"
        assert not one.status_update(after(3), "Failed")
        one.forget("uid-job")
        assert one.status_update(after(0), "Submitted"), "the uid is known no more"

    run(check)


def test_who_takes_what_it_had_raised_on_waits_no_longer_for_its_next_failure() -> None:
    async def main() -> None:
        registry, heard, taken = TaskRegistry(), set[Update](), list[int]()

        async def raises(update: Update) -> None:
            if update not in heard:
                heard.add(update)
                raise StateError("not now")
            taken.append(update.tries)

        registry.subscribe("raises", raises)
        for tries in range(5):
            registry.status_update(after(tries), "Running")
        began = asyncio.get_running_loop().time()
        running = asyncio.ensure_future(registry.run())
        while len(taken) < 5:
            await asyncio.sleep(0.01)
        running.cancel()
        assert taken == [0, 1, 2, 3, 4]
        assert asyncio.get_running_loop().time() - began < 4, "0.2 s each; pauses that double would be 6.2 s"

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_task_is_killed_by_its_name_once_it_is_known_and_until_it_has_ended() -> None:
    def check(one: KubernetesTaskSchedulerBackend) -> None:
        woken: list[tuple[str, str]] = []
        there = {("ns", "job"): task()}
        one.tasks.wake, one.tasks.at = woken.append, there.get
        with pytest.raises(StateError, match="Task ns/job is not there: name one that was submitted"):
            one.kill_task("ns", "job")
        one.know(task())
        there["ns", "job"] = replace(task(), uid="uid-2")
        one.know(there["ns", "job"])  # made anew under its name, before the old one's end was told
        one.forget("uid-job")
        assert (one.kill_task("ns", "job"), one.tasks.kills("uid-2"), one.tasks.kills("uid-job")) == (True, True, False)
        assert woken == [("ns", "job")]
        one.status_update(replace(task(), uid="uid-2"), "Killed")
        assert not one.kill_task("ns", "job")
        one.forget("uid-2")
        with pytest.raises(StateError):
            one.kill_task("ns", "job")
        assert not one.tasks.kills("uid-2")

    run(check)
