"""A real Prometheus, for as long as a test lasts."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dev.hosts_help import eventually
from tests.support.tcp import free_port

PROGRAM = shutil.which("prometheus")


@contextmanager
def prometheus(folder: Path, configuration: str, *flags: str) -> Iterator[str]:
    """The URL of one with this configuration; its data lie in ``folder``."""
    if PROGRAM is None:
        pytest.skip("prometheus is not installed (make deps)")
    address = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(configuration)
    places = {"config.file": "prometheus.yml", "storage.tsdb.path": "data", "web.listen-address": address}
    command = [PROGRAM, *(f"--{key}={text}" for key, text in places.items()), *flags]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        eventually(lambda: _ready(f"http://{address}", process), 120, "Prometheus is ready")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def ask(url: str, path: str, **query: str) -> Any:
    """The data of an answer of its API."""
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.load(answer)["data"]


def _ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "it has ended"
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
