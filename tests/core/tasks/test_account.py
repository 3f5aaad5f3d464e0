"""A table by charge is one, whatever is put into it and taken out again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.tasks.account import ByCharge, Charge

CHARGES = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3))


@given(st.lists(st.tuples(CHARGES, st.none() | st.integers())))
def test_it_has_what_a_table_of_pairs_has(steps: list[tuple[Charge, int | None]]) -> None:
    """None: it is taken out."""
    table: ByCharge[int] = ByCharge()
    pairs: dict[Charge, int] = {}
    for charge, value in steps:
        if value is None:
            assert table.pop(charge, None) == pairs.pop(charge, None)
        else:
            table[charge] = pairs[charge] = value
        assert (dict(table), len(table)) == (pairs, len(pairs))
        assert (charge in table, table.get(charge)) == (charge in pairs, pairs.get(charge))


def test_first_tries_come_first_each_in_its_turn() -> None:
    table: ByCharge[None] = ByCharge()
    table.update({("b", 2): None, ("b", 1): None, ("a", 1): None})
    assert list(table) == [("b", 1), ("a", 1), ("b", 2)]
    with pytest.raises(KeyError):
        del table["a", 2]
