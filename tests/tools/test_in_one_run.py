"""The variables of the role berth: what its page says of them, its documentation and its defaults are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
import yaml

from tests.support.commands import IN_ONE_RUN
from tests.support.documented import role_options
from tests.support.pages import ROOT

OPTIONS = role_options("berth")
DEFAULTS = yaml.safe_load((ROOT / "roles/berth/defaults/main.yml").read_text(encoding="utf-8"))
#: What is no value: the name of another variable, or words.
ELSEWHERE = {
    "berth_scheduler_image": "`berth_image`",
    "berth_kubeconfig": "as `K8S_AUTH_KUBECONFIG` and so on say",
    "berth_context": "as `K8S_AUTH_KUBECONFIG` and so on say",
}


def rows() -> Iterator[tuple[str, str]]:
    """Each variable of the page's table, and what stands there as its default."""
    below = IN_ONE_RUN.read_text(encoding="utf-8").partition("\n| variable | default | |\n")[2]
    for line in below.partition("\n\n")[0].splitlines()[1:]:
        variables, default = (cell.strip() for cell in line.strip("|").split("|", 2)[:2])
        names = re.findall(r"`(\w+)`", variables)
        # Several variables of one row have several defaults, or one that holds for all.
        parts = default.split(", ") if len(names) > 1 and default.count(", ") == len(names) - 1 else [default]
        yield from zip_longest(names, parts, fillvalue=parts[0])


TABLE = list(rows())


def test_the_page_has_each_variable_once_and_no_other() -> None:
    assert sorted(name for name, _said in TABLE) == sorted(OPTIONS)


@pytest.mark.parametrize(("name", "said"), TABLE)
def test_the_page_says_the_default(name: str, said: str) -> None:
    assert said == ELSEWHERE.get(name, shown(OPTIONS[name].get("default")))


def shown(value: Any) -> str:
    """As the page writes a value; nothing where there is none, or an empty text."""
    if value in (None, ""):
        return ""
    return f"`{yaml.safe_dump(value, default_flow_style=True).splitlines()[0]}`"


def test_the_role_has_the_defaults_that_it_documents() -> None:
    documented = {name: option["default"] for name, option in OPTIONS.items() if "default" in option}
    assert {**documented, "berth_scheduler_image": "{{ berth_image }}"} == DEFAULTS
