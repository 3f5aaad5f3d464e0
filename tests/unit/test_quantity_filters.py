"""The filters for quantities and disks, as templates have them: a value, or one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.berth.stateful.plugins.filter.compare_quantities import compare_quantities
from ansible_collections.berth.stateful.plugins.filter.matching_disks import matching_disks
from ansible_collections.berth.stateful.plugins.filter.quantity import quantity
from ansible_collections.berth.stateful.plugins.filter.quantity_text import quantity_text
from tests.support.playbook import run_playbook


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("1Gi", "1", 1 << 30),
        ("1e3", "1", 1000),
        ("0.5", "1", 1),
        (7, "1", 7),
        ("250m", "milli", 250),
        (0.5, "milli", 500),
    ],
)
def test_quantity(text: Any, unit: str, number: int) -> None:
    assert quantity(text, unit) == number


def test_text_and_order() -> None:
    assert [quantity_text(1610612736), quantity_text("1536Mi"), quantity_text(0.5, "cpu")] == ["1.5Gi", "1.5Gi", "500m"]
    assert [compare_quantities(*pair) for pair in (("1000Mi", "1Gi"), ("1024Mi", "1Gi"), ("1k", "1"))] == [-1, 0, 1]


@pytest.mark.parametrize(
    "call", [lambda: quantity("10 GB"), lambda: quantity_text("x"), lambda: compare_quantities("1", "y")]
)
def test_no_quantity(call: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="is not a quantity"):
        call()


def test_wrong_options() -> None:
    with pytest.raises(AnsibleFilterError, match="unit is 'gib': expected 1 or milli"):
        quantity("1", "gib")
    with pytest.raises(AnsibleFilterError, match="expected bytes or cpu"):
        quantity_text("1", "gib")
    with pytest.raises(AnsibleFilterError, match="expected a list of LocalDisks"):
        matching_disks("all")
    with pytest.raises(AnsibleFilterError, match="sice"):
        matching_disks([], sice="1Gi")


@pytest.mark.slow
def test_in_a_play(tmp_path: Path) -> None:
    facts = {
        "less": "{{ '1000Mi' | berth.stateful.quantity < '1Gi' | berth.stateful.quantity }}",
        "same": "{{ '1024Mi' | berth.stateful.compare_quantities('1Gi') }}",
        "text": "{{ size | berth.stateful.quantity_text }}",
        "free": "{{ disks | berth.stateful.matching_disks(size='1Gi') | map(attribute='metadata.name') }}",
    }
    identity = {"serial": "s", "size": 1 << 30}
    disk = {
        "metadata": {"name": "d"},
        "spec": {"nodeName": "h", "identity": identity},
        "status": {"phase": "Available"},
    }
    task = {"ansible.builtin.debug": {"msg": facts}, "vars": {"size": "1536Mi", "disks": [disk]}}
    run = run_playbook([task], tmp_path / "play").ok()
    said = run.last["msg"]
    assert (str(said["less"]), str(said["same"]), said["text"], said["free"]) == ("True", "0", "1.5Gi", ["d"])
