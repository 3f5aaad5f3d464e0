"""The pod of a call: the template that a program gives, with the worker, the call, and how to send a result."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth_core.errors import InputError

from .. import worker

#: Variables of the worker: nobody else sets them.
_OURS = "BERTH_"
WORKER = Path(worker.__file__).read_text(encoding="utf-8")


def check(template: Mapping[str, Any]) -> None:
    """Refuse what leaves no room for the worker. Raises InputError that names the field."""
    containers = (template.get("spec") or {}).get("containers") or ()
    if not containers:
        raise InputError("template.spec.containers is empty: expected the container in which functions run first")
    first = containers[0]
    for field in ("command", "args"):
        if first.get(field):
            raise InputError(f"template.spec.containers[0].{field} is given: the executor runs its worker there")
    wrong = sorted(one["name"] for one in first.get("env") or () if str(one.get("name")).startswith(_OURS))
    if wrong:
        raise InputError(f"template.spec.containers[0].env names {wrong[0]}: {_OURS}* are the worker's")


def with_call(template: Mapping[str, Any], python: str, call: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The template of one call. ``variables``: a text each, or where Kubernetes takes it from."""
    made = copy.deepcopy(dict(template))
    first = made["spec"]["containers"][0]
    first["command"] = [python, "-c", _literal(WORKER)]
    first["args"] = [_literal(call)]
    more = dict(variables)
    if first.get("terminationMessagePath"):
        more["BERTH_TERMINATION_LOG"] = first["terminationMessagePath"]
    first["env"] = [*(first.get("env") or ()), *(_variable(name, value) for name, value in more.items())]
    return made


def _literal(text: str) -> str:
    """Kubernetes puts variables into commands, as $(NAME), and takes $$ for one $."""
    return text.replace("$", "$$")


def _variable(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"name": name, "valueFrom": dict(value)}
    return {"name": name, "value": _literal(str(value))}
