# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole error tree of berth. Everything in the product imports it; it imports nothing.

BerthError                       the only class that front ends need to catch
|-- InputError                   the user's words are wrong: nothing was touched, change the input
|   |-- QuantityError            a text is not a Kubernetes quantity
|   |-- SelectorError            a label or node selector cannot be evaluated
|   `-- IdentityError            a disk's identity is weak, ambiguous, or is not the declared one
|-- StateError                   the cluster is in a state in which the request may not be carried out
|   |-- UnschedulableError       no node and disk fits; carries the diagnosis
|   |-- LockError                a disk or device is held by somebody else
|   `-- DataError                the step could lose data, and was refused
|-- ApiError                     the API server said no; carries status, reason and causes
|   |-- UnauthorizedError        401: credentials
|   |-- ForbiddenError           403: RBAC, names verb and resource
|   |   `-- AdmissionError       403: the rights are there, a rule of the cluster (quota, limit, policy) says no
|   |-- NotFoundError            404
|   |-- ConflictError            409: somebody else wrote first (compare-and-swap lost), or the name is taken
|   |-- GoneError                410: a resourceVersion or a page's token is too old; list again
|   |-- InvalidError             422, of an apply 500: the object breaks its schema or a rule
|   `-- UnavailableError         cannot be reached, or 429/5xx that outlasted the retries
|-- TaskError                    a function that was to run as a Task has no result; says how the Task ended
`-- TimeoutExpired               waited as long as was allowed; carries what was still missing

A class exists only where somebody catches it. The message names the object, what was wrong, what was expected, and
what to do.
"""

from __future__ import annotations

from typing import Any


class BerthError(Exception):
    """Root of all errors that a front end shows to a person.

    ``details`` is a JSON-able mapping for machines: ``fail_json(msg, **details)``, or the fields of a log line.
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {key: value for key, value in details.items() if value is not None}


class InputError(BerthError):
    """The request itself is wrong."""


class QuantityError(InputError):
    """A text is not a Kubernetes quantity."""


class SelectorError(InputError):
    """A selector cannot be evaluated."""


class IdentityError(InputError):
    """A disk's identity is weak, ambiguous, or not the declared one."""


class StateError(BerthError):
    """The cluster does not allow the request as it is now."""


class UnschedulableError(StateError):
    """No node and disk fits."""


class LockError(StateError):
    """A disk or device is held by somebody else."""


class DataError(StateError):
    """The step could lose data."""


class ApiError(BerthError):
    """The API server refused a request.

    ``status`` is the HTTP status (0: no answer), ``reason`` and ``causes`` are those of the API's Status object.
    """

    def __init__(
        self,
        message: str,
        status: int = 0,
        reason: str = "",
        causes: list[dict[str, Any]] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, status=status, reason=reason, causes=causes or [], **details)
        self.status = status
        self.reason = reason
        self.causes = causes or []


class UnauthorizedError(ApiError):
    """401."""


class ForbiddenError(ApiError):
    """403."""


class AdmissionError(ForbiddenError):
    """403 by admission."""


class NotFoundError(ApiError):
    """404."""


class ConflictError(ApiError):
    """409."""


class GoneError(ApiError):
    """410."""


class InvalidError(ApiError):
    """422, or a 500 that says of the request what the next one would be told, too."""


class UnavailableError(ApiError):
    """No answer, or one that says: later."""


class TaskError(BerthError):
    """A function that was to run as a Task has no result.

    ``details``: the Task's row (``task``), and of an exception in it its ``type`` and ``traceback``.
    """


class TimeoutExpired(BerthError):
    """Waited as long as was allowed."""
