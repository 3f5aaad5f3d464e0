"""Who leads: real processes on the real API server, stopped, killed and cut off; and the rules one by one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from berth_core.errors import StateError
from berth_core.model.resources import LEASE
from berth_kube.client import KubeClient
from berth_kube.lease import LeaderElection, Periods
from berth_kube.lease_record import Observed
from tests.daemons.kube.conftest import PATIENCE, until
from tests.support.tcp import Proxy

Run = Callable[..., Any]
Connect = Callable[..., KubeClient]
CANDIDATE = Path(__file__).with_name("candidate.py")
ROOT = Path(__file__).resolve().parents[3]


class Line(NamedTuple):
    at: float
    what: str


class Candidate:
    """A process of candidate.py, and what it noted."""

    def __init__(self, kubeconfig: str, namespace: str, name: str, log: Path) -> None:
        self.name, self.log = name, log
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT / "plugins" / "module_utils")))
        self.process = subprocess.Popen(
            [sys.executable, str(CANDIDATE), kubeconfig, namespace, name, str(log)],
            env={**os.environ, "PYTHONPATH": path},
        )

    def lines(self) -> list[Line]:
        if not self.log.exists():
            return []
        split = (line.split(" ", 1) for line in self.log.read_text().splitlines())
        return [Line(float(at), what) for at, what in split]

    def said(self, what: str) -> list[float]:
        return [line.at for line in self.lines() if line.what.startswith(what)]

    def send(self, number: int) -> None:
        self.process.send_signal(number)


@pytest.fixture
def start(control_plane: Any, namespace: str, tmp_path: Path) -> Iterator[Callable[..., Candidate]]:
    started: list[Candidate] = []

    def begin(name: str, kubeconfig: str | None = None) -> Candidate:
        path = kubeconfig or str(control_plane.kubeconfig)
        started.append(Candidate(path, namespace, name, tmp_path / f"{name}-{len(started)}.log"))
        return started[-1]

    yield begin
    for candidate in started:
        with contextlib.suppress(ProcessLookupError):
            candidate.process.send_signal(signal.SIGCONT)
            candidate.process.kill()
        candidate.process.wait()


def wait(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.05)


@pytest.mark.promise
def test_a_leader_that_sleeps_writes_nothing_when_it_wakes(start: Callable[..., Candidate]) -> None:
    """SIGSTOP for longer than the lease: another leads, and all that the first one then tries is refused."""
    first = start("first")
    wait(lambda: len(first.said("wrote")) > 5, "the first leads")
    second = start("second")
    first.send(signal.SIGSTOP)
    time.sleep(0.2)
    asleep = time.time()
    wait(lambda: len(second.said("wrote")) > 5, "the second leads")
    first.send(signal.SIGCONT)
    wait(lambda: first.said("ends StateError"), "the first has noticed")
    assert first.process.wait(PATIENCE) == 0
    took_over = second.said("leads")[0]
    # An answer that was on its way when it fell asleep is noted when it wakes: one, and no second.
    assert len([at for at in first.said("wrote") if at > asleep]) <= 1
    assert took_over - asleep > 0, "not before the lease was over"
    assert first.said("lost")


@pytest.mark.promise
def test_two_that_want_it_one_that_has_it(start: Callable[..., Candidate]) -> None:
    """They hand over by giving it back: no time is lost, and at no moment do both write."""
    candidates = [start("one"), start("two")]
    wait(lambda: any(len(each.said("wrote")) > 10 for each in candidates), "one leads")
    leader, waiting = sorted(candidates, key=lambda each: -len(each.said("leads")))
    assert not waiting.said("leads")
    leader.send(signal.SIGTERM)
    assert leader.process.wait(PATIENCE) == 0
    wait(lambda: len(waiting.said("wrote")) > 10, "the other leads")
    assert max(leader.said("wrote")) < min(waiting.said("leads"))
    ended, led = leader.said("ends")[0], waiting.said("leads")[0]
    assert led > ended - 0.5


@pytest.mark.promise
def test_a_leader_that_is_killed(start: Callable[..., Candidate]) -> None:
    """Its lease ends by itself, and not sooner."""
    first = start("first")
    wait(lambda: len(first.said("wrote")) > 5, "the first leads")
    first.send(signal.SIGKILL)
    first.process.wait()
    died = time.time()
    second = start("second")
    wait(lambda: second.said("leads"), "the second leads")
    assert second.said("leads")[0] - died > 4.5, "the last renewal was at most retry ago, the lease lasts 6 s"


@pytest.mark.promise
def test_one_that_comes_back_under_its_own_name(
    start: Callable[..., Candidate], run: Run, connect: Connect, namespace: str
) -> None:
    """The same identity takes its lease again at once, without waiting for its end: a renewal, and no transition."""

    async def spec() -> dict[str, Any]:
        async with connect() as client:
            found: dict[str, Any] = (await client.get(LEASE, "lead", namespace))["spec"]
            return found

    first = start("same")
    wait(lambda: len(first.said("wrote")) > 5, "the first leads")
    other = start("other")
    wait(lambda: other.said("begins"), "another one waits")
    first.send(signal.SIGKILL)
    first.process.wait()
    before = run(spec())
    again = start("same")
    wait(lambda: len(again.said("wrote")) > 5, "the same leads again")
    assert again.said("leads")[0] - again.said("begins")[0] < 3.0, "the lease lasts 6 s"
    after = run(spec())
    assert (after["holderIdentity"], after["leaseTransitions"], after["acquireTime"]) == (
        *("same", 0),
        before["acquireTime"],
    )
    assert after["renewTime"] > before["renewTime"]
    assert not other.said("leads")


@pytest.mark.promise
def test_a_leader_that_is_cut_off(
    start: Callable[..., Candidate], far: Connect, proxy: Proxy, admin: dict[str, Any], kubeconfig: Any
) -> None:
    """It stops by itself before anybody else may begin."""
    cluster = admin["clusters"][0]
    server = {**cluster["cluster"], "server": f"https://127.0.0.1:{proxy.port}"}
    path = kubeconfig({**admin, "clusters": [{**cluster, "cluster": server}]})
    first = start("first", path)
    wait(lambda: len(first.said("wrote")) > 5, "the first leads")
    second = start("second")
    wait(second.log.exists, "the second is up")
    time.sleep(2)
    proxy.hold()
    wait(lambda: first.said("ends StateError"), "the first has noticed")
    wait(lambda: second.said("leads"), "the second leads")
    assert first.said("lost")[0] < second.said("leads")[0]


def test_annotations_of_ours_and_of_others(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client, connect() as other:
            said = {"berth.dev/hash": "1"}
            election = LeaderElection(client, namespace, "a", "me", annotations=lambda: said)
            leading = asyncio.Event()

            async def work() -> None:
                leading.set()
                await asyncio.sleep(3600)

            running = asyncio.ensure_future(election.run(work))
            await leading.wait()
            election.check()
            await other.patch(LEASE, "a", namespace, {"metadata": {"annotations": {"theirs": "x"}}})
            said["berth.dev/hash"] = "2"
            writes = client.writes
            election.touch()
            await until(lambda: client.writes > writes)
            wanted = {"berth.dev/hash": "2", "theirs": "x"}
            for _index in range(600):
                seen = await other.get(LEASE, "a", namespace)
                if seen["metadata"]["annotations"] == wanted:
                    break
                await asyncio.sleep(0.1)
            assert seen["metadata"]["annotations"] == wanted
            assert seen["spec"]["holderIdentity"] == "me"
            assert seen["spec"]["leaseTransitions"] == 0
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            seen = await other.get(LEASE, "a", namespace)
            assert (seen["spec"]["holderIdentity"], seen["spec"]["leaseDurationSeconds"]) == ("", 1)
            with pytest.raises(StateError, match=f"Lease {namespace}/a: this process .me. does not hold it"):
                election.check()

    run(story())


def test_a_renewal_that_was_on_its_way_when_its_sender_died(run: Run, connect: Connect, namespace: str) -> None:
    """It comes between the look and the write of who follows under the same name: that one looks again, and leads."""

    async def story() -> None:
        async with connect() as client, connect() as wire:
            holder = {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 3}
            await wire.create(LEASE, {"metadata": {"name": "a", "namespace": namespace}, "spec": holder})
            find, looks = client.find, []

            async def look(*args: Any, **options: Any) -> Any:
                found = await find(*args, **options)
                looks.append(found)
                if len(looks) == 1:
                    late = {**found, "spec": {**found["spec"], "renewTime": "2026-01-01T00:00:00.000000Z"}}
                    await wire.replace(LEASE, late)
                return found

            client.find = look  # type: ignore[method-assign]
            election = LeaderElection(client, namespace, "a", "me", periods=Periods(6, 4, 0.5))
            spec: dict[str, Any] = {}

            async def work() -> None:
                election.check()
                spec.update((await wire.get(LEASE, "a", namespace))["spec"])

            began = time.monotonic()
            await election.run(work)
            assert time.monotonic() - began < 5, "the lease of the one that died lasts 15 s"
            assert len(looks) == 2
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("me", 3)

    run(story())


@pytest.mark.promise
def test_a_lease_that_somebody_takes_by_force(run: Run, connect: Connect, namespace: str) -> None:
    """Whoever sees another name in it stops, at its next renewal."""

    async def story() -> None:
        async with connect() as client, connect() as other:
            lost: list[str] = []
            election = LeaderElection(client, namespace, "a", "me", periods=Periods(6, 4, 0.5), on_lost=lost.append)
            ended = asyncio.Event()

            async def work() -> None:
                try:
                    await other.patch(LEASE, "a", namespace, {"spec": {"holderIdentity": "thief"}})
                    await asyncio.sleep(3600)
                finally:
                    ended.set()

            with pytest.raises(StateError, match="thief holds it"):
                await election.run(work)
            assert ended.is_set()
            assert lost == ["thief holds it"]
            seen = await other.get(LEASE, "a", namespace)
            assert seen["spec"]["holderIdentity"] == "thief", "what another holds is not given back"

    run(story())


@pytest.mark.promise
def test_work_that_ends_or_fails_gives_the_lease_back(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            for transitions, error in ((0, None), (1, ZeroDivisionError)):

                async def work(error: Any = error) -> None:
                    if error:
                        raise error

                with contextlib.suppress(ZeroDivisionError):
                    await LeaderElection(client, namespace, "a", f"me{transitions}").run(work)
                spec = (await client.get(LEASE, "a", namespace))["spec"]
                assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", transitions)

    run(story())


def test_periods_that_cannot_be_safe(run: Run, connect: Connect) -> None:
    async def story() -> None:
        async with connect() as client:
            for periods in (Periods(10, 10, 2), Periods(15, 2, 2), Periods(15, 10, 0)):
                with pytest.raises(ValueError, match="lease > renew > retry"):
                    LeaderElection(client, "x", "a", "me", periods=periods)

    run(story())


@pytest.mark.promise
def test_when_a_lease_is_over() -> None:
    """By the observer's own clock, since it saw the Lease change; what the holder's clock says plays no part."""
    lease = {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:00:00.000000Z"}}
    seen = Observed(None, 0.0).look(lease, 100.0)
    assert seen.look(dict(lease), 110.0).at == 100.0
    renewed = {"spec": {**lease["spec"], "renewTime": "1969-01-01T00:00:00.000000Z"}}
    assert seen.look(renewed, 110.0).at == 110.0
    assert [seen.free_for("b", now) for now in (100.0, 114.9, 115.0)] == [False, False, True]
    assert seen.free_for("a", 100.0)
    assert Observed({"spec": {"holderIdentity": ""}}, 100.0).free_for("b", 100.0)
