"""The kubelet's side of the agent's sockets that tests have: an agent that dies at a bad moment is nobody there."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubelet import register, registration


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: a socket's path has no more than 107 characters."""
    with tempfile.TemporaryDirectory(prefix="b-") as path:
        yield Path(path)


def test_an_agent_that_dies_before_the_first_word_has_not_been_told(folder: Path) -> None:
    path = registration(folder)
    assert not register(folder), "nobody listens"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def dies() -> None:
            for _life in range(20):
                listening.accept()[0].close()

        agent = threading.Thread(target=dies)
        agent.start()
        assert not any(register(folder) for _life in range(20))
        agent.join()
