"""Quantities: the API's grammar and its rounding."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.errors import QuantityError
from berth_core.model.quantity import (
    MAX_INT64,
    bytes_,
    cpu_milli,
    exact_bytes,
    format_bytes,
    format_cpu,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("1", 1), ("+1", 1), ("-1", -1), ("1.", 1), (".5", Fraction(1, 2)), ("1.5", Fraction(3, 2)),
        ("500m", Fraction(1, 2)), ("1500m", Fraction(3, 2)), ("1000m", 1), ("1k", 1000), ("1Ki", 1024), ("1.5Ki", 1536),
        ("1M", 10**6), ("1Mi", 1 << 20), ("1Gi", 1 << 30), ("2Ti", 2 << 40), ("1Pi", 1 << 50), ("1Ei", 1 << 60),
        ("1E", 10**18),
        ("1e3", 1000), ("1E3", 1000), ("1e-3", Fraction(1, 1000)), ("12e+2", 1200), ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)), ("0.1n", Fraction(1, 10**9)), ("-0.1n", Fraction(-1, 10**9)),
        ("99999999999999999999", MAX_INT64), ("8Ei", MAX_INT64), ("-8Ei", -MAX_INT64), (3, 3), (0.5, Fraction(1, 2)),
    ],
)  # fmt: skip
def test_values(text, value):
    assert parse_quantity(text) == value
    assert isinstance(parse_quantity(text), int) == (Fraction(value).denominator == 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1 Gi",
        "Gi",
        "1gi",
        "1K",
        "1Mb",
        "--1",
        "1e",
        "1e3Ki",
        "0x1",
        "1,5",
        "nan",
        "\uff11",
        "1\n",
        True,
        None,
        [1],
    ],
)
def test_what_is_no_quantity_is_refused_by_name(text):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(text)[:80] in str(caught.value.details["quantity"]) or text is None


def test_a_huge_text_is_refused_quickly_and_not_repeated_in_full():
    with pytest.raises(QuantityError) as caught:
        parse_quantity("1" * 100_000)
    assert len(str(caught.value)) < 400
    with pytest.raises(QuantityError):
        parse_quantity("1e99999999")


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [("1m", 1, 1), ("0.1m", 1, 1), ("1500m", 1500, 2), ("1.1", 1100, 2), ("-1.5", -1500, -2), ("1n", 1, 1)],
)
def test_rounding_is_away_from_zero(text, milli, whole):
    assert (cpu_milli(text), bytes_(text)) == (milli, whole)


@given(st.integers(0, MAX_INT64 >> 10), st.sampled_from(["", "Ki", "m"]))
def test_whole_values_are_exact(number, suffix):
    factor = {"": Fraction(1), "Ki": Fraction(1024), "m": Fraction(1, 1000)}[suffix]
    assert parse_quantity(f"{number}{suffix}") == number * factor


@given(st.decimals(min_value=0, max_value=10**6, places=4))
def test_values_up_never_down(number):
    exact = Fraction(number)
    assert 0 <= cpu_milli(f"{number:f}") - exact * 1000 < 1
    assert 0 <= bytes_(f"{number:f}") - exact < 1


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (100, "100"),
        (1024, "1Ki"),
        (1536, "1.5Ki"),
        (1 << 30, "1Gi"),
        ((1 << 30) - 1, "1023.99Mi"),
        (-2048, "-2Ki"),
    ],
)
def test_sizes_for_people(size, text):
    assert format_bytes(size) == text


def test_cpu_for_people():
    assert (format_cpu(500), format_cpu(2000)) == ("500m", "2")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (256 << 20, "256Mi"),
        (3 << 29, "1.5Gi"),
        (1000, "1000"),
        (480103981056, "480103981056"),
        (1 << 40, "1Ti"),
        (0, "0"),
    ],
)
def test_an_exact_size_is_as_short_as_it_can_be(size, text):
    assert exact_bytes(size) == text
    assert bytes_(text) == size


@given(st.integers(0, MAX_INT64))
def test_an_exact_size_loses_nothing(size):
    assert bytes_(exact_bytes(size)) == size
