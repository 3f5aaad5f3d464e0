"""When a request may be sent once more, for every verb and every outcome; and what all requests have in common."""

from __future__ import annotations

import itertools

import pytest

from berth_core.errors import InvalidError, UnavailableError
from berth_core.model import api_requests as requests
from berth_core.model.api_errors import Request, api_error
from berth_core.model.resources import BERTH

#: (verb, subresource, patch) -> the outcomes after which it may be sent again; then those where its caller checks, too.
ALWAYS = "unsent busy"
EXPECTED = {
    ("get", None, "merge"): (f"{ALWAYS} lost failed", ""),
    ("list", None, "merge"): (f"{ALWAYS} lost failed", ""),
    ("watch", None, "merge"): (f"{ALWAYS} lost failed", ""),
    ("create", None, "merge"): (ALWAYS, "lost failed"),
    ("create", "binding", "merge"): (ALWAYS, ""),
    ("create", "token", "merge"): (ALWAYS, ""),
    ("create", "eviction", "merge"): ("unsent", ""),
    ("replace", None, "merge"): (f"{ALWAYS} lost failed", ""),
    ("replace", "status", "merge"): (f"{ALWAYS} lost failed", ""),
    ("apply", "status", "merge"): (f"{ALWAYS} lost failed", ""),
    ("patch", None, "merge"): (f"{ALWAYS} lost failed", ""),
    ("patch", None, "json"): (ALWAYS, ""),
    ("patch", None, "strategic"): (ALWAYS, ""),
    ("delete", None, "merge"): (f"{ALWAYS} lost failed", ""),
    ("deletecollection", None, "merge"): (f"{ALWAYS} lost failed", ""),
}


@pytest.mark.promise
@pytest.mark.parametrize(("asked", "outcome"), list(itertools.product(EXPECTED, requests.OUTCOMES)))
def test_what_may_be_sent_again(asked, outcome):
    anybody, who_checks = (words.split() for words in EXPECTED[asked])
    kind = requests.kind_of(*asked)
    assert requests.may_resend(kind, outcome) == (outcome in anybody)
    assert requests.may_resend(kind, outcome, checks=True) == (outcome in anybody + who_checks)


def test_every_verb_and_kind_stands_in_the_table():
    assert {verb for verb, _subresource, _patch in EXPECTED} == set(requests.METHODS)
    assert set(requests.WRITES) == {verb for verb, method in requests.METHODS.items() if method != "GET"}
    kinds = {requests.kind_of(*asked) for asked in EXPECTED}
    assert kinds == set(requests.RESEND) == set(requests.CHECKS)
    for kind, row in requests.RESEND.items():
        assert set(row) == set(requests.OUTCOMES)
        assert requests.CHECKED not in row.values() or requests.CHECKS[kind], f"{kind}: what is to be checked?"


UNDECLARED = "failed to create typed patch object: .status.workload: field not declared in schema"
STATUSES = {
    (200, ""): "settled",
    (400, 'strict decoding error: unknown field "x"'): "settled",
    (404, ""): "settled",
    (409, ""): "settled",
    (422, ""): "settled",
    (429, ""): "busy",
    (500, "etcdserver: request timed out"): "failed",
    (500, UNDECLARED): "permanent",
    (502, ""): "failed",
    (503, ""): "failed",
    (504, UNDECLARED): "failed",  # a gateway's word about somebody else's
}


@pytest.mark.parametrize(("status", "message"), STATUSES)
def test_what_an_answer_means(status, message):
    assert requests.outcome_of(status, message) == STATUSES[status, message]


def test_a_field_that_a_schema_lacks_is_no_later():
    asked = Request("apply", BERTH, "b", "n", "status")
    error = api_error(500, f'{{"message": "{UNDECLARED}"}}'.encode(), asked)
    assert isinstance(error, InvalidError)
    assert "run berth.stateful.crds" in error.message
    assert "later" not in error.message
    assert isinstance(api_error(500, b'{"message": "etcd"}', asked), UnavailableError)


def test_pauses_grow_and_are_no_shorter_than_the_server_says():
    assert [requests.pause(attempt, "", 0.5) for attempt in (0, 1, 2, 10, 5000)] == [0.1, 0.2, 0.4, 2.0, 2.0]
    assert requests.pause(0, "7", 0.0) == 7.0
    assert requests.pause(0, "Wed, 21 Oct 2015 07:28:00 GMT", 0.5) == 0.1


def test_a_write_says_who_writes_and_refuses_what_a_schema_lacks():
    assert requests.parameters("list", {"limit": "1"}, "me") == {"limit": "1"}
    assert requests.parameters("delete", None, "me", dry_run=True) == {"dryRun": "All"}
    for verb in ("create", "replace", "apply", "patch"):
        assert requests.parameters(verb, None, "me") == {"fieldManager": "me", "fieldValidation": "Strict"}
    assert requests.parameters("apply", {"fieldManager": "you"}, "me")["fieldManager"] == "you"
    assert requests.headers("get", body=False) == {"accept": "application/json"}
    said = {verb: requests.headers(verb)["content-type"].rpartition("/")[2] for verb in requests.WRITES}
    assert said == {
        "create": "json",
        "replace": "json",
        "apply": "apply-patch+yaml",
        "patch": "merge-patch+json",
        "delete": "json",
        "deletecollection": "json",
    }
    assert requests.headers("patch", "strategic")["content-type"] == "application/strategic-merge-patch+json"
    assert requests.delete_options() == {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    assert requests.delete_options("u", "7")["preconditions"] == {"uid": "u", "resourceVersion": "7"}
