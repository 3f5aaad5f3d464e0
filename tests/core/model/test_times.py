"""Ages as people read them."""

from __future__ import annotations

import pytest

from berth_core.model.times import spoken


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (-3.0, "0s"),
        (119.9, "119s"),
        (120.0, "2m"),
        (7199.0, "119m"),
        (7200.0, "2h"),
        (172799.0, "47h"),
        (172800.0, "2d"),
    ],
)
def test_an_age_has_one_unit(seconds: float | None, words: str) -> None:
    assert spoken(seconds) == words
