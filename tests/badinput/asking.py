"""Runs an operation in this process as its action plugin does, with a client that says whether it was asked."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.berth.stateful.plugins.module_utils._glue.arguments import check_shapes
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, Operation, execute
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError

_COLLECTION = "ansible_collections.berth.stateful.plugins"
_ROOT = Path(__file__).resolve().parents[2]


def operations() -> dict[str, Operation]:
    """Every operation that has an action plugin, by its name."""
    found = {}
    for path in sorted((_ROOT / "plugins" / "action").glob("*.py")):
        action = importlib.import_module(f"{_COLLECTION}.action.{path.stem}").ActionModule
        if hasattr(action, "operation"):
            found[path.stem] = action.operation
    return found


OPERATIONS = operations()


class Unasked:
    """A client of an API server that nobody may ask."""

    written = 0
    requests: Mapping[str, int] = {}

    def __getattr__(self, verb: str) -> Any:
        pytest.fail(f"the API server was asked ({verb}) before the input was refused")


def answer(name: str, options: Mapping[str, Any], client: Any, check: bool = False) -> dict[str, Any]:
    """The result of the module ``name``; a refusal of its arguments looks like one of its own."""
    operation = OPERATIONS[name]
    try:
        check_shapes(operation.argument_spec(), options)
        arguments = operation.prepare(dict(options)) if operation.prepare else dict(options)
    except BerthError as exc:
        return {"failed": True, "msg": exc.message}
    checked = ArgumentSpecValidator(operation.argument_spec(), **operation.rules()).validate(arguments)
    if checked.error_messages:
        return {"failed": True, "msg": "; ".join(checked.error_messages)}
    context = Context(checked.validated_parameters, check, lambda _text: None, environ={})
    context._client = client
    return execute(operation, context)


def refusal(name: str, options: Mapping[str, Any]) -> str:
    """The message with which the module refuses its input, before it asks anybody."""
    result = answer(name, options, Unasked())
    assert result.get("failed"), f"{name} took {options}: {result}"
    assert "exception" not in result, result["exception"]
    return str(result["msg"])
