# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plugin is. Read this first.

A plugin decides; it never acts. It reads the snapshot through the cycle and answers in columns: **a filter is a
column of verdicts, a score is a column of integers**, one entry per asked row. Extension points are separate
protocols; a plugin has those it needs, and the profile finds them once, when it is built:

    PreEnqueue  when a pod comes into the queue: may it be placed at all
    QueueSort   which of the waiting pods is next
    PreFilter   once per request: reject it, skip the plugin's filter, or narrow the nodes
    Filter      per row: may the pod go there, and if not, why
    PostFilter  when no row is left: whose room could be had
    PreScore    once per request, with the rows that passed: skip the plugin's score
    Score       per row: how good is it (0 to 100 after Normalize)
    Normalize   all scores of the rows that passed, brought to 0 to 100
    Reserve     for the chosen row: which disks, which devices
    Permit      the choice is made and counts: may it be carried out now, later, or not at all
    Explain     when somebody asks why: verdicts on disks and devices
    Fixes       when nothing fits: what would make a node fit
    Requeues    when a pod waits that the plugin has refused: which changes may help it

What is done after that (PreBind, Bind, PostBind, and undoing it) acts on the cluster: framework/binding.py.

A plugin is hashable, and equal to another one with the same arguments: kept columns are found under it.
Reserve is a pure decision as well. Its counterpart is `Snapshot.forget`, which takes the whole choice back; no plugin
has anything of its own to undo.

The framework keeps columns from one request to the next, under the plugin's key for the request: `Dirt` says when
they are stale.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Callable, Protocol, runtime_checkable

from ..model.placement import PlacementRequest
from ..model.preemption import Candidate, VictimFacts

if TYPE_CHECKING:
    from ..cluster.columns import BoolColumn, IntColumn
    from ..model.pod import PodInfo
    from .dry_run import DryRun
    from .events import Wish
    from .state import Cycle

MAX_SCORE = 100


class Code(IntEnum):
    """A plugin's answer, and what follows from it."""

    SUCCESS = 0
    """The node stays, or the step is done."""
    UNSCHEDULABLE = 1
    """The node is out; it may come in again if something on it goes away."""
    UNRESOLVABLE = 2
    """The node is out, and nothing that leaves it would change that."""
    SKIP = 3
    """The plugin has nothing to do with this request: it is not asked at the next point."""
    WAIT = 4
    """At Permit alone: the choice stands, and is not carried out before the plugin allows it."""


@dataclass(frozen=True)
class Status:
    """An answer with its reasons. Reasons are whole phrases that can be counted over nodes, as kube-scheduler's."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether the answer lets the request go on."""
        return self.code is Code.SUCCESS or self.code is Code.SKIP


SUCCESS = Status()
SKIPPED = Status(Code.SKIP)


def unresolvable(*reasons: str) -> Status:
    """Return the refusal that nothing on the node can lift."""
    return Status(Code.UNRESOLVABLE, reasons)


def unschedulable(*reasons: str) -> Status:
    """Return the refusal that may be lifted when something leaves the node."""
    return Status(Code.UNSCHEDULABLE, reasons)


class Dirt(Enum):
    """When a kept column is stale."""

    ROW = "row"
    """A row's entry, when that row changed: its node, or what is on it; nothing else matters to it."""
    NODE = "node"
    """A row's entry, when the node object itself changed: replicas on it do not matter."""
    TOPOLOGY = "topology"
    """All of it, when a replica came or went or a node's labels or taints changed, anywhere."""
    ALL = "all"
    """All of it, always: it is never kept."""


class Source(Enum):
    """What a plugin looks at beside the rows and the request: framework/again.py."""

    TERMS = "terms"
    """Which terms about other pods there are on the nodes, whoever has them; labels of namespaces."""
    WORKLOADS = "workloads"
    """The selectors of services and controllers."""
    PODS = "pods"
    """Replicas on other nodes, by what the plugin `Follows`."""
    MORE = "more"
    """What has no generation of its own: the pod's own name, storage, replicas that nothing follows."""


