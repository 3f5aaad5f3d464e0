"""What a new user does: install the tarball into an empty path, run the quickstart from it, twice, and remove it."""

from __future__ import annotations

import re
from functools import partial

import pytest

from tests.support.tarball import BIN, command, install

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def user(tmp_path):
    """Runs a program as a user who has the collection alone."""
    run = partial(command, tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
    install(tmp_path)
    yield run
    run(BIN / "ansible-playbook", "berth.stateful.quickstart_down")


def test_the_quickstart_from_the_tarball(user):
    first = user(BIN / "ansible-playbook", "berth.stateful.quickstart")
    for ordinal in range(3):
        assert re.search(rf"{ordinal} +journal-{ordinal} +h\d +h\d-\w+ +\d+Mi +Running", first), first
    again = user(BIN / "ansible-playbook", "berth.stateful.quickstart")
    assert re.findall(r"changed=(\d+)", again) == ["0"] * 4, again
