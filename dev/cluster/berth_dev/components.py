# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of each program of the control plane. `control_plane` runs them.

On the way it only makes certificates (through `Pki`) and configuration files; it starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from .pki import Pair, Pki
from .state import write_atomically

# Services exist only inside the hosts' own network namespaces, so clusters side by side may share the range.
SERVICE_CIDR = "10.250.0.0/16"
SERVICE_IP = "10.250.0.1"
DNS_IP = "10.250.0.10"
CLUSTER_DOMAIN = "cluster.local"
# The API server's name at the kubelets: `control_plane` binds this group to what an API server may do there.
KUBELET_API_GROUP = "berth-dev:kubelet-api"
LOOPBACK = "127.0.0.1"
LOOPBACK_OF_VM = "10.0.2.2"
"""What a virtual machine (`qemu`) calls this machine's loopback."""
# Go's defaults are those of a large machine for one program: here several clusters share few cores. Garbage is
# collected less often than whenever the heap has doubled; a program gets half of the cores, which else wake each other.
GO_ENVIRONMENT = {"GOGC": "400", "GOMEMLIMIT": "2GiB", "GOMAXPROCS": str(max(1, (os.cpu_count() or 1) // 2))}
PORT_NAMES = ("etcd", "etcd-http", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class Settings:
    """What a cluster was asked to be. `gateway`: the hosts' bridge address, or None. `node_grace`: seconds."""

    ports: Mapping[str, int]
    gateway: str | None = None
    node_grace: int = 30

    @property
    def api_url(self) -> str:
        """Where people and components of this machine reach the API server."""
        return f"https://{LOOPBACK}:{self.ports['kube-apiserver']}"

    @property
    def host_api_url(self) -> str:
        """Where the hosts reach it."""
        return f"https://{self.gateway or LOOPBACK}:{self.ports['kube-apiserver']}"


@dataclass(frozen=True)
class Context:
    """What every builder below is given: the binaries, the cluster's data folder, its identities and settings."""

    bin: Path
    data: Path
    pki: Pki
    settings: Settings

    def argv(self, program: str, flags: Mapping[str, object]) -> list[str]:
        """The program's command line."""
        return words(self.bin / program, flags)


def words(program: Path, flags: Mapping[str, object]) -> list[str]:
    """`program --flag=value …`; True and False are spelled as Go's flags want them."""
    given = [f"--{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in flags.items() if v is not None]
    return [str(program), *given]


def etcd(at: Context) -> list[str]:
    """etcd, reachable from this machine by holders of a certificate of its own authority."""
    ports = at.settings.ports
    client, http, peer = (f"https://{LOOPBACK}:{ports[name]}" for name in ("etcd", "etcd-http", "etcd-peer"))
    serving, ca = at.pki.server("etcd", ["localhost"], [LOOPBACK], authority="etcd-ca"), at.pki.authority("etcd-ca")
    flags: dict[str, object] = {
        "name": "default",
        "data-dir": at.data / "etcd",
        "listen-client-urls": client,
        # With a port of its own for HTTP, the one that the API server uses has gRPC alone: etcd then needs a quarter
        # less of a processor for the same requests.
        "listen-client-http-urls": http,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "log-level": "warn",
        "quota-backend-bytes": 8 << 30,
        # What must be survived is the death of a process: the kernel keeps what was written.
        "unsafe-no-fsync": True,
    }
    for prefix in ("", "peer-"):
        flags |= {
            f"{prefix}cert-file": serving.cert,
            f"{prefix}key-file": serving.key,
            f"{prefix}trusted-ca-file": ca.cert,
            f"{prefix}client-cert-auth": True,
        }
    return at.argv("etcd", flags)


def kube_apiserver(at: Context) -> list[str]:
    """The API server: TLS, client certificates, Node and RBAC authorization, default admission and NodeRestriction."""
    settings = at.settings
    dns = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    dns.append(f"kubernetes.default.svc.{CLUSTER_DOMAIN}")
    ips = [LOOPBACK, LOOPBACK_OF_VM, SERVICE_IP, *([settings.gateway] if settings.gateway else [])]
    accounts = at.pki.service_account_keys()
    flags: dict[str, object] = {
        "secure-port": settings.ports["kube-apiserver"],
        # Without hosts nobody outside this machine has a reason to ask.
        "bind-address": "0.0.0.0" if settings.gateway else LOOPBACK,  # noqa: S104 (hosts come in by the bridge)
        "advertise-address": settings.gateway or LOOPBACK,
        # The Service `kubernetes` cannot point to a loopback address: without hosts nobody would use it either.
        "endpoint-reconciler-type": "lease" if settings.gateway else "none",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": True,
        "service-cluster-ip-range": SERVICE_CIDR,
        "service-account-issuer": f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        "service-account-key-file": accounts.cert,
        "service-account-signing-key-file": accounts.key,
        "client-ca-file": at.pki.ca_cert,
        # The defaults (400 and 200) would be what a measurement of many clients measures.
        "max-requests-inflight": 3000,
        "max-mutating-requests-inflight": 1000,
    }
    flags |= _serving(at.pki.server("kube-apiserver", dns, ips))
    flags |= _etcd_client(at) | _kubelet_client(at) | _front_proxy(at)
    return at.argv("kube-apiserver", flags)


def kube_controller_manager(at: Context) -> list[str]:
    """The controller manager, each controller with a service account of its own."""
    ca = at.pki.authority("ca")
    flags = {
        **_manager(at, "kube-controller-manager"),
        "use-service-account-credentials": True,
        "service-account-private-key-file": at.pki.service_account_keys().key,
        "root-ca-file": ca.cert,
        "cluster-signing-cert-file": ca.cert,
        "cluster-signing-key-file": ca.key,
        "service-cluster-ip-range": SERVICE_CIDR,
        "node-monitor-grace-period": f"{at.settings.node_grace}s",
        "node-monitor-period": "2s",
        # Beside its 15 s, half of a test of an autoscaler was waiting.
        "horizontal-pod-autoscaler-sync-period": "2s",
        "kube-api-qps": 500,
        "kube-api-burst": 1000,
    }
    return at.argv("kube-controller-manager", flags)


def kube_scheduler(at: Context) -> list[str]:
    """The stock scheduler with its default plugins; its client's own rate limit is out of the way."""
    flags = _manager(at, "kube-scheduler")
    config = at.data / "kube-scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(flags.pop("kubeconfig")), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": flags.pop("leader-elect")},
    }
    write_atomically(config, yaml.safe_dump(document))
    return at.argv("kube-scheduler", {**flags, "config": config})


def kwok(at: Context) -> list[str]:
    """kwok for the nodes with label type=kwok; its stages are in `data/kwok.yaml` (see `kwok.prepare`)."""
    kubeconfig = at.pki.kubeconfig("kwok", [], at.settings.api_url)
    return at.argv("kwok", kwok_flags(kubeconfig, at.data))


def kwok_flags(kubeconfig: Path, data: Path) -> dict[str, object]:
    """How kwok runs, in any cluster. Without --server-address it listens nowhere: nobody asks it anything, and it would
    end when somebody else had taken the port meanwhile, for it is started long after ports are chosen.
    """
    return {
        "kubeconfig": kubeconfig,
        "config": data / "kwok.yaml",
        "v": "WARN",  # INFO is a line for every pod
        "manage-all-nodes": False,
        "manage-nodes-with-label-selector": "type=kwok",
        "node-lease-duration-seconds": 40,
    }


COMPONENTS: dict[str, Callable[[Context], list[str]]] = {
    "etcd": etcd,
    "kube-apiserver": kube_apiserver,
    "kube-controller-manager": kube_controller_manager,
    "kube-scheduler": kube_scheduler,
    "kwok": kwok,
}


def environment(name: str) -> Mapping[str, str]:
    """What is added to the component's environment. kube-scheduler runs as it is: benchmarks measure it."""
    return {} if name == "kube-scheduler" else GO_ENVIRONMENT


def _serving(pair: Pair) -> dict[str, object]:
    return {"tls-cert-file": pair.cert, "tls-private-key-file": pair.key}


def _etcd_client(at: Context) -> dict[str, object]:
    pair = at.pki.client("kube-apiserver", authority="etcd-ca")
    return {
        "etcd-servers": f"https://{LOOPBACK}:{at.settings.ports['etcd']}",
        "etcd-cafile": at.pki.authority("etcd-ca").cert,
        "etcd-certfile": pair.cert,
        "etcd-keyfile": pair.key,
    }


def _kubelet_client(at: Context) -> dict[str, object]:
    """How the API server reaches kubelets (logs, exec): as a client with one right, and it verifies them."""
    pair = at.pki.client("kube-apiserver", [KUBELET_API_GROUP])
    return {
        "kubelet-client-certificate": pair.cert,
        "kubelet-client-key": pair.key,
        "kubelet-certificate-authority": at.pki.ca_cert,
        "kubelet-preferred-address-types": "InternalIP",
    }


def _front_proxy(at: Context) -> dict[str, object]:
    """Aggregation: whom the API server is to aggregated servers, and whose word about users it takes."""
    pair = at.pki.client("front-proxy-client", authority="front-proxy-ca")
    return {
        "proxy-client-cert-file": pair.cert,
        "proxy-client-key-file": pair.key,
        "requestheader-client-ca-file": at.pki.authority("front-proxy-ca").cert,
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    }


def _manager(at: Context, name: str) -> dict[str, object]:
    """What controller manager and scheduler have in common: who they are, and a port that asks who you are."""
    config = at.pki.kubeconfig(f"system:{name}", [], at.settings.api_url)
    return {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": LOOPBACK,
        "secure-port": at.settings.ports[name],
        # There is one of each: an election would only delay its start.
        "leader-elect": False,
        **_serving(at.pki.server(name, ["localhost"], [LOOPBACK])),
    }
