"""How the task backend's store is named: a file, or a URI that no password is in. Nothing is connected to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from berth_core.errors import InputError
from berth_tasks.settings import parse

SECRET = "s3cret"


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql:///berth",
        "postgres://berth@db.example.com:5432/berth?sslmode=verify-full&sslrootcert=/etc/ca.crt",
        "postgresql://berth@[2001:db8::1]:5433,[2001:db8::2]/berth?target_session_attrs=read-write",
        "postgresql://be%3Arth@%2Frun%2Fpostgresql/berth",
        "postgresql:///?service=berth",
        "postgresql://db:5432/berth?user=name%40example.com&passfile=/run/pgpass",
    ],
)
def test_uris_of_libpq_are_taken(uri: str) -> None:
    assert parse(["--store", uri], {}).store == uri
    assert parse([], {"BERTH_TASKS_STORE": uri}).store == uri


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://berth:{SECRET}@db/berth",
        f"postgresql://berth:{SECRET}?{SECRET}@db/berth",
        f"postgresql://berth:{SECRET}/{SECRET}@db/berth",
        f"postgresql://:{SECRET}@/",
        f"postgresql://berth@db/berth?password={SECRET}",
        f"postgresql://berth@db/berth?sslmode=require&%70assword={SECRET}",
        f"postgresql://db/?sslpassword={SECRET}",
    ],
)
def test_a_password_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(InputError, match=r"--store has a password .* PGPASSFILE, PGPASSWORD or a service file") as said:
        parse(["--store", uri], {})
    assert SECRET not in said.value.message


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("mysql://berth@db/berth", r"--store is no such URI: expected a file, or postgresql://USER@HOST/DATABASE"),
        ("postgresql:berth", "no such URI"),
        ("postgresql://db/a\nb", "no such URI"),
        ("postgresql://db/berth?no_such=1", 'invalid URI query parameter: "no_such"'),
        ("postgresql://db/%zz", "--store: invalid percent-encoded token"),
        ("postgresql://[::1/berth", "--store: .*IPv6"),
        ("/no/such/folder/tasks.db", "is in no directory"),
        (".", "is a directory"),
    ],
)
def test_what_is_no_store_is_refused(store: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(["--store", store], {})


def test_a_missing_driver_is_told_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "berth_tasks.postgresql_store", raising=False)
    monkeypatch.delattr("berth_tasks.postgresql_store", raising=False)
    with pytest.raises(
        InputError, match=r"needs the Python package psycopg, .*pip install 'berth\[tasks,postgresql\]'"
    ):
        parse(["--store", "postgresql:///berth"], {})
    assert parse(["--store", str(tmp_path / "tasks.db")], {}).store, "and who has a file does not need it"
