"""What is asked again after a change, and what is not: rows computed, counted exactly."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from berth_core.cluster.columns import ints
from berth_core.cluster.pod_terms import REQUIRED_ANTI
from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.contract import SUCCESS, Dirt, Verdict
from berth_core.framework.cycle import place
from berth_core.framework.profile import Profile
from berth_core.framework.shelf import Shelf
from berth_core.plugins.node_affinity import NodeAffinity
from berth_core.plugins.table import DEFAULT_PROFILE
from tests.core.cluster.objects import node, pod, request

SIZE = 40
PER_ROW = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeResourcesFit")
SELECTOR = {"labelSelector": {"matchLabels": {"app": "web"}}}
ZONE = {"topologyKey": "zone", **SELECTOR}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ZONE]}}


def made(index, **more):
    return node(f"n{index:02}", labels={"zone": f"z{index % 20}"}, **more)


@pytest.fixture
def snapshot():
    return Snapshot.from_objects(nodes=[made(index) for index in range(SIZE)])


def asked(app="web", ordinal=0, **spec):
    return request(pod(f"{app}-{ordinal}", labels={"app": app}, **spec), app=app, ordinal=ordinal)


def computed(snapshot, wanted):
    """Place without keeping the choice; return rows computed per plugin."""
    return place(DEFAULT_PROFILE, snapshot, wanted).counts.computed


def bind(snapshot, wanted):
    outcome = place(DEFAULT_PROFILE, snapshot, wanted)
    snapshot.assume(wanted, outcome.placement)
    return outcome


def test_pods_of_one_shape_share_everything(snapshot):
    first = computed(snapshot, asked(ordinal=0))
    assert all(first[name] >= SIZE for name in PER_ROW)
    again = computed(snapshot, asked(ordinal=1))
    assert {name: again[name] for name in PER_ROW} == dict.fromkeys(PER_ROW, 0)


def test_a_bind_dirties_one_row(snapshot):
    bind(snapshot, asked(ordinal=0))
    after = bind(snapshot, asked(ordinal=1)).counts.computed
    assert after == {"NodeResourcesFit": 2}, "one row, filtered and scored; what looks at the node alone is not asked"


def test_other_shapes_lose_that_row_alone(snapshot):
    big = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    computed(snapshot, asked("db", **big))
    for ordinal in range(3):
        bind(snapshot, asked(ordinal=ordinal))
    again = computed(snapshot, asked("db", 1, **big))
    assert again["NodeResourcesFit"] == 6, "three rows, filtered and scored"


def test_a_heartbeat_dirties_nothing_and_a_cordon_one_row(snapshot):
    computed(snapshot, asked())
    snapshot.upsert_node(made(3))
    assert computed(snapshot, asked()) == {}
    snapshot.upsert_node(made(3, unschedulable=True))
    assert computed(snapshot, asked())["NodeUnschedulable"] == 1


def test_what_depends_on_other_pods_is_counted_as_they_come_and_go(snapshot):
    snapshot.upsert_pod(pod("there", node_name="n00", labels={"app": "web"}))
    wanted = asked(affinity=ANTI)
    first = place(DEFAULT_PROFILE, snapshot, wanted)
    assert (first.counts.computed["InterPodAffinity"], len(first.feasible)) == (SIZE, SIZE - 2)
    assert computed(snapshot, wanted)["InterPodAffinity"] == 0
    snapshot.upsert_pod(pod("more", node_name="n01", labels={"app": "web"}))
    again = place(DEFAULT_PROFILE, snapshot, wanted)
    assert (again.counts.computed["InterPodAffinity"], len(again.feasible)) == (0, SIZE - 4)


def test_pods_that_say_nothing_of_others_do_not_ask_about_them(snapshot):
    snapshot.upsert_pod(pod("there", node_name="n00", labels={"app": "db"}, affinity=ANTI))
    counts = place(DEFAULT_PROFILE, snapshot, asked("other")).counts
    for name in ("InterPodAffinity", "PodTopologySpread", "VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"):
        assert (counts.filter[name], counts.score[name]) == (0, 0), name


def test_replicas_share_their_terms_and_a_column_follows_them(snapshot):
    for index in range(SIZE):
        snapshot.upsert_pod(pod(f"db-{index}", node_name=f"n{index:02}", labels={"app": "db"}, affinity=ANTI))
    (counted,) = snapshot.pod_terms.about(REQUIRED_ANTI, "default", {"app": "web"}, {})
    column = snapshot.pod_terms.column(counted).column
    assert int(column.sum()) == SIZE
    snapshot.remove_pod("default", "db-7")
    assert snapshot.pod_terms.column(counted).column is column
    assert (int(column.sum()), int(column[7])) == (SIZE - 1, 0)


def test_a_pulled_image_is_seen_everywhere(snapshot):
    wanted = asked(containers=[{"name": "c", "image": "web:1"}])
    computed(snapshot, wanted)
    assert computed(snapshot, wanted)["ImageLocality"] == 0
    pulled = made(5)
    pulled["status"]["images"] = [{"names": ["web:1"], "sizeBytes": 500 << 20}]
    snapshot.upsert_node(pulled)
    assert computed(snapshot, wanted)["ImageLocality"] == SIZE, "how many nodes have it counts for all"
    assert computed(snapshot, wanted)["ImageLocality"] == 0


def test_a_known_selector_looks_at_no_pod_again(snapshot, monkeypatch):
    snapshot.upsert_pod(pod("there", node_name="n00", labels={"app": "web"}))
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **SELECTOR}]
    bind(snapshot, asked(topologySpreadConstraints=spread))

    def never(_selector):
        return (pytest.fail("all pods were looked at again") for _each in "x")  # asked for is not yet looked at

    monkeypatch.setattr(snapshot._occupants, "meant_by", never)
    after = bind(snapshot, asked(ordinal=1, topologySpreadConstraints=spread))
    assert after.placement.node != "n00"


def test_shapes_that_ask_for_the_same_share_what_they_ask(snapshot):
    big = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    computed(snapshot, asked())
    other = computed(snapshot, asked("db", **big))
    assert other["TaintToleration"] == 0, "both tolerate the same"
    assert other["NodeResourcesFit"] == 2 * SIZE


class Failing:
    """A filter that fails when it is told to."""

    name = "Failing"
    filter_dirt = Dirt.ROW

    def __init__(self):
        self.fails, self.asked = False, 0

    def filter_key(self, cycle):
        return None

    def filter(self, cycle, rows):
        if self.fails:
            raise RuntimeError("on purpose")
        self.asked += len(rows)
        return Verdict(ints(len(rows)), (SUCCESS,))


def test_what_a_plugin_failed_to_say_is_asked_again(snapshot):
    plugin = Failing()
    profile = Profile.build("p", [(plugin, 0)])
    place(profile, snapshot, asked())
    snapshot.upsert_pod(pod("there", node_name="n00"))
    plugin.fails = True
    with pytest.raises(RuntimeError, match="on purpose"):
        place(profile, snapshot, asked())
    plugin.fails = False
    place(profile, snapshot, asked())
    assert plugin.asked == SIZE + 1


class Level:
    """Rates every node alike, and counts the rows that it is given to bring to 0 to 100."""

    name = "Level"
    score_dirt = Dirt.NODE

    def __init__(self):
        self.rows = []

    def score_key(self, cycle):
        return None

    def score(self, cycle, rows):
        return ints(len(rows), 7)

    def normalize(self, cycle, rows, scores):
        self.rows.append(len(rows))
        return scores * 2


def test_where_all_nodes_are_rated_alike_it_is_of_no_matter_which_pass(snapshot):
    plugin = Level()
    profile = Profile.build("p", [(NodeAffinity(), 0), (plugin, 1)])
    for zone in ("z1", "z2", None, "z3", "z4"):
        wanted = asked(**({"nodeSelector": {"zone": zone}} if zone else {}))
        outcome = place(profile, snapshot, wanted)
        assert outcome.totals.tolist() == [14] * (2 if zone else SIZE)
    assert plugin.rows == [1, 1, 1], "one row for all, and none once every row is known"


# -- the shelf


@dataclass
class Sized:
    nbytes: int


def test_what_was_used_longest_ago_goes_first():
    shelf = Shelf(limit=100)
    first, second = shelf.get("a", lambda: Sized(40)), shelf.get("b", lambda: Sized(40))
    assert shelf.get("a", lambda: Sized(0)) is first
    shelf.get("c", lambda: Sized(40))
    assert (len(shelf), shelf.nbytes) == (2, 80)
    assert shelf.get("a", lambda: Sized(0)) is first
    assert shelf.get("b", lambda: Sized(1)) is not second


def test_one_thing_larger_than_the_shelf_is_kept_alone():
    shelf = Shelf(limit=10)
    shelf.get("small", lambda: Sized(5))
    large = shelf.get("large", lambda: Sized(50))
    assert (len(shelf), shelf.nbytes) == (1, 50)
    assert shelf.get("large", lambda: Sized(0)) is large
