# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a host and with which configuration: containerd, kubelet, kube-proxy, CNI, sshd. `power` calls this.

Pure: this returns texts, `power` writes them. Paths are those inside the host; the programs are at /opt/k.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from .model import Host

CLUSTER_DNS = "10.96.0.10"
PAUSE_IMAGE = "berth.local/pause:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


def containerd_config() -> str:
    """containerd 2.x, configuration version 3.

    restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower a process's score and would fail.
    """
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/k/cni"]
    conf_dir = "/etc/cni/net.d"

  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "/usr/sbin/runc"
      SystemdCgroup = false
"""


def cni_config(host: Host) -> str:
    """Pods on a bridge in the host; other hosts' pods are routed, not translated. hostPort by portmap."""
    ranges = [[{"subnet": host.pod_subnet}]]
    ipam = {"type": "host-local", "dataDir": "/run/cni/ipam", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "berth", "plugins": [bridge, portmap]}, indent=1)


def kubelet_config(host: Host) -> str:
    """KubeletConfiguration: authentication and authorization as in a real cluster, cgroup v1 accepted."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": host.address,
        "port": 10250,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "tlsCertFile": "/etc/kubernetes/kubelet.crt",
        "tlsPrivateKeyFile": "/etc/kubernetes/kubelet.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDomain": "cluster.local",
        "clusterDNS": [CLUSTER_DNS],
        "resolvConf": "/etc/resolv.conf",
        # The machine is shared by all hosts: its swap and its cgroup version are not theirs to choose.
        "failSwapOn": False,
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": [],
        # Thresholds of a machine that serves many: evict late, never collect images (there is no registry).
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # A cut of power must show soon: the lease is renewed every quarter of its duration.
        "nodeStatusUpdateFrequency": "2s",
        # What has not changed is not said again: each report wakes everybody who watches nodes.
        "nodeStatusReportFrequency": "5m",
        "nodeLeaseDurationSeconds": 12,
        # A container that has ended is wanted back soon: not after ten seconds, then twenty, then forty.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
        # Where kubeadm has the control plane; here nothing stands in it by itself.
        "staticPodPath": "/etc/kubernetes/manifests",
        "registerWithTaints": [],
        "shutdownGracePeriod": "0s",
        "syncFrequency": "5s",
    }
    return yaml.safe_dump(config, sort_keys=False)


def proxy_config(host: Host) -> str:
    """KubeProxyConfiguration: nftables; the connection table's limits are the machine's and stay as they are."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": host.slot.pod_network,
        "hostnameOverride": host.name,
        "clientConnection": {"kubeconfig": "/etc/kubernetes/proxy.kubeconfig"},
        "conntrack": {"maxPerCore": 0, "min": 0},
        "healthzBindAddress": f"{host.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }
    return yaml.safe_dump(config, sort_keys=False)


def services(host: Host) -> list[dict[str, Any]]:
    """What init.py starts, in this order: name, argv, log."""
    kubelet = [
        "/opt/k/kubelet",
        "--config=/etc/kubernetes/kubelet.yaml",
        "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
        "--root-dir=/var/lib/kubelet",
        f"--node-ip={host.address}",
        f"--hostname-override={host.name}",
    ]
    argvs = {
        "udev": ["/usr/bin/python3", "-I", "/opt/berth/inside/blockdev.py", "watch"],
        "containerd": ["/opt/k/containerd", "--config=/etc/containerd/config.toml"],
        "sshd": ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/berth_sshd_config"],
        "kubelet": kubelet,
        "kube-proxy": ["/opt/k/kube-proxy", "--config=/etc/kubernetes/proxy.yaml"],
    }
    return [{"name": name, "argv": argv, "log": f"/var/log/{name}.log"} for name, argv in argvs.items()]


def init_settings(
    host: Host, hosts: Sequence[Host], disks: Sequence[dict[str, Any]], systemd: bool = False
) -> dict[str, Any]:
    """What init.py reads. `disks`: identities of everything plugged in, the system disk too. `systemd`: process 1."""
    spares = [{"loop": number, "properties": {}, "links": []} for number in host.spare_loops]
    return {
        "address": host.address,
        "gateway": host.slot.gateway,
        "routes": {other.pod_subnet: other.address for other in hosts if other.index != host.index},
        "disks": [*disks, *spares],
        "services": services(host),
        "systemd": systemd,
    }


def etc_hosts(hosts: Sequence[Host]) -> str:
    """/etc/hosts: every host by name."""
    return "".join(["127.0.0.1 localhost\n", *(f"{host.address} {host.name}\n" for host in hosts)])


LOSETUP = """\
#!/bin/sh
# kubelet asks for "a free loop device" (-f) for a raw block volume. The kernel would choose one of the whole machine:
# take a spare of this host instead.
find=
for argument; do
    shift
    case $argument in
        -f | --find) find=yes ;;
        *) set -- "$@" "$argument" ;;
    esac
done
[ -n "$find" ] || exec /usr/sbin/losetup "$@"
for device in SPARES; do
    [ -e "/sys/block/${device#/dev/}/loop/backing_file" ] && continue
    if [ $# = 0 ]; then echo "$device"; exit 0; fi
    /usr/sbin/losetup "$device" "$@" && exit 0
done
echo "losetup: no spare loop device of this host is free" >&2
exit 1
"""

UDEVADM = """\
#!/bin/sh
# This host's udev is /opt/berth/inside/blockdev.py: "settle" and "trigger" mean a look at every disk now.
case ${1-} in
    settle | trigger) exec /usr/local/sbin/berth-udev-refresh ;;
    control) exit 0 ;;
esac
exec /usr/bin/udevadm "$@"
"""

REFRESH = """\
#!/bin/sh
# Bring /run/udev/data and /dev/disk up to date with what is on the disks (all, or those named).
exec /usr/bin/python3 -I /opt/berth/inside/blockdev.py refresh "$@"
"""


def losetup_wrapper(host: Host) -> str:
    """losetup that knows this host's spare devices."""
    return LOSETUP.replace("SPARES", " ".join(f"/dev/loop{n}" for n in host.spare_loops))
