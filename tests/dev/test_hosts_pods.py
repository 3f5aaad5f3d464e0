"""Pods really run on the hosts: on their disks, through their network."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

import pytest

from berth_dev.cluster import Cluster

from .hosts_help import apply, eventually, get, logs, out, pod, running, ssh

HOSTS = ("h1", "h2", "h3")


def local_volume(name: str, node: str, path: str, mode: str = "Filesystem") -> list[dict[str, Any]]:
    """A local PV on a node and the claim that is bound to it."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "volumeMode": mode}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                **common,
                "capacity": {"storage": "100Mi"},
                "local": {"path": path},
                "claimRef": {"namespace": "default", "name": name},
                "persistentVolumeReclaimPolicy": "Retain",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "100Mi"}}},
        },
    ]


def claim(name: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


@pytest.mark.parametrize("host", HOSTS)
def test_a_pod_writes_to_a_filesystem_that_ssh_has_mounted(dev_cluster: Cluster, host: str) -> None:
    disk, point = dev_cluster.hosts.disks(host)[0], "/var/lib/berth/d0"
    ssh(dev_cluster, host, f"mkfs.ext4 -q -F {disk['device']} && mkdir -p {point} && mount {disk['device']} {point}")
    name = f"fs-{host}"
    mounts = [{"name": "data", "mountPath": "/data"}]
    script = "hostname > /data/who; df /data | tail -1; sync; sleep 3600"
    apply(dev_cluster, *local_volume(name, host, point), pod(name, host, script, volumes=claim(name), mounts=mounts))
    running(dev_cluster, name)
    eventually(lambda: disk["device"] in logs(dev_cluster, name), 10, "df in the pod names the disk")
    assert out(dev_cluster, host, f"cat {point}/who") == name
    dev_cluster.kubectl("delete", "pod", name, "--wait=true")
    assert out(dev_cluster, host, f"cat {point}/who") == name
    ssh(dev_cluster, host, f"umount {point}")


def test_a_pod_gets_a_disk_as_a_block_device(dev_cluster: Cluster) -> None:
    disk = dev_cluster.hosts.disks("h2")[1]
    name, path = "raw-h2", f"/dev/disk/by-id/{disk['serial']}"
    script = "echo berth-raw | dd of=/dev/xvda bs=512 count=1 conv=sync,fsync && echo done; sleep 3600"
    devices = [{"name": "data", "devicePath": "/dev/xvda"}]
    body = pod(name, "h2", script, volumes=claim(name), devices=devices)
    apply(dev_cluster, *local_volume(name, "h2", path, "Block"), body)
    running(dev_cluster, name)
    eventually(lambda: "done" in logs(dev_cluster, name), 10, "the pod has written")
    assert out(dev_cluster, "h2", f"head -c 9 {disk['device']}") == "berth-raw"
    loops = json.loads(out(dev_cluster, "h2", "losetup --json -l -O NAME,BACK-FILE"))["loopdevices"]
    spare = [entry["name"] for entry in loops if f"/volumeDevices/{name}/" in entry["back-file"]]
    numbers = [int(entry.removeprefix("/dev/loop")) for entry in spare]
    assert len(numbers) == 1, loops
    assert disk["loop"] // 32 == numbers[0] // 32, "the loop that kubelet took is of another host"
    dev_cluster.kubectl("delete", "pod", name, "--wait=true")


def test_pods_talk_across_hosts_by_address_and_by_service(dev_cluster: Cluster) -> None:
    serve = "mkdir -p /w && hostname > /w/index.html && exec httpd -f -p 8080 -h /w"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    apply(dev_cluster, service, pod("web", "h1", serve), pod("client", "h2", "sleep 3600"))
    address = running(dev_cluster, "web")["status"]["podIP"]
    running(dev_cluster, "client")
    virtual = get(dev_cluster, "service", "web")["spec"]["clusterIP"]
    for url in (f"http://{address}:8080/", f"http://{virtual}/"):
        fetch = ("exec", "client", "--", "timeout", "5", "wget", "-q", "-O", "-", url)
        answer = eventually(lambda fetch=fetch: dev_cluster.kubectl(*fetch), 20, url)
        assert answer.strip() == "web"


def test_a_privileged_pod_starts_and_still_cannot_open_a_foreign_disk(dev_cluster: Cluster) -> None:
    foreign = dev_cluster.hosts.disks("h3")[0]["loop"]
    apply(dev_cluster, pod("strong", "h1", "sleep 3600", privileged=True))
    running(dev_cluster, "strong")
    script = f"mknod /tmp/n b 7 {foreign} && dd if=/tmp/n of=/dev/null bs=512 count=1 2>&1 || true"
    said = dev_cluster.kubectl("exec", "strong", "--", "sh", "-c", script)
    assert "Operation not permitted" in said


def test_kubelet_asks_who_calls_and_serves_with_a_verified_certificate(dev_cluster: Cluster) -> None:
    address = dev_cluster.hosts.inventory()["berth_hosts"]["hosts"]["h1"]["ansible_host"]
    context = ssl.create_default_context(cafile=str(dev_cluster.ca_cert))
    connection = http.client.HTTPSConnection(address, 10250, context=context, timeout=10)
    connection.request("GET", "/pods")
    assert connection.getresponse().status == 401
    connection.close()
