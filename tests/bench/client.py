"""What a daemon pays for talking to the API server: berth_kube beside aiohttp, each in a process of its own.

The same work on the same API server: many small reads, then a watch that stays open. Memory is what the process then
holds, CPU what one read has cost it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import version

from .figures import Figure, median
from .ground import ROOT, Ground

ROUNDS, READS = 3, 1000

_OURS = """
from berth_kube import config
from berth_kube.client import KubeClient
from berth_core.model.resources import NAMESPACE

async def work(kubeconfig, reads):
    async with KubeClient(config.load(kubeconfig)) as client:
        async with client.watch(NAMESPACE, (await client.list(NAMESPACE)).version, seconds=60):
            for _ in range(reads):
                await client.get(NAMESPACE, "default")
            return memory()
"""

_PEER = """
import aiohttp, base64, json, ssl, tempfile, yaml

async def work(kubeconfig, reads):
    content = yaml.safe_load(open(kubeconfig))
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as cert:
        cert.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        cert.flush()
        context.load_cert_chain(cert.name)
    root = cluster["server"] + "/api/v1/namespaces"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(root + "?watch=1&timeoutSeconds=60"):
            for _ in range(reads):
                async with session.get(root + "/default") as answer:
                    await answer.json()
            return memory()
"""

_FRAME = """
import asyncio, json, resource, sys

def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))

{work}

held = asyncio.run(work(sys.argv[1], 10))
begun = resource.getrusage(resource.RUSAGE_SELF)
held = asyncio.run(work(sys.argv[1], {reads}))
done = resource.getrusage(resource.RUSAGE_SELF)
cpu = done.ru_utime + done.ru_stime - begun.ru_utime - begun.ru_stime
print(json.dumps([held, cpu * 1000 / {reads}]))
"""


def memory(ground: Ground) -> list[Figure]:
    """client/memory: what a process holds that watches and reads."""
    return [_figure("client/memory", _measured(ground), 0, "MB")]


def read(ground: Ground) -> list[Figure]:
    """client/read: CPU of one small read."""
    return [_figure("client/read", _measured(ground), 1, "ms CPU")]


def _figure(name: str, sides: dict[str, list[list[float]]], index: int, unit: str) -> Figure:
    ours, theirs = (round(median(result[index] for result in results), 2) for results in sides.values())
    notes = (f"one watch open, {READS} reads one after the other",)
    return Figure(name, ours, theirs, unit, f"aiohttp {version('aiohttp')}", notes)


@lru_cache(maxsize=1)
def _measured(ground: Ground) -> dict[str, list[list[float]]]:
    """Rounds of berth_kube and of the peer, taking turns."""
    sides: dict[str, list[list[float]]] = {_OURS: [], _PEER: []}
    for _round in range(ROUNDS):
        for work, results in sides.items():
            results.append(_run(ground, work))
    return sides


def _run(ground: Ground, work: str) -> list[float]:
    code = _FRAME.format(work=work, reads=READS)
    command = [sys.executable, "-c", code, str(ground.cluster.kubeconfig)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    answer: list[float] = json.loads(done.stdout)
    return answer
