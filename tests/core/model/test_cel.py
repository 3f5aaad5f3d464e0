"""CEL selectors of devices: what they mean, and what is refused by name."""

from __future__ import annotations

import pytest

from berth_core.errors import SelectorError
from berth_core.model.cel import DEEPEST, read
from berth_core.model.cel_values import Domains, Quantity
from berth_core.model.semver import Version

D = "gpu.example.com"
ATTRIBUTES = {D: {"model": "A100", "numa": 1, "shiny": True, "driver": Version.parse("1.2.3")}, "other": {"x": "y"}}
DEVICE = {
    "driver": D,
    "allowMultipleAllocations": False,
    "attributes": Domains(ATTRIBUTES),
    "capacity": Domains({D: {"memory": Quantity(40 << 30)}}),
}


def matches(text: str) -> bool:
    text = text.replace("A[]", f'device.attributes["{D}"]').replace("C[]", f'device.capacity["{D}"]')
    return read(text.replace("A[", f'device.attributes["{D}"][')).matches(DEVICE)


@pytest.mark.parametrize(
    "text",
    [
        f'device.driver == "{D}"',
        "A[].model == 'A100' && A[].numa in [0, 1]",
        'A[]["model"] != "B" // a comment',
        "A[].numa == 0x1 && A[].numa > -1 && A[].numa <= 1 && !(A[].numa < 1)",
        'A[].model < "B" && A[].model >= "A"',
        "A[].shiny ? true : A[].nothing",
        'has(A[].model) && !has(A[].nothing) && !has(device.attributes["nobody"].x)',
        '"numa" in A[] && "other" in device.attributes && !("nobody" in device.attributes)',
        "A[].nothing == 1 || true",
        "true || A[].nothing == 1",
        "!(A[].nothing == 1 && false)",
        "A[].model == 1 ? false : true",
        'A[].driver.isGreaterThan(semver("1.2.3-rc.1")) && A[].driver == semver("1.2.3+build")',
        'A[].driver.compareTo(semver("2.0.0")) < 0 && isSemver("1.0.0") && !isSemver("1.0")',
        'C[].memory.isLessThan(quantity("41Gi")) && C[].memory == quantity("40960Mi") && !isQuantity("x")',
        'A[].?nothing.orValue("z") == "z" && A[].?model.hasValue() && !A[].?nothing.hasValue()',
        f'cel.bind(d, device.attributes["{D}"], d.shiny && d.numa == 1)',
        'A[].model.startsWith("A") && A[].model.endsWith("00") && A[].model.contains("10")',
        'A[].model.lowerAscii() == "a100" && "é".upperAscii() == "é"',
        'A[].model.matches("^A1.+0$") && !A[].model.matches("^100$") && A[].model.matches("B|A")',
        r'"a\"b" == r"a\"b" ? false : "\n" != r"\n"',
        "!device.allowMultipleAllocations",
    ],
)
def test_what_is_understood(text):
    assert matches(text) is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A[].nothing == 1", "no such key: nothing"),
        ("A[].model > 1", "no such overload"),
        ("A[].driver == '1.2.3'", "no such overload"),
        ("A[].model", "the result is a string, not a bool"),
        ("A[].nothing || false", "no such key"),
        ("A[].model && true", "no such overload"),
        ("!A[].numa", "no such overload"),
        ('semver("1.0") == semver("1.0")', "is not a semantic version"),
        ("device.name == 'x'", "no such key: name"),
    ],
)
def test_errors_at_run_time(text, words):
    with pytest.raises(SelectorError, match="CEL runtime error: ") as found:
        matches(text)
    assert words in found.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 + 1 == 2", "'+' at this place is not understood"),
        ("[1, 2].exists(one, one == 1)", "the name 'one' is not understood"),
        ("size(A[].model) == 4", "the function size() with 1 arguments"),
        ('A[].model.split("A").size() == 1', "the method split() with 1 arguments"),
        ("A[].numa == 1u", "the number '1u'"),
        ("A[].numa == 1.5", "the number '1.5'"),
        ("A[].numa == 99999999999999999999", "beyond 64 bits"),
        ("null == null", "the name 'null'"),
        ('"""x""" == "x"', "three quotes"),
        (r'"\x41" == "A"', "the escape"),
        ('A[].model.matches("(a*)*")', "the pattern '(a*)*' is not understood"),
        ('A[].model.matches("a*b*c*d*")', "more than 3 times"),
        (r'A[].model.matches("\\d")', "is not understood"),
        ("A[].model.matches(A[].model)", "the pattern None"),
        ('has(A["x"])', "has() of anything but a field"),
        ("{'a': 1} == {}", "'{' at this place"),
        ("true true", "'true' at this place"),
        ("true &&", "an end at this place"),
        ("(" * DEEPEST + "true" + ")" * DEEPEST, "nested more than"),
        ("!" * 1000 + "true", "nested more than"),
        ("x" * 20_000, "more than 10240 bytes"),
        ("true @", "'@' is not understood"),
    ],
)
def test_what_is_refused_by_name(text, words):
    with pytest.raises(SelectorError, match="CEL compile error: ") as found:
        matches(text)
    assert words in found.value.message


def test_versions_in_order():
    texts = ["1.0.0-1", "1.0.0-2", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.1", "1.10.0", "2.0.0"]
    assert sorted(texts, key=lambda one: Version.parse(one).order) == texts
    for text in ("1", "1.0", "01.0.0", "1.0.0-01", "v1.0.0", "1.0.0-", "1.0.0+"):
        with pytest.raises(SelectorError, match="is not a semantic version"):
            Version.parse(text)
