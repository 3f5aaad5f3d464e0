"""The kubelet's side of the agent's sockets that tests have: an agent that dies at a bad moment is nobody there."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from tests.support.kubelet import register, registration


def test_an_agent_that_dies_before_the_first_word_has_not_been_told(tmp_path: Path) -> None:
    path = registration(tmp_path)
    assert not register(tmp_path), "nobody listens"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def dies() -> None:
            for _life in range(20):
                listening.accept()[0].close()

        agent = threading.Thread(target=dies)
        agent.start()
        assert not any(register(tmp_path) for _life in range(20))
        agent.join()
