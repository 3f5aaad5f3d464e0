"""The table of bad custom resources and the generated ones, on a real API server: what is refused, and in which words.

What is let in is read by every reader of the core, or named as unreadable. Nothing is left behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ApiError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources
from tests.badinput import objects, readers, schemas, test_modules
from tests.badinput.asking import answer
from tests.badinput.schemas import Bad
from tests.support.kube import client_for, forget, install_crds, world

_KINDS = (resources.BERTH, resources.LOCAL_DEVICE, resources.LOCAL_DISK, resources.STATEFUL_APP, resources.TASK)
KINDS = {kind.kind: kind for kind in _KINDS}
REFUSED = (400, 422)


class Door:
    """The API server as somebody meets it who writes custom resources. What is there beforehand is made, and goes."""

    def __init__(self, kubeconfig: Any) -> None:
        install_crds(kubeconfig)
        self.kubeconfig, self.api, self.name = kubeconfig, client_for(kubeconfig), f"t{uuid4().hex[:10]}"
        self.api.create(resources.NAMESPACE, {"metadata": {"name": self.name}})

    def body(self, kind: str, spec: Any) -> dict[str, Any]:
        metadata = {"name": self.name, **({"namespace": self.name} if KINDS[kind].namespaced else {})}
        return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, "spec": spec}

    def make(self, kind: str, spec: Any, status: Any = None) -> dict[str, Any]:
        there = self.api.create(KINDS[kind], self.body(kind, spec))
        return self.api.replace(KINDS[kind], {**there, "status": status}, subresource="status") if status else there

    def remove(self, kind: str) -> None:
        forget(self.api, KINDS[kind], self.name, self.name if KINDS[kind].namespaced else None)

    def close(self) -> None:
        self.api.delete(resources.NAMESPACE, self.name)


@pytest.fixture(scope="module")
def door(control_plane: Any) -> Iterator[Door]:
    found = Door(control_plane.kubeconfig)
    yield found
    found.close()


@pytest.mark.promise
@pytest.mark.parametrize("row", objects.ROWS, ids=[f"{row.kind}: {row.name}" for row in objects.ROWS])
def test_it_is_refused_in_words_that_name_it(door: Door, row: objects.Row) -> None:
    kind = KINDS[row.kind]
    if row.before is None:
        with pytest.raises(ApiError) as refused:
            door.api.create(kind, door.body(row.kind, row.written["spec"]), dry_run=True)
    else:
        there = door.make(row.kind, row.before["spec"], row.before["status"])
        try:
            with pytest.raises(ApiError) as refused:
                door.api.replace(
                    kind, {**there, **row.written}, subresource="status" if row.status else None, dry_run=True
                )
        finally:
            door.remove(row.kind)
    assert refused.value.status in REFUSED, refused.value.message
    for word in row.words:
        assert word in refused.value.message


def test_every_field_with_every_value_is_refused_by_name_or_read(door: Door) -> None:
    before = world(door.kubeconfig)
    there = {kind: door.make(kind, schemas.WHOLE[kind][0][0]) for kind in schemas.WHOLE}
    wrong, tried, let_in = [], 0, 0
    try:
        for bad in schemas.generated():
            tried += 1
            try:
                found = _try(door, there, bad)
            except ApiError as exc:
                if exc.status not in REFUSED or not (schemas.names(exc.message, bad) or schemas.is_no_json(bad.value)):
                    wrong.append((bad.kind, bad.path, bad.what, exc.message[:300]))
                continue
            let_in += 1
            readers.read({bad.kind: [found]})
    finally:
        for kind in there:
            door.remove(kind)
    assert not wrong
    assert tried > 2000
    assert let_in < tried / 2
    assert world(door.kubeconfig) == before


def test_what_modules_refuse_costs_no_request_and_changes_nothing(door: Door) -> None:
    """The table of tests/badinput on a cluster that answers: nobody is asked, so nothing is waited for either."""
    before, client = world(door.kubeconfig), client_for(door.kubeconfig)
    for param in test_modules.CASES:
        module, options, words = param.values
        for check in (True, False):
            began = time.monotonic()
            result = answer(module, options, client, check)
            assert result.get("failed"), (module, options)
            assert "exception" not in result, result
            assert "internal error" not in result["msg"]
            assert all(word in result["msg"] for word in words), result["msg"]
            assert time.monotonic() - began < 3
    assert client.requests == {}
    assert world(door.kubeconfig) == before


def _try(door: Door, there: dict[str, dict[str, Any]], bad: Bad) -> dict[str, Any]:
    """What the API server would have; raises ApiError where it refuses it. Nothing is kept."""
    if bad.part == "spec":
        body = door.body(bad.kind, bad.body)
        return door.api.create(
            KINDS[bad.kind], {**body, "metadata": {**body["metadata"], "name": f"{door.name}-x"}}, True
        )
    return door.api.replace(KINDS[bad.kind], {**there[bad.kind], "status": bad.body}, "status", dry_run=True)
