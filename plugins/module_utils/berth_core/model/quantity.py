# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities ("500m", "1Gi", "1e3"), exactly.

Called wherever a request, a capacity or a size is read. The grammar is that of the API's resource.Quantity:
sign, digits, and one of the suffixes n u m "" k M G T P E (powers of 10), Ki Mi Gi Ti Pi Ei (powers of 2), or an
exponent. Like the API server, a value finer than one nano is rounded away from zero to a whole nano, and the
magnitude is capped at 2**63 - 1.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Union

from ..errors import QuantityError

Number = Union[int, Fraction]
"""A parsed quantity: an int where it is whole (nearly always, and much faster), else a Fraction. Both are exact."""

MAX_INT64 = (1 << 63) - 1
_NANO = 10**9
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
# At most three digits of exponent: nothing beyond the cap is meant by anybody, and 10**999999999 would not end.
_QUANTITY = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([KMGTPE]i)|[eE]([+-]?[0-9]{1,3})|([numkMGTPE]?))\Z")


def parse_quantity(quantity: str | int | float, path: str = "", key: str = "") -> Number:
    """Return the exact value; an int where it is whole, else a Fraction.

    Raises QuantityError that names the text and, where they are given, the field at `path` and its `key`.
    """
    try:
        return _parse(quantity)
    except QuantityError as exc:
        where = ".".join(part for part in (path, key) if part)
        if not where:
            raise
        raise QuantityError(f"{where}: {exc.message}", field=where, **exc.details) from None


def _parse(quantity: str | int | float) -> Number:
    if isinstance(quantity, str):
        return _parse_text(quantity)
    if isinstance(quantity, bool) or not isinstance(quantity, (int, float)):
        raise _not_a_quantity(quantity)
    if isinstance(quantity, int):
        return max(-MAX_INT64, min(MAX_INT64, quantity))
    # YAML gives 0.5 as a float; its decimal text is what the user wrote, its binary value is not.
    return _parse_text(repr(quantity))


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Number:
    match = _QUANTITY.match(text) if len(text) <= 64 else None
    if match is None:
        raise _not_a_quantity(text)
    sign, digits, binary, exponent, decimal = match.groups()
    value = Fraction(digits if not digits.endswith(".") else digits[:-1])
    if binary:
        value *= _BINARY[binary]
    elif exponent is not None:
        value *= Fraction(10) ** int(exponent)
    else:
        value *= _DECIMAL[decimal]
    nanos = -(-value * _NANO // 1)
    value = min(Fraction(nanos, _NANO), Fraction(MAX_INT64))
    if sign == "-":
        value = -value
    return int(value) if value.denominator == 1 else value


def _not_a_quantity(quantity: object) -> QuantityError:
    return QuantityError(
        f"{str(quantity)[:80]!r} is not a quantity: expected a number with an optional suffix "
        "(m, k, M, G, T, P, E or Ki, Mi, Gi, Ti, Pi, Ei), for example 500m or 10Gi",
        quantity=str(quantity)[:80],
    )


def _scaled(value: Number, factor: int) -> int:
    """Return so many times the value, rounded away from zero, as Quantity.ScaledValue does."""
    # In whole numbers: a Fraction that is multiplied is reduced first, which costs more than all of this.
    above, below = value.numerator * factor, value.denominator
    whole = -(-above // below) if above >= 0 else above // below
    return max(-MAX_INT64, min(MAX_INT64, whole))


def cpu_milli(quantity: str | int | float | Fraction) -> int:
    """Return CPU in thousandths of a core, rounded up (Quantity.MilliValue)."""
    value = quantity if isinstance(quantity, Fraction) else parse_quantity(quantity)
    return _scaled(value, 1000)


def bytes_(quantity: str | int | float | Fraction, path: str = "") -> int:
    """Return the whole value, rounded up (Quantity.Value).

    Bytes for memory and storage, a count for everything else. Raises QuantityError, which names the field at `path`.
    """
    value = quantity if isinstance(quantity, Fraction) else parse_quantity(quantity, path)
    return _scaled(value, 1)


def format_bytes(size: int) -> str:
    """Return a size for people: the largest binary unit with at most two decimals, "1Gi", "1.5Gi", "512Mi", "100"."""
    sign, size = ("-", -size) if size < 0 else ("", size)
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = _BINARY[suffix]
        if size >= unit:
            text = f"{size * 100 // unit / 100:.2f}".rstrip("0").rstrip(".")
            return f"{sign}{text}{suffix}"
    return f"{sign}{size}"


def exact_bytes(size: int) -> str:
    """Return the quantity of exactly that size, as `format_bytes` has it where that loses nothing: "256Mi", "1000"."""
    text = format_bytes(size)
    return text if parse_quantity(text) == size else str(size)


def format_cpu(milli: int) -> str:
    """Return CPU for people: "2" for whole cores, "500m" otherwise."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
