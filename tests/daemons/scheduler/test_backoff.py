"""A pod that fails again and again is held back as kube-scheduler holds it back: both on one API server, side by side.

An admission webhook refuses every binding of the world's pods, and writes down when it was asked: each time is an
attempt that came to its end.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.world import until
from tests.support.certificates import authority, inline, pem

pytestmark = pytest.mark.slow
HOOK = kinds.Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
#: Seconds for which a pod is held back after its first attempt and its second. That it goes on to 4, 8 and 10 is proved
#: on a virtual clock (tests/core/framework/test_queue.py); here, that the daemon's clock and errors come to that queue.
HELD_BACK = (1, 2)
#: kube-scheduler looks at those that are held back once a second, and cuts their times off to whole ones.
GRAIN = 1.0


class Refusing:
    """The webhook; ``times``: pod -> when its binding was asked for."""

    def __init__(self, world: Any, folder: Path) -> None:
        self.times: dict[str, list[float]] = {}
        key, self._certificate = authority()
        (folder / "hook.pem").write_bytes(self._certificate + pem(key))
        self._world, self._server = world, ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "hook.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        times = self.times

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                times.setdefault(asked["name"], []).append(time.monotonic())
                said = {"uid": asked["uid"], "allowed": False, "status": {"message": "not today"}}
                review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said}
                body = json.dumps(review).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: Any) -> None:
                pass

        return Handler

    def begin(self) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
        hook = {
            "name": f"{self._world.name}.berth.dev",
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._world.name}},
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._server.server_port}/",
                "caBundle": inline(self._certificate),
            },
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        self._world.api.create(HOOK, {"metadata": {"name": self._world.name}, "webhooks": [hook]})
        self._world.pod("probe", schedulingGates=[{"name": "berth.dev/test"}])
        until(self._in_force, "the webhook is not asked")

    def _in_force(self) -> bool:
        meta = {"name": "probe", "namespace": self._world.name}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "none"}}
        with pytest.raises(BerthError) as refused:
            self._world.api.create(kinds.POD, body, subresource="binding", dry_run=True)
        return "not today" in refused.value.message

    def end(self) -> None:
        self._world.delete(HOOK, self._world.name)
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def refusing(world: Any, tmp_path: Path) -> Iterator[Refusing]:
    hook = Refusing(world, tmp_path)
    try:
        hook.begin()
        yield hook
    finally:
        hook.end()


def test_a_pod_that_fails_again_and_again_is_held_back_as_kube_scheduler_does(world, start, refusing):
    world.node()
    scheduler = start()
    world.pod("ours")
    world.pod("theirs", schedulerName="default-scheduler")
    attempts = len(HELD_BACK) + 1
    until(
        lambda: min(len(refusing.times.get(name, ())) for name in ("ours", "theirs")) >= attempts,
        lambda: f"{refusing.times} {world.story_of('ours')} {world.story_of('theirs')}",
    )
    ours, theirs = (list(refusing.times[name]) for name in ("ours", "theirs"))
    for name, times in (("ours", ours), ("theirs", theirs)):
        gaps = [later - sooner for sooner, later in pairwise(times)]
        # A machine that is slow makes them longer, never shorter.
        assert all(gap >= least - GRAIN for gap, least in zip(gaps, HELD_BACK, strict=False)), (name, gaps)
    # In the time in which the faster one had its last attempt the other had as many, or was about to.
    window = min(ours[attempts - 1], theirs[attempts - 1])
    counts = [sum(one <= window for one in times) for times in (ours, theirs)]
    assert abs(counts[0] - counts[1]) <= 1, (ours, theirs)
    for name in ("ours", "theirs"):
        assert world.where(name) == ""
        assert any("not today" in note for reason, note in world.events(name) if reason == "FailedScheduling")
    assert scheduler.process.poll() is None
