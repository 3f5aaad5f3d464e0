"""What a daemon holds true between its own answers and the watches, whichever comes first."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.model.resources import BERTH, PV
from berth_kube import written as room
from berth_kube.store import Key, Mark, key_of
from berth_kube.written import Written

KEY = Key("", "pv-1")


def volume(version: int, uid: str = "u1") -> dict[str, Any]:
    return {"metadata": {"name": "pv-1", "uid": uid, "resourceVersion": str(version)}}


def test_an_answer_that_comes_after_the_watch_told_the_end_brings_nothing_back() -> None:
    written = Written()
    written.bury(PV, volume(4), "7")  # told while a GET, which saw version 6, was under way
    written.put(PV, volume(6))
    assert written.newest(PV, KEY, None) is None


def test_what_was_answered_is_forgotten_when_the_watch_tells_its_end() -> None:
    written = Written()
    written.put(PV, volume(4))
    assert written.newest(PV, KEY, None) == volume(4)
    written.bury(PV, volume(4), "5")
    assert written.newest(PV, KEY, None) is None


def test_a_new_object_of_that_name_is_another() -> None:
    written = Written()
    written.bury(PV, volume(4), "7")
    written.put(PV, volume(6, "u2"))
    assert written.newest(PV, KEY, None) == volume(6, "u2")


def test_an_object_that_only_left_the_watch_is_still_there() -> None:
    """A label taken off ends an object for a watch by labels; the version of that event is the object's own."""
    written = Written()
    written.bury(PV, volume(4), "5")
    written.put(PV, volume(5))
    assert written.newest(PV, KEY, None) == volume(5)


def test_of_two_answers_and_the_watch_the_newest_counts() -> None:
    written = Written()
    written.put(PV, volume(6))
    assert written.newest(PV, key_of(volume(5)), volume(5)) == volume(6)
    assert written.newest(PV, KEY, volume(7)) == volume(7)
    written.put(PV, volume(9))
    assert not written.put(PV, volume(8)), "the answer to an earlier question came later"
    assert written.newest(PV, KEY, volume(7)) == volume(9)
    written.gone(PV, volume(6))
    assert written.newest(PV, KEY, volume(7)) is None


def test_what_is_remembered_of_ended_objects_has_a_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(room, "BURIED", 2)
    written = Written()
    for number in range(3):
        written.bury(PV, volume(4, f"u{number}"), "7")
    written.put(PV, volume(6, "u2"))
    assert written.newest(PV, KEY, None) is None
    written.put(PV, volume(6, "u0"))  # so long ago that no answer of then can still come
    assert written.newest(PV, KEY, None) == volume(6, "u0")


def test_a_new_object_ends_what_is_known_to_be_gone() -> None:
    written = Written()
    written.gone(PV, volume(6))
    assert written.newest(PV, KEY, volume(9, "u2")) == volume(9, "u2")
    assert written.newest(PV, KEY, volume(7)) == volume(7)  # it is not kept for ever


def test_a_list_ends_what_it_does_not_have_unless_it_is_older() -> None:
    """After a restart the API server begins a new history: nobody tells what came and went before."""
    written = Written()
    written.put(PV, volume(6))
    assert written.listed(PV, {}, "5") == []
    assert written.newest(PV, KEY, None) == volume(6)
    assert written.listed(BERTH, {}, "8") == []
    assert written.listed(PV, {}, "8") == [volume(6)]
    assert written.newest(PV, KEY, None) is None


def test_a_list_counts_for_more_than_the_answers_before_it() -> None:
    """An etcd that was restored with a revision that was raised lists objects that are older than the answers."""
    written = Written()
    written.put(PV, volume(6))
    written.put(BERTH, volume(6))
    assert written.listed(PV, {KEY: Mark("u1", 4)}, "1000") == [volume(6)]
    assert written.newest(PV, KEY, volume(4)) == volume(4)
    assert written.newest(BERTH, KEY, volume(4)) == volume(6), "its list is still to come"
    written.put(PV, volume(1002))
    assert written.listed(PV, {KEY: Mark("u1", 1001)}, "1001") == [], "it was answered since"
    assert written.newest(PV, KEY, volume(1001)) == volume(1002)


@pytest.mark.parametrize("watch_is_first", [True, False])
def test_what_a_restored_etcd_brings_back_is_there(watch_is_first: bool) -> None:
    """Also where no other object of the kind is older: what came and went since the backup may be all that differs."""
    written = Written()
    if watch_is_first:
        written.bury(PV, volume(6), "7")
    written.gone(PV, volume(6))
    assert written.listed(PV, {KEY: Mark("u1", 4)}, "1000") == ([] if watch_is_first else [volume(6)])
    assert written.newest(PV, KEY, volume(4)) == volume(4)
    assert written.put(PV, volume(4))


def test_nothing_is_kept_of_an_end_that_the_watch_has_told() -> None:
    """The answer to the write that ends an object may come after the watch: nothing would ever take the note away."""
    written = Written()
    written.bury(PV, volume(6), "7")
    written.gone(PV, volume(6))
    assert written.listed(PV, {}, "8") == []


@pytest.mark.parametrize(("mark", "told"), [(("u1", 6), []), (("u1", 9), []), (("u2", 9), [volume(6)])])
def test_what_the_list_has_is_told_by_the_cache(mark: tuple[str, int], told: list[Any]) -> None:
    """Else thousands that were bound long ago would be looked at with each list, and their Events told again."""
    written = Written()
    written.put(PV, volume(6))
    assert written.listed(PV, {KEY: Mark(*mark)}, "10") == told
    assert written.newest(PV, KEY, None) is None


def test_nothing_is_left_of_a_history_that_has_gone_back() -> None:
    """As after an etcd that was restored: what is there now has lower versions than the answers."""
    written = Written()
    written.bury(PV, volume(8, "u2"), "8")
    written.put(PV, volume(9))
    assert written.rewound(BERTH) == []
    assert written.rewound(PV) == [KEY]
    assert written.newest(PV, KEY, volume(4)) == volume(4)
    assert written.put(PV, volume(5, "u2")), "it is there again, and its end is of the other history"
    written.gone(PV, volume(6))
    assert written.rewound(PV) == []
    assert written.newest(PV, KEY, volume(4)) == volume(4)


def test_the_list_after_such_a_history_ends_what_was_answered_before_it() -> None:
    """It may have come and gone since the backup: nobody else tells that it is over."""
    written = Written()
    written.put(PV, volume(9))
    written.put(BERTH, volume(9))
    written.rewound(PV)
    assert written.listed(BERTH, {}, "5") == []
    assert written.listed(PV, {}, "5") == [volume(9)]
    assert written.listed(PV, {}, "5") == []
    written.put(PV, volume(9))
    written.rewound(PV)
    assert written.listed(PV, {KEY: Mark("u1", 4)}, "5") == [], "of what it has the cache tells"
