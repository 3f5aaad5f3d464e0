"""The objects of an extender, made of the shipped ones; its Secret, its address, who waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_core.app import extender_install as install
from berth_core.app import shipped as shipped_objects
from berth_core.config.stock import MANAGED
from berth_core.errors import InputError

FOLDER = Path(__file__).parents[3] / "deploy" / "extender"
TLS = {
    "certificate": "-----BEGIN CERTIFICATE-----\nc",
    "key": "-----BEGIN PRIVATE KEY-----\nk",
    "client_ca": "-----BEGIN CERTIFICATE-----\na",
}


def shipped() -> list[dict[str, Any]]:
    return [one for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load(path.read_text())["items"]]


def wanted(**more: Any) -> install.Wanted:
    return install.Wanted(**{"name": "asked", "namespace": "placing", "image": "example.com/s:1", **more})


def made(data: dict[str, str] | None = None, **more: Any) -> dict[str, dict[str, Any]]:
    return {body["kind"]: body for body in install.objects(shipped(), wanted(**more), data or {})}


def test_the_parts_find_each_other():
    them = made(cluster_ip="10.96.0.9")
    pods = them["Deployment"]["spec"]["template"]
    for selector in (
        them["Deployment"]["spec"]["selector"]["matchLabels"],
        them["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        them["Service"]["spec"]["selector"],
    ):
        assert selector.items() <= pods["metadata"]["labels"].items()
        assert selector[shipped_objects.INSTANCE] == "asked"
    secret = install.secret(wanted(tls=TLS))
    assert secret is not None
    assert pods["spec"]["volumes"][0]["secret"]["secretName"] == secret["metadata"]["name"] == "asked"
    mounted = pods["spec"]["containers"][0]["volumeMounts"][0]["mountPath"]
    named = {word.rpartition("/")[2] for word in pods["spec"]["containers"][0]["args"] if mounted in word}
    assert named == set(secret["data"])
    assert them["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": pods["spec"]["serviceAccountName"], "namespace": "placing"}
    ]
    assert install.url(them["Service"]) == "https://10.96.0.9:9811"
    assert install.url(made()["Service"]) == "https://asked.placing.svc:9811"
    assert install.url(made(cluster_ip="fd00::9")["Service"]) == "https://[fd00::9]:9811"


def test_another_certificate_replaces_the_pods():
    def begins(data: dict[str, str]) -> str:
        template = made(data)["Deployment"]["spec"]["template"]
        return str(template["metadata"]["annotations"][shipped_objects.CONFIGURATION])

    assert begins({"tls.crt": "a", "ca.crt": "b"}) == begins({"ca.crt": "b", "tls.crt": "a"})
    assert begins({"tls.crt": "a"}) != begins({"tls.crt": "b"})


def test_a_secret_is_shown_without_what_it_holds():
    secret = install.secret(wanted(tls=TLS))
    assert secret is not None
    assert install.missing_keys(secret) == []
    shown = install.veiled(secret)
    assert set(shown["data"]) == set(secret["data"])
    assert not set(shown["data"].values()) & set(secret["data"].values())
    assert install.missing_keys({}) == ["tls.crt", "tls.key", "ca.crt"]


@pytest.mark.parametrize("option", list(TLS))
def test_what_is_no_pem_is_refused(option: str):
    with pytest.raises(InputError, match=rf"tls\.{option}: expected PEM"):
        install.secret(wanted(tls={**TLS, option: "/path/of/a/file"}))


def test_who_waits_for_it():
    def pod(name: str, node: str = "", gone: bool = False, of: str = "containers", what: str = MANAGED) -> Any:
        meta = {"name": name, "namespace": "n", **({"deletionTimestamp": "t"} if gone else {})}
        spec = {"containers": [{}], **({"nodeName": node} if node else {})}
        return {"metadata": meta, "spec": {**spec, of: [{"resources": {"requests": {what: "1"}}}]}}

    others = [pod("placed", node="a"), pod("going", gone=True), pod("plain", what="cpu")]
    assert install.waiting_pods([*others, pod("b"), pod("a", of="initContainers")]) == ["n/a", "n/b"]
