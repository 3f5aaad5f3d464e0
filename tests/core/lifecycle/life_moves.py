"""What can be asked of an app, and what can go wrong meanwhile: drawn for `life_world`, and for a real cluster.

``pick`` is Hypothesis's choice, or that of a seed. A move says which replica it is about; on which node that is, is
known when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Pick = Callable[[Sequence[Any]], Any]
Move = tuple[str, Any]

#: Of the request: each changes what the next run is asked for.
SCALE, SUSPEND, RESUME, TEMPLATE, RESTART, BACK = "scale", "suspend", "resume", "template", "restart", "rollback"
LEAVE, REPLACE, RESCHEDULE, REBUILD, RELEASE = "leave", "replace", "reschedule", "rebuild", "release"
HAND_OVER, TAKE_BACK = "hand over", "take back"
REQUESTS = (
    *(SCALE, SCALE, SUSPEND, RESUME, TEMPLATE, TEMPLATE, RESTART, BACK),
    *(LEAVE, LEAVE, REPLACE, REPLACE, RESCHEDULE, REBUILD, RELEASE),
)
#: Faults: a node is cut off, is switched off, comes back; a pod goes; a disk is exchanged for so many requests.
LOSE, OFF, HOME, POD_GOES, EXCHANGE = "lose", "switch off", "back", "pod goes", "exchange"
FAULTS = (LOSE, OFF, OFF, HOME, HOME, POD_GOES)
#: What is asked for in the middle of trouble, and because of a lost node.
TROUBLED, LOST = (LEAVE, REPLACE, TEMPLATE, RESCHEDULE), (REBUILD, RELEASE)
#: A run to its end or until it dies after so many writes, which waits for pods or not; several at once, request by
#: request; what is beside.
RUN, TOGETHER, BESIDE = "run", "together", "beside"
#: Against the first template: in place, by a new pod, both.
CHANGES: tuple[dict[str, Any], ...] = (
    {"image": 2},
    {"image": 3, "labels": {"a": "b"}},
    {"command": ["x"]},
    {"image": 2, "command": ["y"]},
)
TURNS = ("sets", "volumes", "agents", "kubelets", "all_turns", "all_turns")


@dataclass(frozen=True)
class Asked:
    """What the app is asked to be. ``once``: what a task says of single replicas; ``named``: (ordinal, node) whose data
    it gives up. ``first``: all other options of the task."""

    replicas: int = 3
    suspended: bool = False
    template: Mapping[str, Any] = field(default_factory=dict)
    restarted: int = 0
    rollback: bool = False
    strategy: str = "in_place_if_possible"
    once: Mapping[str, Any] = field(default_factory=dict)
    named: frozenset[tuple[int, str]] = frozenset()
    driver: str = "playbook"
    first: Callable[[Asked], dict[str, Any]] = lambda _asked: {}

    def options(self) -> dict[str, Any]:
        """Those of stateful_app, but the template."""
        return {
            "replicas": self.replicas,
            "suspended": self.suspended,
            "restarted_at": f"2026-01-01T00:00:{self.restarted:02}Z" if self.restarted else None,
            "rollback_to": "previous" if self.rollback else None,
            "update_strategy": self.strategy,
            "driver": self.driver,
            **self.once,
        }

    def params(self, waits: bool = True) -> dict[str, Any]:
        """``waits``: for the pods, when all is done."""
        return {**self.first(self), **self.options(), "wait": waits}

    def gives_up(self, ordinal: int, node: str, lost: bool) -> bool:
        """Whether that replica's data on that node may be given up; ``lost``: the node is, for certain."""
        policy = self.once.get("on_node_loss")
        asked = policy == "rebuild" or (policy == "release" and ordinal in self.once["release_ordinals"])
        return (ordinal, node) in self.named or (lost and asked)


@dataclass(frozen=True)
class Life:
    """``claims``: disks of each replica. ``unavailable``: how many may be down at once. ``quorum``: as the option."""

    claims: int
    unavailable: int
    quorum: int | None
    moves: tuple[Move, ...]


def life(pick: Pick, lengths: Sequence[int], also: Sequence[str] = ()) -> Life:
    """``also``: kinds of moves that not every cluster can make: TOGETHER, BESIDE, EXCHANGE, HAND_OVER, TAKE_BACK."""
    head = (pick((1, 2)), *pick(((1, None), (1, None), (2, None), (1, 2))))
    moves: list[Move] = []
    least = head[1] + (head[2] or 0)
    for _number in range(pick(lengths)):
        moves += _several(pick, also, least)
    return Life(*head, tuple(moves))


