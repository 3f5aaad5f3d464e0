"""`berth-scheduler extend`: the composition root of the extender. Called by __main__.

Every process answers for itself: which disk a pod gets is decided by compare-and-swap, so several of them need no
election. A request that is wrong, or that fails, costs that request and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY

from berth_core.app.fsid import DEFAULT_MOUNT_ROOT
from berth_core.errors import BerthError, InputError
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, NAMESPACE, PV, PVC, STORAGE_CLASS
from berth_kube import config, fast, logs, option_values, options
from berth_kube.client import KubeClient
from berth_kube.lease import identity
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.serve import Server, caches_server
from berth_kube.stopping import together, until_stopped
from berth_kube.tls import ServerTls

from ..cluster import Cluster
from ..disks import LocalDisks
from ..evaluations import Evaluations
from ..settings import PREFIX
from ..volumes import Volumes
from . import messages
from .binder import Binder
from .counters import Counters
from .holds import Holds
from .listener import LIMITS, Listener
from .messages import Refused
from .verdicts import PROFILE, Judge, error_of

_log = logging.getLogger(__name__)

NAME = "berth-scheduler-extender"
PATHS = frozenset({"/filter", "/prioritize", "/preempt", "/bind"})
CONNECTIONS = 16
#: All that a verdict, a lock and a volume are made of. Pods are in the questions.
KINDS = (NAMESPACE, PV, PVC, STORAGE_CLASS, LOCAL_DISK, LOCAL_DEVICE, BERTH)


@dataclass(frozen=True)
class Settings:
    """``client_ca`` empty: whoever reaches the port may ask, which therefore is on a loopback address."""

    kubeconfig: str = ""
    mount_root: str = DEFAULT_MOUNT_ROOT
    address: str = "127.0.0.1"
    port: int = 9811
    tls_certificate: str = ""
    tls_key: str = ""
    client_ca: str = ""
    hold_seconds: float = 60.0
    bind_seconds: float = 20.0
    metrics_address: str = "127.0.0.1"
    metrics_port: int = 9812
    log_format: str = "logfmt"
    log_level: str = "info"


#: Least and most, in seconds.
BOUNDS: Mapping[str, tuple[float, float]] = {"hold_seconds": (0.1, 3600), "bind_seconds": (0.1, 3600)}


_HELP = {
    "kubeconfig": "kubeconfig file (default: the pod's service account, or ~/.kube/config)",
    "mount_root": "directory below which agents mount disks (the agents' mount_root)",
    "address": "address where kube-scheduler asks",
    "port": "port where kube-scheduler asks; 0: a free one, which the log names",
    "tls_certificate": "PEM file; with tls-key: serve by TLS",
    "tls_key": "PEM file",
    "client_ca": "PEM file of authorities: only their clients are answered; a loopback address needs none",
    "hold_seconds": "seconds for which a disk is kept from other pods while its lock is awaited",
    "bind_seconds": "seconds for which a bind waits for the pod's claims; less than the extender's httpTimeout",
    "metrics_address": "address of /metrics, /healthz and /readyz",
    "metrics_port": "their port; 0: not served",
    "log_format": "logfmt or json",
    "log_level": "debug, info, warning or error",
}


def add_extend(commands: Any) -> None:
    """The command `extend`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "extend",
        help="answer the stock kube-scheduler as its HTTP extender",
        description="Filters and scores nodes by local disks and devices for the stock kube-scheduler, and binds.",
        epilog=f"Each flag can be given as an environment variable: --client-ca as {PREFIX}CLIENT_CA=file.",
    )
    options.add_flags(parser, Settings, _HELP, BOUNDS)


def extend_command(arguments: argparse.Namespace) -> int:
    """Exit status: 0 asked to stop; 1 the API refused. Raises InputError for wrong settings."""
    settings = read(arguments)
    logs.setup(settings.log_format, settings.log_level)
    return fast.run(run(settings))


