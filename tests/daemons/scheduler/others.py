"""Somebody else's extender: a real HTTP server that answers what a test tells it to, and keeps what it was asked."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

#: Takes the question, returns the answer; or (HTTP status, bytes) for one that no extender should give.
Answer = Callable[[dict[str, Any]], Any]


class Somebody:
    """Listens from when it is made until `stop`. ``answers``: by verb."""

    def __init__(self, answers: dict[str, Answer], context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self._server.server_port}"
        self.port = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.rsplit("/", 1)[1]
                outer.asked.append((verb, question))
                found = outer.answers[verb](question)
                status, body = found if isinstance(found, tuple) else (200, json.dumps(found).encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: Any) -> None:
                """The test's log has no room for it."""

        return Handler

    def questions(self, verb: str, pod: str) -> list[dict[str, Any]]:
        """What it was asked about a pod."""
        return [document for asked, document in self.asked if asked == verb and pod == named(document)]

    def configuration(self, **more: Any) -> dict[str, Any]:
        """How it stands in a KubeSchedulerConfiguration, with a verb for each answer that it has."""
        verbs = {f"{verb}Verb": verb for verb in self.answers}
        weight = {"weight": 5} if "prioritize" in self.answers else {}
        return {"urlPrefix": self.url, "nodeCacheCapable": True, "httpTimeout": "20s", **verbs, **weight, **more}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def named(document: dict[str, Any]) -> str:
    """The pod that a question is about."""
    return str(document["PodName"] if "PodName" in document else document["Pod"]["metadata"]["name"])


def lets_pass(*suffixes: str, failed: dict[str, str] | None = None, hopeless: dict[str, str] | None = None) -> Answer:
    """Nodes whose names end so; of the others what is said of them."""

    def said(names: list[str], words: dict[str, str]) -> dict[str, str]:
        return {name: text for name in names for suffix, text in words.items() if name.endswith(suffix)}

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        names, nodes = question.get("NodeNames"), question.get("Nodes")
        found: dict[str, Any] = {}
        if names is not None:
            found["NodeNames"] = [name for name in names if name.endswith(suffixes)]
        else:
            items = nodes["items"]
            names = [one["metadata"]["name"] for one in items]
            found["Nodes"] = {"items": [one for one in items if one["metadata"]["name"].endswith(suffixes)]}
        return {**found, "FailedNodes": said(names, failed or {}),
                "FailedAndUnresolvableNodes": said(names, hopeless or {})}  # fmt: skip

    return answer


def prefers(**scores: int) -> Answer:
    """Scores by the last letters of a node's name."""

    def answer(question: dict[str, Any]) -> list[dict[str, Any]]:
        names = question.get("NodeNames") or [one["metadata"]["name"] for one in question["Nodes"]["items"]]
        return [{"Host": name, "Score": scores.get(name.rsplit("-", 1)[1], 0)} for name in names]

    return answer