def _several(pick: Pick, also: Sequence[str], least: int) -> list[Move]:
    """A request or a fault, and what is done about it. ``least``: replicas that the rules of the app need."""
    kinds = [*REQUESTS, *FAULTS, *(one for one in also if one not in (TOGETHER, BESIDE))]
    what, value = _move(pick, pick(kinds))
    found = [(what, max(value, least) if what == SCALE else value)]
    if what in (LOSE, OFF, POD_GOES):  # and somebody asks for something at once, often because of it
        then = pick(((), TROUBLED, LOST))
        found += [_about(pick, one, value) for one in ([pick(then), RUN] if then else ())]
    found += [_acting(pick, also) for _number in range(pick((0, 1, 2)))]
    return found


def _about(pick: Pick, what: str, value: Any) -> Move:
    """``value``: of what went wrong; a replica is given up whose node that was."""
    ordinal = value[0] if isinstance(value, tuple) else value
    return (what, (ordinal, True)) if what == RELEASE else _move(pick, what)


def _acting(pick: Pick, also: Sequence[str]) -> Move:
    return _move(pick, pick([RUN, RUN, *(one for one in also if one in (TOGETHER, BESIDE))]))


def _move(pick: Pick, what: str) -> Move:
    if what == BESIDE:
        return what, pick(TURNS)
    if what == TOGETHER:
        return what, tuple((pick(("first", "second", "beside")), pick((1, 3, 8, 20))) for _turn in range(pick((4, 8))))
    if what == RUN:
        return what, (pick((0, 0, 1, 2, 3, 4, 5, 6, 8, 11)), pick((True, False)))
    if what == SCALE:
        return what, pick((1, 2, 3, 3, 4))
    if what == TEMPLATE:
        return what, pick(CHANGES)
    if what in (LEAVE, REPLACE, RESCHEDULE):
        return what, (pick(range(3)), pick((True, True, False)))
    if what in (OFF, RELEASE):
        return what, (pick(range(3)), pick((True, False)))
    if what == EXCHANGE:
        return what, (pick(range(3)), pick((5, 20, 40, 200)))
    if what in (SUSPEND, RESUME, RESTART, BACK, REBUILD, HAND_OVER, TAKE_BACK, HOME):
        return what, None
    return what, pick(range(3))


def asked_after(asked: Asked, move: Move, places: Mapping[int, str], off: frozenset[str]) -> Asked:
    """The request after a move of REQUESTS. ``places``: the nodes of the Berths. ``off``: nodes that are switched off,
    which a person knows of."""
    what, value = move
    if what == HOME:  # a word that was given of a node is good for as long as that is so
        return replace(asked, once={}) if "confirm_fenced" in asked.once else asked
    plain = replace(asked, once={}, named=frozenset(), strategy="in_place_if_possible")
    if what == SCALE:
        return replace(plain, replicas=value, rollback=False)
    if what in (SUSPEND, RESUME):
        return replace(asked, suspended=what == SUSPEND)
    if what == TEMPLATE:
        return replace(plain, template=value, rollback=False)
    if what == RESTART:
        return replace(asked, restarted=asked.restarted + 1)
    if what == BACK:
        return replace(asked, rollback=bool(asked.template or asked.restarted))
    if what in (HAND_OVER, TAKE_BACK):
        return replace(plain, driver="controller" if what == HAND_OVER else "playbook")
    if what in (REBUILD, RELEASE):
        return _lost(plain, what, value, places, off)
    ordinal, named = value
    if ordinal not in places or ordinal >= asked.replicas:
        return asked
    return _moved(plain, what, ordinal, places, named)


def _moved(plain: Asked, what: str, ordinal: int, places: Mapping[int, str], named: bool) -> Asked:
    """Replicas that leave nodes that are well; ``named``: their data is given up by name."""
    node = places[ordinal]
    if what == REPLACE:
        once = {"replace": [f"db-{ordinal}@{node}"]}
        data = [(ordinal, node)]
    elif what == LEAVE:
        once, data = {"leave_nodes": [node]}, [(o, n) for o, n in places.items() if n == node and o < plain.replicas]
    else:
        once, data = {}, [(o, n) for o, n in places.items() if o < plain.replicas]
        changed = {**plain.template, "command": [f"z{len(str(plain.template))}"]}
        plain = replace(plain, strategy="reschedule", template=changed, rollback=False)
    if named and data:
        once = {**once, "leave_data": [f"db-{o}@{n}" for o, n in data]}
    return replace(plain, once=once, named=frozenset(data if named else ()))


def _lost(plain: Asked, what: str, value: Any, places: Mapping[int, str], off: frozenset[str]) -> Asked:
    """Replicas of lost nodes. A person's word is given for nodes alone that are switched off."""
    fenced = {"confirm_fenced": sorted(off)} if off and plain.driver == "playbook" else {}
    if what == REBUILD or plain.driver == "controller":
        return replace(plain, once={"on_node_loss": "rebuild", **fenced})
    ordinal, _word = value
    if ordinal >= plain.replicas:
        return plain
    return replace(plain, once={"on_node_loss": "release", "release_ordinals": [ordinal], **fenced})
