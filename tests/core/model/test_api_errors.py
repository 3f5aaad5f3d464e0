"""The API server's refusals as errors: class, message, and what is kept of the Status object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth_core import errors
from berth_core.model.api_errors import Request, api_error, warnings
from berth_core.model.resources import BERTH, LOCAL_DISK, POD

GET = Request("get", LOCAL_DISK, "d1", None)


def status(message: str, reason: str = "", **details: Any) -> bytes:
    return json.dumps({"kind": "Status", "message": message, "reason": reason, "details": details}).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.ApiError),
        (401, errors.UnauthorizedError),
        (403, errors.ForbiddenError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (410, errors.GoneError),
        (422, errors.InvalidError),
        (429, errors.UnavailableError),
        (500, errors.UnavailableError),
        (503, errors.UnavailableError),
        (504, errors.UnavailableError),
    ],
)
def test_class_of_a_status(code: int, kind: type[errors.ApiError]) -> None:
    error = api_error(code, status("why", "Reason", causes=[{"field": "spec"}]), GET)
    assert error.__class__ is kind
    assert (error.status, error.reason, error.causes) == (code, "Reason", [{"field": "spec"}])
    assert "LocalDisk d1" in error.message
    assert "why" in error.message


def test_missing_rule_as_rbac_spells_it() -> None:
    asked = Request("apply", BERTH, "db-0", "prod", "status")
    message = api_error(403, status("no", "Forbidden"), asked).message
    assert "verb patch on berths/status.berth.dev in namespace prod" in message
    assert (
        "verb delete on pods in namespace x"
        in api_error(403, status("no", "Forbidden"), Request("delete", POD, "p", "x")).message
    )


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('pods is forbidden: User "ann" cannot create resource "pods" in API group ""', errors.ForbiddenError),
        ('pods "db-0" is forbidden: User "ann" cannot get resource "pods"', errors.ForbiddenError),
        ('pods "db-0" is forbidden: exceeded quota: few, requested: pods=1', errors.AdmissionError),
        ('pods "db-0" is forbidden: violates PodSecurity "restricted:latest"', errors.AdmissionError),
        ('admission webhook "no.example.com" denied the request: no', errors.AdmissionError),
    ],
)
def test_a_missing_right_is_told_from_a_rule_of_the_cluster(words: str, kind: type[errors.ApiError]) -> None:
    error = api_error(403, status(words, "Forbidden"), Request("create", POD, "db-0", "x"))
    assert error.__class__ is kind
    assert ("RBAC does not allow it" in error.message) is (kind is errors.ForbiddenError)
    assert words in error.message


def test_an_apply_that_fits_no_schema_is_no_server_that_is_away() -> None:
    words = "failed to create typed patch object (x/db; apps/v1, Kind=StatefulSet): .spec.env: duplicate entries"
    error = api_error(500, status(words, "InternalError"), Request("apply", POD, "db", "x"))
    assert error.__class__ is errors.InvalidError
    assert words in error.message


def test_a_kind_that_is_not_served() -> None:
    message = api_error(404, b"404 page not found\n", Request("list", LOCAL_DISK, None, None)).message
    assert "the CRDs are not installed; run berth.stateful.crds first" in message
    assert "CRDs" not in api_error(404, status("pods not found", "NotFound"), Request("get", POD, "p", "x")).message


@pytest.mark.parametrize(
    "words", ['strict decoding error: unknown field "spec.wipe"', ".spec.wipe: field not declared in schema"]
)
def test_a_field_that_an_older_schema_lacks(words: str) -> None:
    assert words in api_error(400, status(words, "BadRequest"), GET).message
    assert "run berth.stateful.crds of this release" in api_error(500, status(words), GET).message
    assert "crds" not in api_error(400, status(words), Request("create", POD, "p", "x")).message


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[1]", b"\xff\xfe", b"null"])
def test_answers_that_are_no_status(body: bytes) -> None:
    error = api_error(502, body, GET)
    assert isinstance(error, errors.UnavailableError)
    assert "502" in error.message


def test_warnings() -> None:
    assert warnings(['299 - "old \\"thing\\""', "odd"]) == ['old "thing"', "odd"]
