"""Plugins from outside: found by their entry point, with typed arguments.

    [project.entry-points."berth.scheduler.plugins"]
    QuietHours = "example:QuietHours"

The entry point's name is the plugin's name in configuration files. What it points to is a frozen dataclass, whose
fields are its arguments, or a function of (arguments, path) that returns a plugin. Called by configuration.py once.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import NoneType
from typing import Any

from berth_core.config.names import EXTENDS
from berth_core.errors import InputError
from berth_core.framework import binding, contract
from berth_core.framework.contract import Plugin
from berth_core.framework.registry import Factory, Registry
from berth_core.plugins.table import TABLE
from berth_kube import outside

GROUP = "berth.scheduler.plugins"
#: The method by which a class is known to stand at an extension point.
_METHODS = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "queue_key",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}
_PROTOCOLS: Mapping[str, type] = {
    "preEnqueue": contract.PreEnqueue,
    "queueSort": contract.QueueSort,
    "preFilter": contract.PreFilter,
    "filter": contract.Filter,
    "preScore": contract.PreScore,
    "score": contract.Score,
    "reserve": contract.Reserve,
    "permit": contract.Permit,
    "preBind": binding.PreBind,
    "bind": binding.Bind,
    "postBind": binding.PostBind,
}
Extends = Mapping[str, tuple[str, ...]]


def known_plugins(found: typing.Iterable[EntryPoint] | None = None) -> tuple[Registry, Extends]:
    """The built-in plugins and those from outside, and at which points each stands. Raises InputError."""
    factories: list[tuple[str, Factory]] = []
    extends = dict(EXTENDS)
    for one, loaded in outside.found(GROUP, "plugin", EXTENDS, found):
        extends[one.name] = _points(_made_of(loaded, one))
        if not extends[one.name]:
            raise InputError(f"plugin {one.name} of {one.value} has no method of any extension point")
        factories.append((one.name, _checked(one.name, _factory(one.name, loaded), extends[one.name])))
    return TABLE.extended(factories), extends


def _points(made_of: Any) -> tuple[str, ...]:
    found = [point for point, method in _METHODS.items() if callable(getattr(made_of, method, None))]
    # What holds something in the cluster stands at reserve, as what only decides there does.
    if hasattr(made_of, "hold") and "reserve" not in found:
        found.append("reserve")
    return tuple(found)


def _made_of(loaded: Any, point: EntryPoint) -> Any:
    """The class of the plugin: what the entry point names, or what its function says that it returns."""
    if isinstance(loaded, type):
        return loaded
    made = typing.get_type_hints(loaded).get("return") if callable(loaded) else None
    if not isinstance(made, type):
        text = f"plugin {point.name}: {point.value} is neither a class nor a function that says which class it returns"
        raise InputError(text)
    return made


def _factory(name: str, loaded: Any) -> Factory:
    if not isinstance(loaded, type):
        made: Factory = loaded
        return made
    return lambda args, path: typed(name, loaded, args, path)


def typed(name: str, cls: type, args: Mapping[str, Any], path: str) -> Plugin:
    """Make a plugin whose arguments are the fields of its dataclass. Raises InputError with path and expectation."""
    fields = {one.name: one for one in dataclasses.fields(cls) if one.init} if dataclasses.is_dataclass(cls) else {}
    fields.pop("name", None)
    hints = typing.get_type_hints(cls)
    for key, value in args.items():
        if key not in fields:
            known = ", ".join(sorted(fields)) or "no arguments"
            raise InputError(f"{path}.{key}: {name} does not know it; expected {known}", field=f"{path}.{key}")
        _typed(value, hints[key], f"{path}.{key}")
    for key, one in fields.items():
        if key not in args and one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise InputError(f"{path}.{key}: {name} needs it, and it is missing", field=f"{path}.{key}")
    plugin: Plugin = cls(**{key: _frozen(value) for key, value in args.items()})
    return plugin


def _typed(value: Any, wanted: Any, path: str) -> None:
    """Check a value against bool, int, float, str, tuple[X, ...], or an optional one of them."""
    options = [one for one in typing.get_args(wanted) if one is not NoneType] if _is_union(wanted) else [wanted]
    if value is None and len(options) < len(typing.get_args(wanted)):
        return
    for option in options:
        if typing.get_origin(option) is tuple:
            if isinstance(value, list):
                for index, one in enumerate(value):
                    _typed(one, typing.get_args(option)[0], f"{path}[{index}]")
                return
        elif option is Any or value.__class__ in (option, int if option is float else option):  # bool is no int here
            return
    names = " or ".join(getattr(one, "__name__", str(one)) for one in options)
    raise InputError(f"{path}: expected {names}, got {value!r}", field=path)


def _is_union(wanted: Any) -> bool:
    return typing.get_origin(wanted) is typing.Union or type(wanted).__name__ == "UnionType"


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def _checked(name: str, make: Factory, points: tuple[str, ...]) -> Factory:
    """A factory whose plugin is what its class promised: what is missing is told at the start, not at night."""

    def checked(args: Mapping[str, Any], path: str) -> Plugin:
        plugin = make(args, path)
        if plugin.name != name:
            raise InputError(f"plugin {name} calls itself {plugin.name!r}: expected the name of its entry point")
        for point in points:
            wanted = _PROTOCOLS.get(point)
            if wanted is not None and not isinstance(plugin, wanted) and not hasattr(plugin, "hold"):
                raise InputError(f"plugin {name} stands at {point} without everything that {wanted.__name__} asks for")
        try:
            hash(plugin)
        except TypeError:
            raise InputError(f"plugin {name} is not hashable: make it a frozen dataclass") from None
        return plugin

    return checked
