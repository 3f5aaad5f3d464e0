"""Label and node selectors: what matches, and what is refused."""

from __future__ import annotations

import pytest

from berth_core.errors import SelectorError
from berth_core.model.labels import LabelSelector, NodeSelector, parse_int64, parse_preferred


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("operator", "values", "matching", "failing"),
    [
        ("In", ["a", "b"], [{"k": "a"}, {"k": "b"}], [{}, {"k": "c"}, {"other": "a"}]),
        ("NotIn", ["a"], [{}, {"k": "b"}], [{"k": "a"}]),
        ("Exists", [], [{"k": ""}, {"k": "x"}], [{}]),
        ("DoesNotExist", [], [{}], [{"k": ""}]),
    ],
)
def test_label_operators(operator, values, matching, failing):
    selector = LabelSelector.parse({"matchExpressions": [expression("k", operator, *values)]})
    assert all(selector.matches(labels) for labels in matching)
    assert not any(selector.matches(labels) for labels in failing)


def test_match_labels_and_expressions_must_all_hold():
    selector = LabelSelector.parse({"matchLabels": {"a": "1"}, "matchExpressions": [expression("b", "Exists")]})
    assert selector.matches({"a": "1", "b": ""})
    assert not selector.matches({"a": "1"})
    assert not selector.matches({"b": ""})
    assert str(selector) == "a=1,b"


def test_no_selector_is_not_the_empty_selector():
    assert LabelSelector.parse(None) is None
    assert LabelSelector.parse({}).matches({})


def test_equal_selectors_are_equal_however_they_are_written():
    written = LabelSelector.parse(
        {"matchExpressions": [expression("k", "In", "b", "a", "a"), expression("j", "Exists")]}
    )
    other = LabelSelector.parse({"matchExpressions": [expression("j", "Exists"), expression("k", "In", "a", "b")]})
    assert written == other
    assert hash(written) == hash(other)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"matchExpressions": [expression("k", "Within", "a")]}, "Within"),
        ({"matchExpressions": [expression("k", "In")]}, "at least one value"),
        ({"matchExpressions": [expression("k", "Exists", "a")]}, "takes no values"),
        ({"matchExpressions": [expression("k", "Gt", "1")]}, "Gt"),
        ({"matchExpressions": [expression("not a key", "Exists")]}, "not a key"),
        ({"matchLabels": {"k": "not a value"}}, "not a value"),
        ({"matchLabels": {"k": "v" * 64}}, "vvv"),
        ({"matchlabels": {"k": "v"}}, "matchlabels"),
        ("k=v", "k=v"),
    ],
)
def test_bad_label_selectors_are_refused_in_words(source, words):
    with pytest.raises(SelectorError, match=words):
        LabelSelector.parse(source, "template.selector")


@pytest.mark.parametrize(
    ("operator", "bound", "value", "matches"),
    [
        ("Gt", "5", "6", True), ("Gt", "5", "5", False), ("Gt", "5", "x", False), ("Gt", "5", None, False),
        ("Lt", "5", "4", True), ("Lt", "5", "5", False), ("Gt", "5", "06", True),
        ("Lt", "5", "9223372036854775808", False),
    ],
)  # fmt: skip
def test_node_numbers(operator, bound, value, matches):
    selector = NodeSelector.parse({"nodeSelectorTerms": [{"matchExpressions": [expression("k", operator, bound)]}]})
    assert selector.matches({} if value is None else {"k": value}, "n") is matches


def test_terms_are_alternatives_and_their_parts_are_not():
    terms = [
        {"matchExpressions": [expression("a", "Exists"), expression("b", "Exists")]},
        {"matchFields": [expression("metadata.name", "In", "n2")]},
    ]
    selector = NodeSelector.parse({"nodeSelectorTerms": terms})
    assert selector.matches({"a": "", "b": ""}, "n1")
    assert not selector.matches({"a": ""}, "n1")
    assert selector.matches({}, "n2")


@pytest.mark.parametrize(
    "term",
    [
        {},
        {"matchExpressions": [expression("k", "Gt", "1", "2")]},
        {"matchExpressions": [expression("k", "Like", "x")]},
        {"matchFields": [expression("metadata.name", "In", "n", "m")]},
        {"matchFields": [expression("metadata.name", "Exists")]},
    ],
)
def test_an_invalid_term_matches_nothing_and_spoils_no_other(term):
    selector = NodeSelector.parse({"nodeSelectorTerms": [term]})
    assert not selector.matches({"k": "x"}, "n")
    both = NodeSelector.parse({"nodeSelectorTerms": [term, {"matchExpressions": [expression("k", "Exists")]}]})
    assert both.matches({"k": "x"}, "n")


def test_no_terms_match_nothing():
    assert not NodeSelector.parse({"nodeSelectorTerms": []}).matches({"k": "x"}, "n")


def test_preferred_terms():
    term = {"matchExpressions": [expression("k", "Exists")]}
    parsed = parse_preferred(
        [{"weight": 5, "preference": term}, {"weight": 0, "preference": term}, {"weight": 9, "preference": {}}], "x"
    )
    assert [one.weight for one in parsed] == [5]
    with pytest.raises(SelectorError, match="weight"):
        parse_preferred([{"weight": 101, "preference": term}], "x")
    with pytest.raises(SelectorError, match="Like"):
        parse_preferred([{"weight": 1, "preference": {"matchExpressions": [expression("k", "Like", "x")]}}], "x")


def test_numbers_are_those_of_64_bits():
    assert parse_int64("-9223372036854775808") == -(1 << 63)
    assert parse_int64("9223372036854775808") is None
    assert parse_int64("1_0") is None
    assert parse_int64("") is None
