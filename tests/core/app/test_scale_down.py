"""Fewer replicas, and a quorum of which those that stay are a part."""

from __future__ import annotations

import pytest

from berth_core.app.observed import Observed
from berth_core.app.scale_down import check, held_back, hindrance
from berth_core.app.wanted import parse_app
from berth_core.errors import StateError
from tests.core.app.samples import changed


def app(replicas=3, **values):
    return parse_app(changed(replicas=replicas, **{"quorum": 2, **values}))


def seen(*up, going=()):
    """Five replicas; ``up``: of which the pods are Ready; ``going``: and are being deleted."""
    berths, pods = {}, {}
    for ordinal in range(5):
        meta = {"name": f"db-{ordinal}", "namespace": "default", "uid": f"u-{ordinal}"}
        berths[ordinal] = {"metadata": meta, "spec": {"app": "db", "ordinal": ordinal, "nodeName": "n"}}
        told = [{"type": "Ready", "status": str(ordinal in up)}]
        deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ordinal in going else {}
        pods[f"db-{ordinal}"] = {"metadata": {**meta, **deleted}, "spec": {}, "status": {"conditions": told}}
    return Observed("db", "default", berths=berths, pods=pods, stateful_set={"spec": {"replicas": 5}})


@pytest.mark.parametrize(
    ("wanted", "observed"),
    [
        (app(), seen(0, 1, 2, 3, 4)),
        (app(), seen(0, 2, 4)),
        (app(), seen(0)),  # those that go are down already
        (app(), seen(0, 3, 4, going=(3, 4))),  # they go whatever is said now
        (app(replicas=5), seen(4)),
        (app(quorum=None), seen(3, 4)),
        (app(suspended=True), seen(0, 3, 4)),
    ],
    ids=["all", "enough", "down", "going", "same number", "no quorum", "suspended"],
)
def test_what_breaks_no_quorum_is_done(wanted, observed):
    check(wanted, observed)
    assert held_back(wanted, observed) == (wanted, "")


def test_the_votes_that_count_are_kept_until_others_are_ready():
    text = hindrance(app(), seen(0, 3, 4))
    assert text == (
        "default/db: with replicas: 3 the Ready db-3, db-4 would go, and 1 would be left Ready (db-0), and quorum "
        "is 2. Keep replicas: 5 until 1 more of those that stay (db-1, db-2) are Ready; or give a smaller quorum, or "
        "none, where so few may be left"
    )
    with pytest.raises(StateError, match=r"where so few may be left\. Nothing was changed"):
        check(app(), seen(0, 3, 4))
    kept, why = held_back(app(), seen(0, 3, 4))
    assert (kept.replicas, why) == (5, text)
    check(app(quorum=1), seen(0, 3, 4))
    assert "(none)" in hindrance(app(), seen(3, going=(0,)))
