"""A call on its way into a pod, and what came of it: texts, and the errors that a program sees. Makes no requests.

A function goes as its import path, its arguments as JSON or, where that is asked for by name, pickled. What comes from
a pod is JSON and is never unpickled: a pod may be broken into, and to unpickle is to run what it says.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import importlib
import json
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from berth_core.errors import InputError, TaskError

from .. import worker

Row = Mapping[str, Any]
#: (args, kwargs) of one call.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]
ENCODINGS = ("json", "pickle")
#: Bytes of a call's text: it is one argument of a command, and a part of a Task.
MOST_CALL = 64 * 1024
_BUILTIN = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}


def import_path(function: Callable[..., Any] | str) -> str:
    """``module:qualname``, by which an image finds the function. A text is taken as it is.

    Raises InputError for what has no such path: a lambda, a function inside another one or in the program's own file.
    """
    if isinstance(function, str):
        parts = function.replace(":", ".", 1).split(".")
        if ":" not in function or not all(part.isidentifier() for part in parts):
            raise InputError(f"function is {function!r}: expected module:name, for example math:sqrt")
        return function
    path: tuple[Any, Any] = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    module, name = path
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        raise InputError(f"{function!r} has no import path: put a function of that name into a module of the image")
    if module == "__main__":
        raise InputError(f"{name} is in the program's own file, which no pod has: put it into a module of the image")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not function:
        raise InputError(f"{module}:{name} is not {function!r}, but {found!r}: a pod would call that")
    return f"{module}:{name}"


def call_text(path: str, each: Iterable[Arguments], encoding: str, many: bool) -> str:
    """The text of a call; ``many``: of one function once for each. Raises InputError: what, both sizes."""
    listed = [(list(args), dict(kwargs)) for args, kwargs in each]
    call: dict[str, Any] = {"function": path, **({"many": True} if many else {})}
    if encoding == "pickle":
        try:
            call["pickle"] = base64.b64encode(pickle.dumps(listed)).decode("ascii")
        except Exception as exc:  # whatever an object's own reduction raises
            raise InputError(f"the arguments of {path} cannot be pickled: {exc}") from exc
    else:
        try:
            worker.check_json(listed, f"an argument of {path}")
        except worker.Refused as exc:
            raise InputError(f"{exc}; or give the executor arguments='pickle'") from exc
        call["each"] = listed
    text = json.dumps(call)
    if len(text) > MOST_CALL:
        raise InputError(
            f"the call of {path} has {len(text)} bytes, and at most {MOST_CALL} are taken: give the function less at a"
            " time, or where it finds it"
        )
    return text


def result_of(row: Row, exceptions: Mapping[str, type[Exception]], sent: bytes | None = None) -> Any:
    """The result of a Task that has ended. ``sent``: what has come for it at the program's own endpoint.

    Raises the function's exception where its class is a built-in or one of ``exceptions``, else TaskError.
    """
    left = _left(row)
    if row["state"] == "Succeeded" and "result" in left:
        return left["result"]
    if row["state"] == "Succeeded" and "sent" in left:
        if sent is None or hashlib.sha256(sent).hexdigest() != left["sent"]:
            raise TaskError(f"{_who(row)} has sent its result, and another one or none is there", task=dict(row))
        return json.loads(sent)["result"]
    if isinstance(left.get("error"), dict):
        raise _exception(row, left["error"], exceptions)
    raise TaskError(f"{_who(row)} {_how(row, left)}", task=dict(row))


def _left(row: Row) -> dict[str, Any]:
    try:
        left = json.loads(row.get("termination_message") or "{}")
    except ValueError:
        return {}
    return left if isinstance(left, dict) else {}


def _who(row: Row) -> str:
    return f"Task {row['namespace']}/{row['name']}"


def _how(row: Row, left: Mapping[str, Any]) -> str:
    if row["state"] == "Succeeded":
        return "has succeeded and left no result: does its image run the command that it is given?"
    words = left.get("refused")
    if not words:
        lines = [line for line in str(row.get("log") or "").splitlines() if line.strip()]
        last = f"; its log ends with: {lines[-1]}" if lines else ""
        words = f"{row.get('message') or row.get('reason') or 'nobody says why'}{last}"
    return f"is {row['state']} after {row.get('tries') or 0} tries, exit code {row.get('exit_code')}: {words}"


def _exception(row: Row, told: Mapping[str, Any], exceptions: Mapping[str, type[Exception]]) -> Exception:
    """Made of its name and its arguments; what cannot be made so is told of by a TaskError."""
    path, text, lines = (str(told.get(field) or "") for field in ("type", "text", "traceback"))
    kind = exceptions.get(path) or (_BUILTIN.get(path[9:]) if path.startswith("builtins:") else None)
    if kind is not None and isinstance(told.get("args"), list):
        try:
            made = kind(*told["args"])
        except Exception:  # noqa: BLE001 - its own checks, of arguments that it was not made with
            made = None
        if isinstance(made, Exception):
            made.add_note(f"in {_who(row)}:\n{lines}")
            return made
    failed = TaskError(
        f"{_who(row)} is {row['state']}: its function raised {path}: {text}", task=dict(row), type=path, traceback=lines
    )
    failed.add_note(lines)
    return failed