def read(arguments: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of a parsed command line. Raises InputError that names the flag and the variable."""
    values: dict[str, Any] = options.read(arguments, os.environ if environ is None else environ, Settings, PREFIX)
    settings = Settings(**values)
    options.check_mount_root(settings)
    options.check_served(settings)
    options.check_bounds(settings, BOUNDS)
    if settings.client_ca and not settings.tls_certificate:
        raise InputError("--client-ca needs --tls-certificate and --tls-key: certificates are asked for by TLS")
    if settings.client_ca:
        option_values.check_file("--client-ca", settings.client_ca, "a PEM file of authorities")
    if not settings.client_ca and not _local(settings.address):
        raise InputError(
            f"--address {settings.address or '(all)'}: whoever reaches it could bind pods; give --client-ca (with"
            " --tls-certificate and --tls-key), the authority of kube-scheduler's certificate, or listen on 127.0.0.1"
        )
    return settings


async def run(settings: Settings) -> int:
    """Until a signal."""
    return await until_stopped(_serve(settings), _log)


async def _serve(settings: Settings) -> None:
    requests = RequestMetrics()
    make: dict[str, Any] = {
        "user_agent": NAME,
        "field_manager": NAME,
        "observe": requests.requests(),
        "connections": CONNECTIONS,
        **fast.client_options(),
    }
    async with KubeClient(config.load(settings.kubeconfig or None), **make) as client:
        cluster = Cluster(client, KINDS)
        holds = Holds(cluster, PROFILE, settings.hold_seconds, time.monotonic)
        judge = Judge(cluster, holds, Evaluations(REGISTRY))
        disks = LocalDisks(cluster, Volumes(cluster, settings.bind_seconds), settings.mount_root)
        verbs = Verbs(
            cluster, judge, Binder(client, cluster, judge, holds, disks), Counters(holds, cluster.snapshot.unreadable)
        )
        tls = None
        if settings.tls_certificate:
            tls = ServerTls(settings.tls_certificate, settings.tls_key, settings.client_ca)
        # On a loopback address all clients have one.
        limits = LIMITS._replace(per_address=LIMITS.places) if _local(settings.address) else LIMITS
        listener = Listener(
            settings.address, settings.port, PATHS, verbs.answer, tls, requests.refused("extender"), limits
        )
        refused = requests.refused("metrics")
        server = caches_server(settings.metrics_port, settings.metrics_address, lambda: cluster.synced, refused=refused)
        await _together(server, cluster, holds, listener)


async def _together(server: Server | None, cluster: Cluster, holds: Holds, listener: Listener) -> None:
    """The caches and the two ports, until one of them fails or the task is cancelled."""
    try:
        await listener.start()
        await together(server, cluster.run(), _hold(cluster, holds, listener))
    finally:
        await listener.stop()


async def _hold(cluster: Cluster, holds: Holds, listener: Listener) -> None:
    await cluster.wait_synced()
    holds.look_at_all()
    _log.info("%s works as %s", NAME, identity(socket.gethostname()), extra={"port": listener.port})
    while True:
        await asyncio.sleep(1.0)
        holds.expire()


def _local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class Verbs:
    """From a path and a body to the answer's document."""

    def __init__(self, cluster: Cluster, judge: Judge, binder: Binder, counters: Counters) -> None:
        self._cluster, self._judge, self._binder, self._counters = cluster, judge, binder, counters

    async def answer(self, path: str, body: bytes) -> Any:
        """Raises Refused. What fails is told in the answer's field Error, where kube-scheduler shows it to people."""
        began = time.monotonic()
        verb, result = path.lstrip("/"), "error"
        try:
            document = await self._answer(verb, body)
            result = "error" if isinstance(document, dict) and document.get("Error") else "success"
            return document
        except Refused:
            result = "refused"
            raise
        finally:
            self._counters.asked(verb, result, time.monotonic() - began)

    async def _answer(self, verb: str, body: bytes) -> Any:
        if not self._cluster.synced:
            raise Refused(503, "not every kind was listed yet: ask again")
        document = messages.decode(body)
        try:
            if verb == "filter":
                return self._judge.filter(messages.asked(document))
            if verb == "prioritize":
                return self._judge.prioritize(messages.asked(document))
            if verb == "preempt":
                return self._judge.preempt(messages.preempting(document))
            await self._binder.bind(messages.bind_asked(document))
            return {"Error": ""}
        except BerthError as exc:
            _log.info("%s: %s", verb, exc.message)
            if verb in ("filter", "bind"):
                return error_of(exc)
            raise Refused(422, exc.message) from exc
        except Refused:
            raise
        except Exception as exc:
            _log.exception("%s failed", verb)
            raise Refused(500, f"{verb} failed: {type(exc).__name__}: {exc}") from exc
