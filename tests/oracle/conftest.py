"""Builds the oracle (a program around kube-scheduler's own plugins) and keeps it, under the hash of its source."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from berth_dev import build, toolchain

SOURCE = Path(__file__).parent / "src"
NEEDED_GO = (1, 26, 0)


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The program. The first build compiles half of Kubernetes and takes minutes; it is done once."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCE.iterdir()))).hexdigest()[:16]
    cache = build.cache_folder()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = cache / f"oracle-{digest}"
    if not target.exists():
        go = toolchain.find_go(cache, NEEDED_GO, print)
        fresh = cache / f".oracle-{digest}.{os.getpid()}"
        # The flags of the development cluster's build: what it has compiled is not compiled again.
        argv = [str(go), "build", "-trimpath", "-o", str(fresh), "."]
        done = subprocess.run(
            argv, cwd=SOURCE, env=toolchain.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        os.rename(fresh, target)
    return target


def ask(program: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the oracle's answer to each case."""
    documents = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([str(program)], input=documents, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
