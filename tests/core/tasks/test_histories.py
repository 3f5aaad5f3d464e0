"""Whole histories of one task against a simple model of the API server.

What happens is drawn: the kubelet ends a pod, somebody deletes one, changes the template, kills the task, the API
server takes no pod of it any more; the backend is told late, twice, out of order or not at all; it does a step, or dies
and begins anew with what it kept. The task is a Task, or an element of a batch. Whatever comes, each end is recorded
once, from a pod that did end so, before that pod is deleted; and at last nothing is left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.errors import ConflictError, InvalidError
from berth_core.tasks import next_step as steps
from berth_core.tasks import states
from berth_core.tasks.account import Account
from berth_core.tasks.pods import Details, PodState, element_name, pod_name
from berth_core.tasks.snapshot import PodEvent, PodsSnapshot, differences
from berth_core.tasks.task import Element, Status, Task
from tests.core.tasks.samples import TEMPLATE, pod, task

RETRIES = 2
OTHER = {"spec": {"containers": [{"name": "main", "image": "y", "resources": {"requests": {"cpu": "200m"}}}]}}


class Server:
    """The Task, its pods by name, and every event that was told of them."""

    def __init__(self, element: bool = False) -> None:
        self.version = 1
        self.task = task(retries=RETRIES)
        if element:
            part, name = Element("many", "uid-many", 3), element_name("many", 3)
            self.task = replace(self.task, key=("ns", name), uid="uid-many.3", element=part)
        #: It takes no pod that is not there yet.
        self.refuses = False
        self.pods: dict[str, PodState] = {}
        self.events: list[PodEvent] = []
        self.ends: dict[int, PodState] = {}
        self.finals = 0
        self.made = 0

    def put(self, one: PodState) -> PodState:
        self.version += 1
        self.pods[one.name] = replace(one, version=self.version)
        self.events.append(PodEvent(self.pods[one.name]))
        return self.pods[one.name]

    def create(self, of: Task, number: int) -> PodState:
        """A pod of that name is there already: that one (the client reads it after a 409)."""
        found = self.pods.get(pod_name(of, number))
        if found is not None:
            return found
        if self.refuses:
            raise InvalidError("such a pod cannot be")
        self.made += 1
        return self.put(pod(of, number, uid=f"pod-{self.made}"))

    def delete(self, seen: PodState) -> None:
        """By the uid."""
        found = self.pods.get(seen.name)
        if found is None or found.uid != seen.uid:
            return
        assert self.may_go(found), f"{found} is deleted, and its end is not recorded"
        self.vanish(found)

    def may_go(self, found: PodState) -> bool:
        recorded = found.number <= self.task.status.tries or self.task.status.final
        return (
            recorded
            or found.content != self.task.content
            or any(other.number > found.number for other in self.pods.values())
        )

    def vanish(self, found: PodState) -> None:
        self.version += 1
        del self.pods[found.name]
        self.events.append(PodEvent(replace(found, version=self.version), there=False))

    def write(self, seen: Task, status: Status, of: PodState | None) -> None:
        """Compare-and-swap."""
        if seen.version != self.task.version:
            raise ConflictError("another one has written")
        assert not self.task.status.final, "nothing is written behind the end"
        assert status.tries >= self.task.status.tries
        if of is not None:
            assert of.over
            assert self.ends.setdefault(of.number, of) is of, "a try ends once"
        self.finals += status.final
        self.change(status=status)

    def change(self, **fields: Any) -> None:
        self.version += 1
        self.task = replace(self.task, version=self.version, **fields)


class Backend:
    """Snapshot, account and view of the Task of one process."""

    def __init__(self, server: Server, kept: PodsSnapshot | None = None) -> None:
        self.server, self.account = server, Account()
        self.snapshot, self.at = PodsSnapshot(), 0
        self.answers: list[PodState] = []
        self.task = server.task  # filled after it leads
        self._put(kept if kept is not None else PodsSnapshot().replaced(server.pods.values(), server.version))
        #: Where its watch goes on: behind what it has kept.
        self.at = next(
            (at for at, one in enumerate(server.events) if one.pod.version > self.snapshot.version), len(server.events)
        )

    def _put(self, snapshot: PodsSnapshot) -> None:
        self.account.follow(differences(self.snapshot, snapshot), str)
        self.snapshot = snapshot

    def hear(self, events: list[PodEvent], version: int = 0) -> None:
        self._put(self.snapshot.applied(events, version))

    def follow(self, count: int) -> None:
        """So many further events of the watch, in order."""
        told = self.server.events[self.at : self.at + count]
        self.at += len(told)
        self.hear(told, told[-1].pod.version if told else 0)

    def poll(self) -> None:
        self._put(self.snapshot.replaced(self.server.pods.values(), self.server.version))

    def answer(self) -> None:
        """The answer to a create comes after the watch has told, or before."""
        if self.answers:
            made = self.answers.pop(0)
            self.hear([PodEvent(made)])
            if not self.snapshot.knows(made):
                self.account.give_back(made.charge)

    def step(self) -> None:
        step = steps.next_step(self.task, self.snapshot.all())
        if isinstance(step, steps.Start):
            if (self.task.uid, step.number) not in self.account:  # else its pod is made, and the watch has yet to tell
                self._start(step)
        elif isinstance(step, steps.Record):
            self._write(step.status, step.pod)
        elif isinstance(step, steps.Delete):
            for one in step.pods:
                self.server.delete(one)

    def _start(self, step: steps.Start) -> None:
        self.account.charge((self.task.uid, step.number), "", self.task.requests)
        try:
            self.answers.append(self.server.create(self.task, step.number))
        except InvalidError as exc:
            self.account.give_back((self.task.uid, step.number))
            self._write(steps.refused(self.task, step.number, exc.message), None)

    def _write(self, status: Status, of: PodState | None) -> None:
        try:
            self.server.write(self.task, status, of)
        except ConflictError:
            return
        self.task = self.server.task


ACTIONS = st.one_of(
    st.tuples(st.just("step"), st.just(0)),
    st.tuples(st.sampled_from(["step", "answer"]), st.just(0)),
    st.tuples(st.just("follow"), st.integers(1, 3)),
    st.tuples(st.just("again"), st.integers(0, 30)),
    st.tuples(st.just("end"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["by-hand", "evict", "see", "poll", "change", "kill", "refuse"]), st.just(0)),
    st.tuples(st.just("die"), st.integers(0, 1)),
)


def outside(server: Server, action: str, value: int) -> None:
    """What others do."""
    running = [one for one in server.pods.values() if not one.over]
    if action == "end" and running:
        server.put(replace(running[0], phase="Succeeded" if value == 0 else "Failed", details=Details(value)))
    elif action == "evict" and running:
        server.put(replace(running[0], phase="Failed", details=Details(reason="Evicted", disrupted=True)))
    elif action == "by-hand" and server.pods:
        server.vanish(next(iter(server.pods.values())))
    elif action == "change":
        server.change(template=OTHER, content=task(template=OTHER).content)
    elif action == "refuse":
        server.refuses = True
    elif action == "kill":
        server.change(asked=server.task.asked._replace(kill=True))


ROWS = {(row.source, row.target) for row in states.TABLE}


def act(server: Server, backend: Backend, kept: PodsSnapshot, action: str, value: int) -> Backend:
    """What the backend does by itself brings the task along one row of the table, or nowhere."""
    before = steps.live_state(backend.task, backend.snapshot.all())
    after = _act(server, backend, kept, action, value)
    if action in ("step", "answer"):
        now = steps.live_state(after.task, after.snapshot.all())
        assert before == now or (before, now) in ROWS, f"{action}: {before} became {now}"
    return after


def _act(server: Server, backend: Backend, kept: PodsSnapshot, action: str, value: int) -> Backend:
    if action == "die":
        return Backend(server, kept if value else None)
    if action == "see":
        backend.task = server.task
    elif action == "follow":
        backend.follow(value)
    elif action == "again" and backend.at:  # an old one, once more
        backend.hear([server.events[value % backend.at]])
    elif action in ("step", "answer", "poll"):
        getattr(backend, action)()
    else:
        outside(server, action, value)
    return backend


@settings(max_examples=300, deadline=None)
@given(st.lists(ACTIONS, max_size=60), st.booleans())
def test_each_end_is_recorded_once_and_nothing_is_left(history: list[tuple[str, int]], element: bool) -> None:
    server = Server(element)
    backend = Backend(server)
    kept = backend.snapshot
    for number, (action, value) in enumerate(history):
        backend = act(server, backend, kept, action, value)
        if number % 5 == 0:
            kept = backend.snapshot
    for _round in range(4 * RETRIES + 20):  # everything is told, and what still runs succeeds
        backend.task = server.task
        backend.follow(len(server.events))
        backend.step()
        backend.answer()
        for one in list(server.pods.values()):
            if not one.over:
                server.put(replace(one, phase="Succeeded", details=Details(0)))
    backend.follow(len(server.events))
    assert server.task.status.final
    assert server.finals == 1
    assert (server.pods, dict(backend.snapshot.pods), backend.account.total()) == ({}, {}, {})
    check_ends(server)


def check_ends(server: Server) -> None:
    """The status says what the recorded tries say."""
    status, ends = server.task.status, server.ends
    failures = [one for one in ends.values() if one.phase == "Failed" and not one.details.disrupted]
    assert status.failures == len(failures) <= RETRIES + 1
    last = ends.get(status.tries)
    if status.state == states.SUCCEEDED:
        assert last is not None
        assert last.phase == "Succeeded"
    elif status.state == states.FAILED and status.reason == "TemplateRejected":
        assert (server.refuses, last) == (True, None)
        assert status.tries > max(ends, default=0)
    elif status.state == states.FAILED:
        assert last in failures
        assert len(failures) == RETRIES + 1
    assert [number for number, one in ends.items() if one.phase == "Succeeded"] in ([], [status.tries])


def test_the_model_tells_a_pod_that_goes_too_early() -> None:
    """What the property relies on."""
    server = Server()
    backend = Backend(server)
    backend.step()
    backend.answer()
    assert len(server.pods) == 1
    one = next(iter(server.pods.values()))
    assert one.requests == task(template=TEMPLATE).requests
    assert not server.may_go(one)
    server.put(replace(one, phase="Succeeded", details=Details(0)))
    backend.follow(2)
    backend.step()
    assert server.may_go(one)