ROWS_ALONE: frozenset[Source] = frozenset()
TERMS_TOO = frozenset({Source.TERMS})
WORKLOADS_TOO = frozenset({Source.WORKLOADS})
PODS_TOO = frozenset({Source.PODS})
PODS_AND_TERMS = PODS_TOO | TERMS_TOO
PODS_AND_WORKLOADS = PODS_TOO | WORKLOADS_TOO
MUCH_MORE = frozenset({Source.MORE})
"""The answers of `Reads`, made once."""


@dataclass(frozen=True)
class Verdict:
    """A filter's column: per asked row an index into `table`, whose entry 0 is SUCCESS."""

    codes: IntColumn
    table: tuple[Status, ...]


@dataclass(frozen=True)
class Narrowing:
    """What PreFilter found. `nodes` None: all stay in; else only these, and `elsewhere` is said of the others."""

    status: Status = SUCCESS
    nodes: frozenset[str] | None = None
    elsewhere: str = ""


ALL_NODES = Narrowing()
NOTHING_TO_FILTER = Narrowing(SKIPPED)
"""The two answers that nearly every pod gets, made once."""


@dataclass(frozen=True)
class Choice:
    """What Reserve chose on the node: part of a Placement, which says what its parts are."""

    disks: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    allocations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Nomination:
    """What PostFilter found. `node`: to be nominated, "" if there is none, None to leave the pod's as it is.

    `victims` have to go first, the most important one stands first. `message`: why there is no node. `candidates`: all
    nodes among which the choice was made, for who has others to ask about them.
    """

    node: str | None = None
    victims: tuple[VictimFacts, ...] = ()
    message: str = ""
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class ObjectVerdict:
    """What was said of one disk or device for one claim.

    `reason` groups ("held"), `detail` is the particular ("by default/web-0").
    """

    kind: str
    name: str
    node: str
    claim: str
    fits: bool
    reason: str = ""
    detail: str = ""


@runtime_checkable
class Plugin(Protocol):
    """Everything in a profile has a name: kube-scheduler's where there is one."""

    @property
    def name(self) -> str:
        """Return the plugin's name."""


@runtime_checkable
class PreEnqueue(Protocol):
    """Keeps a pod out of the queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Let the pod in, or say what it waits for."""


@runtime_checkable
class QueueSort(Protocol):
    """Orders the queue."""

    def queue_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Return what pods are sorted by, the smallest first."""


@runtime_checkable
class PreFilter(Protocol):
    """Looks at the request once."""

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Reject, skip, or narrow."""


@runtime_checkable
class Filter(Protocol):
    """Judges rows."""

    @property
    def filter_dirt(self) -> Dirt:
        """Say when kept verdicts are stale."""

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return what of the request the verdicts depend on: equal keys, equal verdicts on an unchanged row."""

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Judge these rows."""


@runtime_checkable
class PostFilter(Protocol):
    """Finds a way where there is none: pods that would have to go."""

    def post_filter(self, run: DryRun, offset: int) -> Nomination:
        """Choose a node and its victims. `offset`: where among the nodes the search starts."""


@runtime_checkable
class PreScore(Protocol):
    """Looks at the request and the rows that passed."""

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Prepare, or skip."""


@runtime_checkable
class Score(Protocol):
    """Rates rows."""

    @property
    def score_dirt(self) -> Dirt:
        """Say when kept scores are stale."""

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return what of the request the scores depend on."""

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate these rows."""


@runtime_checkable
class Normalize(Protocol):
    """Brings raw scores to 0 .. MAX_SCORE."""

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Return the final scores of the rows that passed.

        Of a plugin whose scores are kept (`Dirt`): where all raw ones are equal, it is of no matter how many there are.
        """


