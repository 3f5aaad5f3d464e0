# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors and node selectors: parsed once, matched against dicts or against columns of a table.

Called by the model (pods, disk claims, volumes) and by plugins. The semantics are those of the API: a missing label
satisfies NotIn and DoesNotExist, and fails In, Gt and Lt; Gt and Lt compare whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, SelectorError
from .fields import Object, mapping, objects, string, string_map, strings
from .names import is_subdomain, shown

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
EMPTY_TERM = "empty term"
_LABEL_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
_NODE_OPERATORS = (*_LABEL_OPERATORS, GT, LT)
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")


def is_label_key(key: str) -> bool:
    """Tell whether the text is a qualified name.

    An optional DNS prefix with a slash, and a name of at most 63 characters.
    """
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.match(name)) and (not slash or is_subdomain(prefix))


def is_label_value(value: str) -> bool:
    """Tell whether the text may be a label's value: empty, or at most 63 characters of the name's alphabet."""
    return value == "" or bool(_NAME.match(value))


def check_labels(labels: Mapping[str, str], option: str) -> None:
    """Raise InputError that names the option unless keys and values are those of labels."""
    for key, value in labels.items():
        if not is_label_key(key):
            raise InputError(
                f"{option}: {shown(key)} is not a label's key: expected a name as rack or example.com/rack"
            )
        if not is_label_value(value):
            raise InputError(
                f"{option}: {key} is {shown(value)}: expected a label's value: at most 63 letters, digits, '-', '_', "
                "'.', a letter or digit at both ends"
            )


def parse_int64(text: str) -> int | None:
    """Return the number that Go's ParseInt(text, 10, 64) returns, None where it fails."""
    if not _INTEGER.match(text) or not text.isascii():
        return None
    number = int(text)
    return number if -(1 << 63) <= number < (1 << 63) else None


@dataclass(frozen=True)
class Requirement:
    """One condition on one label. `values` is sorted for In and NotIn, so that equal conditions are equal."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """Judge a label's value; None: the label is missing."""
        if self.operator == EXISTS:
            return value is not None
        if self.operator == DOES_NOT_EXIST:
            return value is None
        if self.operator == NOT_IN:
            return value is None or value not in self.values
        if value is None:
            return False
        if self.operator == IN:
            return value in self.values
        number, bound = parse_int64(value), parse_int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == GT else number < bound

    def __str__(self) -> str:
        """Return the condition as kubectl writes it."""
        listed = ",".join(self.values)
        forms = {
            IN: f"{self.key} in ({listed})",
            NOT_IN: f"{self.key} notin ({listed})",
            EXISTS: self.key,
            DOES_NOT_EXIST: f"!{self.key}",
            GT: f"{self.key}>{listed}",
            LT: f"{self.key}<{listed}",
        }
        return f"{self.key}={listed}" if self.operator == IN and len(self.values) == 1 else forms[self.operator]


def parse_requirement(source: Object, path: str, operators: tuple[str, ...] = _LABEL_OPERATORS) -> Requirement:
    """Parse one entry of matchExpressions. Raises SelectorError."""
    key = string(source, "key", f"{path}.key")
    operator = string(source, "operator", f"{path}.operator")
    values = strings(source, "values", f"{path}.values")
    problem = _requirement_problem(key, operator, values, operators)
    if problem:
        raise SelectorError(f"{path}: {problem}", field=path)
    return Requirement(key, operator, tuple(sorted(set(values))))


def _requirement_problem(key: str, operator: str, values: tuple[str, ...], operators: tuple[str, ...]) -> str:
    if operator not in operators:
        return f"operator {operator!r} is not one of {', '.join(operators)}"
    if not is_label_key(key):
        return f"key {key!r} is not a label name"
    if operator in (IN, NOT_IN) and not values:
        return f"operator {operator} needs at least one value"
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        return f"operator {operator} takes no values"
    if operator in (GT, LT) and (len(values) != 1 or parse_int64(values[0]) is None):
        return f"operator {operator} needs exactly one whole number"
    bad = [value for value in values if not is_label_value(value)]
    return f"value {bad[0]!r} is not a label value" if bad else ""


