"""Which templates an application has had, and what a rollback goes back to, now and when it is run again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from berth_core.app import manifests
from berth_core.app.observed import Observed
from berth_core.app.pod_change import RESTARTED
from berth_core.app.pod_revision import HASH
from berth_core.app.revisions import (
    MOST,
    ROLLED_BACK,
    bare_rows,
    check_rollback,
    of_set,
    rolled_back,
    set_rows,
    status_rows,
)
from berth_core.app.wanted import REVISION_ANNOTATION, parse_app
from berth_core.errors import InputError, StateError
from tests.core.app.samples import changed

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
APP = parse_app(changed())


def template(image, **container):
    main = {"name": "db", "image": image, **container}
    return {"metadata": {"labels": {"berth.dev/app": "db"}}, "spec": {"containers": [main]}}


def revision(number, kept, uid="set-uid"):
    metadata = {
        "name": f"db-{kept['spec']['containers'][0]['image'].replace(':', '')}",
        "creationTimestamp": f"2026-01-01T00:0{number}:00Z",
        "ownerReferences": [{"kind": "StatefulSet", "uid": uid}],
    }
    data = {"spec": {"template": {"$patch": "replace", **kept}}}
    return {"metadata": metadata, "revision": number, "data": data}


def live(image, mark=None, **container):
    annotations = {ROLLED_BACK: json.dumps(mark)} if mark else {}
    return {
        "metadata": {"name": "db", "uid": "set-uid", "annotations": annotations},
        "spec": {"template": template(image, **container)},
    }


KEPT = (revision(3, template("db:3")), revision(1, template("db:1", command=["x"])), revision(2, template("db:2")))


def back(asked, there, kept=KEPT):
    return rolled_back(APP, asked, there, of_set(kept, there))


def mark_of(app):
    return json.loads(manifests.stateful_set(app)["metadata"]["annotations"][ROLLED_BACK])


def image_of(app):
    return app.template["spec"]["containers"][0]["image"]


def test_those_of_another_set_of_that_name_are_left_out():
    there = live("db:3")
    assert [one["revision"] for one in of_set([*KEPT, revision(4, template("db:4"), "other")], there)] == [1, 2, 3]
    assert of_set(KEPT, None) == []


def test_each_revision_says_who_runs_it_and_what_differs():
    pods = {f"db-{number}": {"metadata": {"name": f"db-{number}", "labels": {HASH.key: "db-db2"}}} for number in (1, 0)}
    there = live("db:3")
    first, second, third = set_rows(of_set(KEPT, there), Observed("db", "default", stateful_set=there, pods=pods), NOW)
    assert first == {
        "number": 1,
        "name": "db-db1",
        "created": "2026-01-01T00:01:00Z",
        "age": 59 * 60,
        "images": {"db": "db:1"},
        "pods": [],
        "updating": [],
        "current": False,
        "differs": ["spec.containers[db].command", "spec.containers[db].image"],
        "in_place": False,
    }
    assert (second["pods"], second["differs"], second["in_place"]) == (
        ["db-0", "db-1"],
        ["spec.containers[db].image"],
        True,
    )
    assert (third["current"], third["differs"], third["pods"]) == (True, [], [])


def test_bare_pods_tell_what_they_bear():
    def pod(name, mark, made):
        metadata = {"name": name, "annotations": {REVISION_ANNOTATION: mark}, "creationTimestamp": made}
        return {"metadata": metadata, "spec": {"containers": [{"name": "db", "image": f"db:{mark}"}]}}

    pods = {
        "db-0": pod("db-0", "old", "2026-01-01T00:00:00Z"),
        "db-1": pod("db-1", "new", "2026-01-01T00:30:00Z"),
    }
    seen = Observed("db", "default", pods=pods, berths={0: {"spec": {"revision": "new"}}})
    rows = bare_rows(seen, NOW)
    assert [(row["name"], row["number"], row["pods"], row["current"], row["age"]) for row in rows] == [
        ("old", None, ["db-0"], False, 3600),
        ("new", None, ["db-1"], True, 1800),
    ]


@pytest.mark.parametrize(
    ("asked", "image"), [("1", "db:1"), ("2", "db:2"), ("3", "db:3"), ("previous", "db:2"), ("db-db1", "db:1")]
)
def test_a_rollback_has_the_template_that_was(asked, image):
    app = back(asked, live("db:3"))
    assert image_of(app) == image
    assert "$patch" not in app.template
    assert app.disks == APP.disks
    mark = mark_of(app)
    assert (mark["asked"], mark["revision"]) == (asked, f"db-db{image[-1]}")
    assert app.set_revision != APP.set_revision


@pytest.mark.parametrize("asked", ["2", "previous", "db-db2"])
def test_a_rollback_that_is_run_again_stays_where_it_is(asked):
    """Its controller has given the revision a new number meanwhile."""
    there = live("db:2", {"asked": asked, "revision": "db-db2"})
    kept = [revision(1, template("db:1")), revision(3, template("db:3")), revision(4, template("db:2"))]
    again = back(asked, there, kept)
    assert image_of(again) == "db:2"
    assert again.set_revision == back(asked, live("db:3")).set_revision


def test_a_request_that_stands_outlives_the_revision_that_it_meant():
    """Each restart makes a revision, and the StatefulSet keeps the latest of them."""
    mark = mark_of(back("2", live("db:3")))
    restarted = template("db:2")
    restarted["metadata"]["annotations"] = {RESTARTED: "today"}
    there = live("db:2", mark)
    there["spec"]["template"] = restarted
    kept = [revision(8, template("db:8")), revision(9, restarted)]
    kept[1]["metadata"]["name"] = "db-restarted"
    again = back("2", there, kept)
    assert again.template == template("db:2"), "without the restart, which is added anew"
    with pytest.raises(InputError, match="no such revision"):
        back("2", there, kept[:1])
    with pytest.raises(InputError, match="no such revision"):
        back("5", there, kept)


def test_a_status_has_the_newest_revisions_with_their_images():
    assert status_rows(of_set(KEPT, live("db:3")))[1:] == [
        {"name": "db-db2", "number": 2, "created": "2026-01-01T00:02:00Z", "images": {"db": "db:2"}},
        {"name": "db-db3", "number": 3, "created": "2026-01-01T00:03:00Z", "images": {"db": "db:3"}},
    ]
    many = [revision(number, template(f"db:{'x' * 600}{number}")) for number in range(1, MOST + 5)]
    rows = status_rows(many)
    assert [row["number"] for row in rows] == list(range(5, MOST + 5))
    assert {len(image) for row in rows for image in row["images"].values()} == {512}


def test_previous_is_not_the_template_that_is_there():
    kept = [revision(3, template("db:3")), revision(4, template("db:2"))]
    assert image_of(back("previous", live("db:2"), kept)) == "db:3"


@pytest.mark.parametrize("text", ["{", '"x"'])
def test_an_annotation_that_is_something_else_is_none(text):
    there = live("db:3")
    there["metadata"]["annotations"][ROLLED_BACK] = text
    assert image_of(back("previous", there)) == "db:2"


def test_an_unknown_revision_is_refused_with_those_that_are_known():
    known = r"known are 1 = db-db1 \(db:1\), 2 = db-db2 \(db:2\), 3 = db-db3 \(db:3, current\)"
    for asked in ("7", "db-db7"):
        with pytest.raises(InputError, match=f"rollback_to is {asked}, .* no such revision: {known}"):
            back(asked, live("db:3"))
    with pytest.raises(InputError, match=r"known are 1 = db-db1 \(db:1, current\)"):
        back("previous", live("db:1"), [revision(1, template("db:1"))])


def test_without_its_set_there_is_nothing_to_go_back_to():
    with pytest.raises(StateError, match="StatefulSet default/db is not there"):
        back("1", None)


@pytest.mark.parametrize("asked", ["0", "-1", "1.5", "last", "", "\u0661"])
def test_what_is_no_revision_is_refused(asked):
    with pytest.raises(InputError, match=r"expected the number of a revision, its name \(db-\.\.\.\), or previous"):
        check_rollback(asked, "StatefulSet", "db")


def test_bare_pods_have_no_way_back():
    with pytest.raises(InputError, match="give the former template itself"):
        check_rollback("1", "Pod", "db")
    check_rollback(None, "Pod", "db")
