"""The fields and rules of the custom resources as tables of Markdown, for docs/guides/api.md.

A part of `tools/generated_docs.py`. What a field may be stands in its schema; nothing is said here a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).resolve().parent.parent / "deploy" / "crds"
#: Of a schema, what limits a value, in the order in which it is told.
_LIMITS = ("enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")


def api_objects() -> str:
    """One section for each kind: its fields, then what its rules refuse."""
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CRDS.glob("*.yaml"))]
    return "\n".join(_kind(crd["spec"]) for crd in found)


def _kind(spec: Mapping[str, Any]) -> str:
    (version,) = spec["versions"]
    schema, names = version["schema"]["openAPIV3Schema"], spec["names"]
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", ()))
    lines = [
        f"## {names['kind']}",
        "",
        f"{schema['description']} Scope: {spec['scope']}. Short: {short or 'none'}.",
        "",
    ]
    lines += ["| field | type | |", "|---|---|---|"]
    for part in ("spec", "status"):
        for path, field, required in _fields(schema["properties"].get(part, {}), part):
            told = " ".join(filter(None, (field.get("description", ""), _limits(field))))
            lines.append(f"| `{path}`{'*' if required else ''} | {_type(field)} | {_cell(told)} |")
    rules = dict.fromkeys(_rules(schema, ""))
    lines += ["", *(f"- `{path}`: {message}" for path, message in rules)]
    return "\n".join(lines).rstrip() + "\n"


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """(path, schema, required) of every field below, depth first."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        yield below, field, name in required
        items = field.get("items")
        yield from _fields(items, f"{below}[]") if items else _fields(field, below)


def _type(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    values = field.get("additionalProperties")
    return f"map to {_type(values)}" if isinstance(values, Mapping) else str(field["type"])


def _limits(field: Mapping[str, Any]) -> str:
    told = [f"{key} `{_text(field[key])}`" for key in _LIMITS if key in field]
    told += [f"default `{_text(field['default'])}`"] if "default" in field else []
    return "; ".join(told)


def _rules(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield (path + rule.get("fieldPath", "")).lstrip(".") or ".", rule["message"]
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return '""' if value == "" else str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