@runtime_checkable
class Reserve(Protocol):
    """Chooses particular things on the chosen node."""

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Return the choice. The row has passed this plugin's filter."""


@runtime_checkable
class Reads(Protocol):
    """Says what it looks at, so that a pod like the one before need not be looked at as a whole.

    That is about all points from PreFilter to Reserve, keys too. Where it is no `MORE`, Filter and Score are asked
    about changed rows without PreFilter and PreScore before them, and Reserve is not asked again if it chose nothing.
    A plugin without this is asked anew for each pod.
    """

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return what decides beside the row and the request's `likeness`; so must this answer depend on no more."""


@runtime_checkable
class Followed(Protocol):
    """What a plugin says of pods of one `likeness`, as replicas come and go anywhere. Node objects stay as they are."""

    @property
    def alive(self) -> bool:
        """Tell whether it is still up to date; what is not is never asked again."""

    def passes(self) -> BoolColumn | None:
        """Return the rows that the filter lets pass, a column that nobody writes to; None for all."""

    def score(self, rows: IntColumn) -> IntColumn | None:
        """Return the final scores of the rows that passed all filters; None for 0 on each."""


@runtime_checkable
class Follows(Protocol):
    """Looks at replicas on other nodes (`Source.PODS`), and counts them as they come and go."""

    def follow(self, cycle: Cycle) -> Followed | None:
        """Return what is asked from now on in the place of Filter and Score; None where it is not about this pod."""


@runtime_checkable
class RowFilter(Protocol):
    """Judges single rows quicker than a column of one."""

    def row_filter(self, cycle: Cycle) -> Callable[[int], bool] | None:
        """Return what tells of a row whether `filter` lets it pass; None where `filter` itself has to be asked.

        It is asked for pods of this `likeness` from now on, for as long as what the plugin `Reads` stays the same.
        """


@runtime_checkable
class RowScore(Protocol):
    """Rates single rows quicker than a column of one."""

    def row_score(self, cycle: Cycle) -> Callable[[int], int] | None:
        """Return what gives of a row what `score` gives, as above."""


@runtime_checkable
class Explain(Protocol):
    """Says more than a verdict, when somebody asks."""

    def verdicts(self, cycle: Cycle) -> tuple[ObjectVerdict, ...]:
        """Judge every disk or device by itself, on all nodes."""


@runtime_checkable
class Fixes(Protocol):
    """Knows a way out."""

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return what would make this refused row fit, with {node} in the place of its name; "" for nothing."""


@dataclass(frozen=True)
class Waiting:
    """A pod that has its choice and waits for a Permit plugin to allow it."""

    pod: PodInfo
    node: str


@dataclass(frozen=True)
class Permission:
    """Permit's answer: SUCCESS, WAIT for at most `timeout` seconds, or a refusal. `allow`: uids that wait no longer."""

    status: Status = SUCCESS
    timeout: float = 0.0
    allow: frozenset[str] = frozenset()


GO_ON = Permission()
"""The answer that nearly every pod gets, made once."""


@runtime_checkable
class Permit(Protocol):
    """Lets a choice be carried out, holds it, or takes it back."""

    def permit(self, cycle: Cycle, waiting: Sequence[Waiting]) -> Permission:
        """Judge the cycle's pod, whose choice the snapshot counts already. `waiting`: others that wait."""

    def give_way(self, pod: PodInfo, waiting: Sequence[Waiting]) -> frozenset[str]:
        """Return the uids of waiting pods that must give their choice back, as this pod found no place."""


@runtime_checkable
class Requeues(Protocol):
    """Knows what may help a pod that it refused."""

    def requeue_on(self) -> Sequence[Wish]:
        """Return the changes to listen to, the same at every call."""


def shape_key(request: PlacementRequest) -> Hashable:
    """Return the key of a plugin that cannot say more precisely what it looks at."""
    return (request.pod.shape, request.disks, request.devices, request.owner)
