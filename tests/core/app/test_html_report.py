"""The page: whole HTML, everything from the cluster as text, nothing asked of the network."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from html.parser import HTMLParser

from berth_core.app.berth_history import rows
from berth_core.app.cluster_drift import cluster_drift, living
from berth_core.app.history import history
from berth_core.app.html_report import made_at, render
from berth_core.app.overview import overview
from berth_core.lifecycle.history import ANNOTATION
from berth_core.tasks.batch_told import told
from tests.core.app.report_world import cluster

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e\x1b"


class Page(HTMLParser):
    """Elements with their attributes, the text of each kind, and what was not closed."""

    VOID = ("meta", "input", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def page(word: str = "plain", made: str = "now", title: str = "berth") -> str:
    lists = cluster(word)
    return render(overview(living(lists)), cluster_drift(lists), history(lists), title, made)


def test_each_replica_has_a_timeline_the_latest_first_of_which_nothing_runs() -> None:
    by = {"component": HOSTILE}
    entries = [{"time": f"2026-01-02T03:04:0{n}Z", "to": f"step{n}", "why": HOSTILE, "by": by} for n in (1, 2)]
    meta = {"namespace": "shop", "name": "db-0", "annotations": {ANNOTATION: json.dumps(entries)}}
    changes = rows([{"metadata": meta, "spec": {"app": "db", "ordinal": 0}}], [])
    lists = cluster("plain")
    text = render(overview(living(lists)), cluster_drift(lists), history(lists), "berth", "now", changes)
    found, bare = Page(text), Page(page())
    assert found.open == []
    scripts = [[tag for tag, _attrs in one.elements].count("script") for one in (found, bare)]
    assert scripts[0] == scripts[1]
    assert "img" not in [tag for tag, _attrs in found.elements]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "shop/db-0" in found.texts["summary"]
    assert text.index("step2") < text.index("step1")


def test_task_batches_stand_there_with_what_keeps_them_and_how_tasks_failed() -> None:
    def batch(name: str, **status: object) -> dict[str, object]:
        live = {"metadata": {"name": name, "namespace": "lab"}, "spec": {"queue": "night"}, "status": status}
        return told(live, NOON)

    failed = [{"reason": "Error", "exitCode": 3, "count": 7, "example": "12"}]
    rows = [
        batch("ended", state="Failed", counts={"succeeded": 93, "failed": 7}, reasons=failed),
        batch("waits", state="Submitted", reason="NeverFits", message=HOSTILE, counts={"left": 5}),
    ]
    lists = cluster("plain")
    text = render(overview(living(lists)), cluster_drift(lists), history(lists), "berth", "now", (), rows)
    found = Page(text)
    assert found.open == []
    assert "img" not in [tag for tag, _attrs in found.elements]
    cells = found.texts["td"]
    assert "7 failed with exit code 3 (Error), as 12" in cells
    assert cells.index("waits") < cells.index("ended"), "what has not ended comes first"
    assert "Task batches" not in page()
    unread = render(overview(living(lists)), cluster_drift(lists), history(lists), "berth", "now", (), None)
    assert "may not list them" in unread


def test_the_page_is_whole_and_says_what_is_there() -> None:
    text = page()
    found = Page(text)
    assert found.open == []
    words = " ".join(word for kind in found.texts.values() for word in kind)
    for expected in ("held", "broken", "shop/db-0", "Faulted", "n1", "1Gi", "not a node of the cluster", "2026-01-02"):
        assert expected in words
    states = {attrs["data-find"] for tag, attrs in found.elements if tag == "article"}
    assert states == {"bad held", "bad"}
    assert page() == text, "stable"


def test_what_the_cluster_says_is_text() -> None:
    tame, hostile = Page(page()), Page(page(HOSTILE, title=HOSTILE, made=HOSTILE[:20]))
    assert [tag for tag, _attrs in hostile.elements] == [tag for tag, _attrs in tame.elements]
    assert [sorted(attrs) for _tag, attrs in hostile.elements] == [sorted(attrs) for _tag, attrs in tame.elements]
    assert hostile.texts["script"] == tame.texts["script"]
    cells = " ".join(hostile.texts["td"])
    assert "<script>alert(1)</script>" in cells, "shown as it is"
    assert "\u202e" not in cells
    assert "\x1b" not in cells


def test_nothing_is_asked_of_the_network() -> None:
    found = Page(page())
    asking = {"src", "href", "action", "srcset", "data", "poster", "style"}
    assert not [attrs for _tag, attrs in found.elements if asking & set(attrs)]
    assert not [name for _tag, attrs in found.elements for name in attrs if name.startswith("on")]
    ((_tag, policy),) = [one for one in found.elements if one[1].get("http-equiv") == "Content-Security-Policy"]
    rules = str(policy["content"])
    assert rules.startswith("default-src 'none';")
    for kind in ("style", "script"):
        (text,) = found.texts[kind]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in rules


def test_the_time_of_a_page_is_found_again() -> None:
    assert made_at(page(made="2026-01-02 <&> UTC")) == "2026-01-02 <&> UTC"
    assert made_at("<html>another page</html>") == ""


def test_history_is_the_latest_first_and_bounded() -> None:
    lists = cluster()
    lists["Berth"][0]["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
    told = history(lists, 2)
    assert (told[0].about, told[0].text, len(told)) == ("Berth shop/db-0", "made", 2)


def test_findings_are_those_of_drift_and_orphans() -> None:
    lists = cluster()
    lists["Berth"] = []
    found = cluster_drift(lists)
    kinds = {(one["object"], one["kind"]) for one in found}
    assert {
        ("LocalDisk held", "LockWithoutBerth"),
        ("LocalDisk lost", "missing"),
        ("LocalDisk broken", "changed"),
    } <= kinds
    assert json.loads(json.dumps(found)) == found
