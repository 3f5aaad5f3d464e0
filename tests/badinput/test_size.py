"""How many bad inputs the tables have, for each door: they grow."""

from __future__ import annotations

from collections import Counter

from tests.badinput import (
    extender_requests,
    objects,
    schemas,
    test_daemons,
    test_modules,
    test_plugins,
)

#: What was tried by hand once has a row; what is generated comes on top.
LEAST = {
    "modules": 95,
    "daemons and their files": 55,
    "numbers of daemons": 160,
    "files of daemons": 64,
    "kubectl-berth": 22,
    "custom resources": 95,
    "the extender": 110,
    "filters": 45,
    "the lookup": 12,
    "the inventory plugin": 15,
}


def tables() -> dict[str, int]:
    """Rows of each table; a row that is tried with several values counts for each."""
    shorts = Counter(row[0].split("|")[0] == "kubectl-berth" for row in test_daemons.SHORT)
    return {
        "modules": len(test_modules.CASES),
        "daemons and their files": shorts[False],
        "numbers of daemons": sum(len(test_daemons.JUNK) + above for _option, above in test_daemons.NUMBERS),
        "files of daemons": 4 * len(test_daemons.PATHS),
        "kubectl-berth": shorts[True],
        "custom resources": len(objects.ROWS),
        "the extender": len(extender_requests.ROWS),
        "filters": len(test_plugins.FILTERS),
        "the lookup": len(test_plugins.LOOKUP),
        "the inventory plugin": len(test_plugins.INVENTORY),
    }


def test_the_tables_have_at_least_600_rows() -> None:
    found = tables()
    assert {door: rows for door, rows in found.items() if rows < LEAST[door]} == {}
    assert sum(found.values()) >= 600


def test_no_row_stands_twice() -> None:
    written = Counter(str((row.kind, row.before, row.written)) for row in objects.ROWS)
    sent = Counter(row.sent for row in extender_requests.ROWS)
    assert [row for row, times in (*written.items(), *sent.items()) if times > 1] == []


def test_every_field_is_tried_with_values_of_every_kind() -> None:
    """Wrong types, too big, negative, empty, blank, other letters, null, NaN, too long, too many, and left out."""
    tried: dict[str, set[str]] = {}
    paths: dict[str, set[str]] = {}
    for bad in schemas.generated():
        paths.setdefault(bad.kind, set()).add(bad.path)
        tried.setdefault(bad.path, set()).add(bad.what)
    for kind, found in paths.items():
        schema = schemas.schema_of(kind)
        named = {way for part in ("spec", "status") for way, _field in schemas.fields(schema[part], (part,))}
        assert len(found) == len(named)
    assert {"missing", "null", "NaN", "object", "list"} <= tried["spec.identity.size"]
    assert {"negative", "too big", "a fraction", "text"} <= tried["spec.identity.size"]
    assert {"empty", "blank", "unicode", "too long", "number"} <= tried["spec.nodeName"]
    assert {"too many", "null inside"} <= tried["spec.disks"]