@dataclass(frozen=True)
class LabelSelector:
    """A label selector: all requirements must hold. No requirement at all selects everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, source: Object | None, path: str = "selector") -> LabelSelector | None:
        """Parse {matchLabels, matchExpressions}.

        None stays None, and means: nothing is selected. Raises SelectorError.
        """
        if source is None:
            return None
        if not isinstance(source, Mapping):
            raise SelectorError(
                f"{path} must be an object with matchLabels or matchExpressions, got {source!r}", field=path
            )
        unknown = sorted(set(source) - {"matchLabels", "matchExpressions"})
        if unknown:
            raise SelectorError(
                f"{path}: unknown field {unknown[0]!r}, expected matchLabels or matchExpressions", field=path
            )
        labels = string_map(source, "matchLabels", f"{path}.matchLabels")
        parsed = [
            parse_requirement({"key": key, "operator": IN, "values": [value]}, f"{path}.matchLabels.{key}")
            for key, value in labels.items()
        ]
        parsed += [
            parse_requirement(entry, f"{path}.matchExpressions[{index}]")
            for index, entry in enumerate(objects(source, "matchExpressions", f"{path}.matchExpressions"))
        ]
        return cls(tuple(sorted(set(parsed), key=lambda one: (one.key, one.operator, one.values))))

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """Return the selector that asks for exactly these values."""
        return cls(tuple(Requirement(key, IN, (labels[key],)) for key in sorted(labels)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether all requirements hold for these labels."""
        return all(one.accepts(labels.get(one.key)) for one in self.requirements)

    def __str__(self) -> str:
        """Return the selector as kubectl writes it."""
        return ",".join(str(one) for one in self.requirements)


@dataclass(frozen=True)
class NodeSelectorTerm:
    """One term of a node selector: all expressions (on labels) and all fields (on metadata.name) must hold.

    An invalid term matches nothing and is kept, as the scheduler keeps it: `problem` says what is wrong with it.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    problem: str = ""

    def matches(self, labels: Mapping[str, str], name: str | None) -> bool:
        """Judge one node. `name` None: the fields are not looked at (as for a volume's node affinity)."""
        if self.problem or not all(one.accepts(labels.get(one.key)) for one in self.expressions):
            return False
        return name is None or all(one.accepts(_field(name, one.key)) for one in self.fields)


def _field(name: str, key: str) -> str:
    # A field that the scheduler does not fill reads as the empty text.
    return name if key == "metadata.name" else ""


@dataclass(frozen=True)
class NodeSelector:
    """A node selector: one of the terms must match. No terms match nothing."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    @classmethod
    def parse(cls, source: Object, path: str = "nodeSelector") -> NodeSelector:
        """Parse {nodeSelectorTerms}. Empty and invalid terms, which match nothing, are kept with their problem."""
        listed = objects(source, "nodeSelectorTerms", f"{path}.nodeSelectorTerms")
        return cls(tuple(parse_term(term, f"{path}.nodeSelectorTerms[{index}]") for index, term in enumerate(listed)))

    def matches(self, labels: Mapping[str, str], name: str | None) -> bool:
        """Tell whether one term matches the node."""
        return any(term.matches(labels, name) for term in self.terms)


@dataclass(frozen=True)
class PreferredTerm:
    """A preferred scheduling term: `weight` (1 to 100) is added to the score of each node that the term matches."""

    weight: int
    term: NodeSelectorTerm


def parse_term(source: Object, path: str) -> NodeSelectorTerm:
    """Parse one term."""
    expressions = objects(source, "matchExpressions", f"{path}.matchExpressions")
    fields = objects(source, "matchFields", f"{path}.matchFields")
    if not expressions and not fields:
        return NodeSelectorTerm(problem=EMPTY_TERM)
    try:
        return NodeSelectorTerm(
            tuple(
                parse_requirement(entry, f"{path}.matchExpressions[{i}]", _NODE_OPERATORS)
                for i, entry in enumerate(expressions)
            ),
            tuple(_parse_field(entry, f"{path}.matchFields[{i}]") for i, entry in enumerate(fields)),
        )
    except SelectorError as error:
        return NodeSelectorTerm(problem=error.message)


def _parse_field(source: Object, path: str) -> Requirement:
    operator = string(source, "operator", f"{path}.operator")
    values = strings(source, "values", f"{path}.values")
    if operator not in (IN, NOT_IN):
        raise SelectorError(f"{path}: operator {operator!r} is not one of In, NotIn", field=path)
    if len(values) != 1:
        raise SelectorError(f"{path}: exactly one value is needed, got {len(values)}", field=path)
    return Requirement(string(source, "key", f"{path}.key"), operator, values)


def parse_preferred(listed: Any, path: str) -> tuple[PreferredTerm, ...]:
    """Parse preferredDuringSchedulingIgnoredDuringExecution.

    Raises SelectorError; terms of weight 0 and empty terms are dropped.
    """
    parsed = []
    for index, source in enumerate(objects({"terms": listed}, "terms", path)):
        weight = source.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= 100:
            raise SelectorError(
                f"{path}[{index}].weight must be a whole number from 1 to 100, got {weight!r}", field=path
            )
        term = parse_term(mapping(source, "preference", f"{path}[{index}].preference"), f"{path}[{index}].preference")
        if term.problem == EMPTY_TERM or weight == 0:
            continue
        if term.problem:
            raise SelectorError(term.problem, field=path)
        parsed.append(PreferredTerm(weight, term))
    return tuple(parsed)
