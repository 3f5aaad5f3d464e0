"""The list of commands that are not run as they are written holds nothing that no page says."""

from __future__ import annotations

from tests.support.commands import INSTEAD, RUN, blocks


def test_what_is_not_run_as_it_stands_is_on_a_page_and_has_a_reason() -> None:
    said = {command for page in RUN for block in blocks(page) for command in block}
    assert INSTEAD.keys() <= said, "no page says it"
    assert all(len(other.reason) > 10 for other in INSTEAD.values())
    assert len(said - INSTEAD.keys()) > 5, "most are run as they are"
