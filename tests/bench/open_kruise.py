"""A peer of update/: OpenKruise's Advanced StatefulSet, its manager built from its Go module and run as a process.

All its CRDs, its default feature gates but two, and its webhooks for StatefulSets of its kind. Off are kruise-daemon
(KruiseDaemon), which wants a container runtime on each node, and its webhooks for the pods of everybody (PodWebhook),
which would take part in the updates that it is compared with. It has the rights of the administrator, as the other
programs of a bench. Called by update_kruise.py and update_not_ready.py.
"""

from __future__ import annotations

import copy
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import yaml

from berth_core.model.resources import Resource
from berth_dev import build, toolchain
from tests.dev.hosts_help import eventually
from tests.support.tcp import free_port

from .ground import Ground, say
from .sched_contenders import program, ready
from .update_calls import plain

MODULE, VERSION = "github.com/openkruise/kruise", "v1.8.0"
SOURCE = Path(__file__).parent / "openkruise"
NEEDED_GO = (1, 25, 0)
MANAGER, CRDS, WEBHOOKS = "kruise-manager", "crds.yaml", "webhooks.yaml"
NAME = f"OpenKruise {VERSION}"
STATEFUL_SET = Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet", True)
IN_PLACE, ANEW = "InPlaceIfPossible", "ReCreate"
GATES = "KruiseDaemon=false,PodWebhook=false"
#: Its webhooks that are called: the defaults and the checks of its own StatefulSets.
_HOOKS = ("mstatefulset.kb.io", "vstatefulset.kb.io")
#: Its validation wants a pod that is updated in place to have it; its controller opens it.
_GATE = "InPlaceUpdateReady"
_HOST = "127.0.0.1"
PATIENCE = 180.0


def peer_name(policy: str) -> str:
    return f"{NAME} Advanced StatefulSet, {policy}"


def stateful_set(name: str, replicas: int, image: int, policy: str) -> dict[str, Any]:
    """Kruise's StatefulSet of what `plain` makes one of Kubernetes."""
    found = copy.deepcopy(plain(name, replicas, image))
    found["apiVersion"] = STATEFUL_SET.api_version
    found["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy}}
    if policy == IN_PLACE:
        found["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": _GATE}]
    return found


def built() -> Path:
    """The folder of its program, its CRDs and its webhooks, made once beside the development cluster's programs."""
    step = build.Step(NAME, SOURCE.name, (MODULE,), MANAGER)
    digest = build.digest_of((step,), SOURCE, sorted(SOURCE.iterdir()))

    def make(work: Path, lock: int) -> None:
        (work / "bin").mkdir()
        go = str(toolchain.find_go(build.cache_folder(), NEEDED_GO, say))
        flags = ["-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", str(work / "bin" / MANAGER)]
        say(f"building {NAME}: minutes, once")
        _go("nice", "-n", "10", go, "build", *flags, MODULE, pass_fds=(lock,))
        config = Path(_go(go, "list", "-m", "-f", "{{.Dir}}", MODULE).strip()) / "config"
        texts = [file.read_text() for file in sorted((config / "crd" / "bases").glob("*.yaml"))]
        (work / CRDS).write_text("\n".join(texts))
        shutil.copyfile(config / "webhook" / "manifests.yaml", work / WEBHOOKS)

    return build.complete(f"openkruise-{digest}", make, say)


def _go(*argv: str, **more: Any) -> str:
    """What a go command for the module says; its complaints are seen."""
    env, nothing = toolchain.environment(), subprocess.DEVNULL
    done = subprocess.run(
        argv, cwd=SOURCE, env=env, check=True, text=True, stdin=nothing, stdout=subprocess.PIPE, **more
    )
    return done.stdout


@contextmanager
def running(ground: Ground) -> Iterator[None]:
    """Its manager in that cluster, until the ``with`` ends."""
    home, cluster = built(), ground.cluster
    folder = ground.folder / "kruise"
    folder.mkdir()
    cluster.kubectl("apply", "--server-side", "-f", str(home / CRDS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", STATEFUL_SET.definition)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(webhooks((home / WEBHOOKS).read_text())))
    health, log = free_port(), folder / "log"
    with program(_argv(home, cluster.kubeconfig, folder, health), log, _environment(folder)) as process:
        eventually(lambda: _serves(process, log, health), PATIENCE, f"{NAME} is ready")
        sample = stateful_set("sample", 1, 1, IN_PLACE)
        # Webhooks that the API server knows of, too: before, it cannot ask them, and refuses.
        eventually(lambda: ground.api.create(STATEFUL_SET, sample, dry_run=True), PATIENCE, f"{NAME} is asked")
        yield


def _argv(home: Path, kubeconfig: Path, folder: Path, health: int) -> list[str]:
    return [
        str(home / "bin" / MANAGER),
        f"--kubeconfig={kubeconfig}",
        f"--feature-gates={GATES}",
        f"--health-probe-addr={_HOST}:{health}",
        f"--protection-log-path={folder}",
        "--metrics-addr=0",
        "--enable-pprof=false",
        "--enable-leader-election=false",
    ]


def _environment(folder: Path) -> dict[str, str]:
    """With a host it makes its own certificate, and has the API server call it there."""
    return {"WEBHOOK_HOST": _HOST, "WEBHOOK_PORT": str(free_port()), "WEBHOOK_CERT_DIR": str(folder / "certificates")}


def _serves(process: Popen[bytes], log: Path, health: int) -> bool:
    if process.poll() is not None:
        raise SystemExit(f"update/: {NAME} has ended:\n{log.read_text()[-3000:]}")
    return ready(health)


def webhooks(text: str) -> list[dict[str, Any]]:
    """Of its configurations those of its StatefulSets, under the names that its manager looks for."""
    return [
        {
            **one,
            "metadata": {"name": f"kruise-{one['metadata']['name']}"},
            "webhooks": [hook for hook in one["webhooks"] if hook["name"] in _HOOKS],
        }
        for one in yaml.safe_load_all(text)
    ]
