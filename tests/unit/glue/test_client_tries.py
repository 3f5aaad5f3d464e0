"""The modules' client where an answer is lost, or says that another try is in vain; a server plays a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import (
    ConflictError,
    InvalidError,
    UnavailableError,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import BERTH, SERVICE_ACCOUNT

BODY = {"metadata": {"name": "db-0", "namespace": "n"}, "spec": {"app": "db", "ordinal": 0, "nodeName": "h1"}}
MADE = {**BODY, "metadata": {**BODY["metadata"], "uid": "u"}}
EXISTS = (409, {"reason": "AlreadyExists", "message": "it is there"})
#: The request is taken, and the connection closed without an answer.
SILENCE = (0, {})


class Script:
    """Answers in this order; ``asked``: methods, as they came."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        self.answers, self.asked = list(answers), []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def play(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                script.asked.append(self.command)
                status, body = script.answers.pop(0)
                if not status:
                    self.close_connection = True
                    return
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.play)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        host = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.client = ApiClient(load_auth({"host": host, "api_key": "x"}, {}), pytest.fail)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def script() -> Iterator[Any]:
    made: list[Script] = []

    def play(*answers: tuple[int, dict[str, Any]]) -> Script:
        made.append(Script(*answers))
        return made[-1]

    yield play
    for one in made:
        one.close()


@pytest.mark.promise
def test_a_create_whose_answer_was_lost_is_sent_again_and_finds_its_own_object(script: Any) -> None:
    played = script(SILENCE, EXISTS, (200, MADE))
    assert played.client.create(BERTH, BODY)["metadata"]["uid"] == "u"
    assert (played.asked, played.client.written) == (["POST", "POST", "GET"], 1)


@pytest.mark.promise
@pytest.mark.parametrize(
    "answers",
    [
        (SILENCE, EXISTS, (200, {**MADE, "spec": {**BODY["spec"], "nodeName": "h2"}})),  # somebody else's
        (SILENCE, EXISTS, (404, {})),  # gone again
        (EXISTS,),  # no answer was lost
    ],
)
def test_an_object_that_the_first_try_has_not_made_is_a_conflict(script: Any, answers: Any) -> None:
    played = script(*answers)
    with pytest.raises(ConflictError):
        played.client.create(BERTH, BODY)
    assert (played.answers, played.client.written) == ([], 0)


def test_what_another_try_does_not_mend_is_told_at_once(script: Any) -> None:
    played = script((500, {"message": ".status.x: field not declared in schema"}))
    began = time.monotonic()
    with pytest.raises(InvalidError, match="field not declared"):
        played.client.apply(BERTH, BODY, subresource="status")
    assert time.monotonic() - began < 5
    assert played.asked == ["PATCH"]


def test_a_post_to_a_subresource_is_not_sent_twice(script: Any) -> None:
    played = script(SILENCE)
    with pytest.raises(UnavailableError):
        played.client.create(SERVICE_ACCOUNT, BODY, subresource="token")
    assert played.asked == ["POST"]


def test_later_is_waited_for(script: Any) -> None:
    played = script((503, {"message": "starting"}), (429, {"message": "busy"}), (200, MADE))
    assert played.client.get(BERTH, "db-0", "n") == MADE
    assert played.asked == ["GET"] * 3
