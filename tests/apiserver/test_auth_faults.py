"""Who may not, and where nobody answers: as a real playbook shows it, with the message, and with nothing changed."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    UnauthorizedError,
    UnavailableError,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LOCAL_DISK, STORAGE_CLASS
from tests.support.kube import client_for, install_crds
from tests.support.playbook import Run

World = Callable[[], dict[str, str]]


@pytest.fixture
def admin(control_plane: Any) -> dict[str, Any]:
    """The administrator's kubeconfig, as a mapping to be spoilt."""
    content: dict[str, Any] = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    return content


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def inline(content: bytes) -> str:
    return base64.b64encode(content).decode()


def authority() -> tuple[x509.Name, ec.EllipticCurvePrivateKey, bytes]:
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")]),
    )
    return name, key, certificate(name, key.public_key(), name, key, expired=False)


def certificate(subject: x509.Name, public: Any, issuer: x509.Name, key: Any, expired: bool) -> bytes:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=2))
    builder = builder.not_valid_after(now - dt.timedelta(days=1) if expired else now + dt.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def expired_admin(control_plane: Any, admin: dict[str, Any]) -> dict[str, Any]:
    """An administrator's certificate of the cluster's own authority that ended yesterday."""
    ca = x509.load_pem_x509_certificate(Path(control_plane.ca_cert).read_bytes())
    signer = serialization.load_pem_private_key(Path(control_plane.ca_cert).with_suffix(".key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "late"),
        ]
    )
    pem = certificate(subject, key.public_key(), ca.subject, signer, expired=True)
    key_format = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    user = {"client-certificate-data": inline(pem), "client-key-data": inline(key.private_bytes(*key_format))}
    return {**admin, "users": [{"name": admin["users"][0]["name"], "user": user}]}


def refused(playbook: Callable[..., Run], world: World, kubeconfig: Any, **more: Any) -> dict[str, Any]:
    """The failure of a task that would write, after it has been seen that nothing was written."""
    before = world()
    task = {"berth.stateful.storage_class": {"name": "never", "kubeconfig": kubeconfig, **more}}
    result = playbook([task], env={}).failed()
    assert world() == before
    assert result["changed"] is False
    return result


def test_unreachable(playbook: Any, world: World, admin: dict[str, Any], closed_port: int) -> None:
    admin["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{closed_port}"
    started = time.monotonic()
    result = refused(playbook, world, admin)
    assert (
        f"the API server https://127.0.0.1:{closed_port} (from the kubeconfig given as a mapping) cannot be reached"
        in result["msg"]
    )
    assert "Connection refused" in result["msg"]
    assert "\n" not in result["msg"]
    assert time.monotonic() - started < 60


def test_a_name_that_does_not_resolve_is_told_at_once(admin: dict[str, Any]) -> None:
    from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth

    admin["clusters"][0]["cluster"]["server"] = "https://no-such-host.invalid:6443"
    client = ApiClient(load_auth({"kubeconfig": admin}, {}), pytest.fail)
    with pytest.raises(UnavailableError, match=r"no-such-host\.invalid") as caught:
        client.list(STORAGE_CLASS)
    assert caught.value.status == 0
    assert client.requests["list"] <= 6


def test_wrong_token(playbook: Any, world: World, admin: dict[str, Any]) -> None:
    result = refused(playbook, world, admin, api_key="not-a-token")
    assert (result["status"], result["reason"]) == (401, "Unauthorized")
    assert (
        "does not accept the credentials of the kubeconfig given as a mapping: they are wrong or have expired"
        in result["msg"]
    )
    assert "not-a-token" not in str(result)


def test_expired_certificate(playbook: Any, world: World, control_plane: Any, admin: dict[str, Any]) -> None:
    result = refused(playbook, world, expired_admin(control_plane, admin))
    assert (result["status"], result["reason"]) == (401, "Unauthorized")
    assert "wrong or have expired" in result["msg"]


def test_missing_permission_names_verb_and_resource(playbook: Any, world: World, control_plane: Any, name: str) -> None:
    kubeconfig = control_plane.user_kubeconfig(name)
    result = refused(playbook, world, str(kubeconfig))
    assert (result["status"], result["reason"]) == (403, "Forbidden")
    assert "RBAC does not allow it (verb list on storageclasses.storage.k8s.io)" in result["msg"]
    assert name in result["msg"]


def test_missing_permission_to_write(control_plane: Any, api: ApiClient, world: World, name: str) -> None:
    """May read, may not write: the rule that lacks is named as RBAC spells it, subresource included."""
    control_plane.kubectl("create", "clusterrolebinding", name, "--clusterrole=view", f"--user={name}")
    client = client_for(control_plane.user_kubeconfig(name))
    before = world()
    body = {"metadata": {"name": name, "resourceVersion": "1"}, "provisioner": "x"}
    with pytest.raises(ForbiddenError, match=r"verb create on storageclasses\.storage\.k8s\.io\)"):
        client.create(STORAGE_CLASS, body)
    with pytest.raises(ForbiddenError, match=r"verb update on localdisks/status\.berth\.dev\)"):
        client.replace(LOCAL_DISK, body, subresource="status")
    with pytest.raises(ForbiddenError, match=r"verb delete on storageclasses"):
        client.delete(STORAGE_CLASS, name)
    assert world() == before
    assert client.written == 0


def test_a_stranger_s_authority(playbook: Any, world: World, admin: dict[str, Any]) -> None:
    """The server's certificate is verified; only the explicit word of the user turns that off."""
    admin["clusters"][0]["cluster"]["certificate-authority-data"] = inline(authority()[2])
    result = refused(playbook, world, admin)
    assert "CERTIFICATE_VERIFY_FAILED" in result["msg"]
    assert "ca_cert" in result["msg"]
    assert result["requests"] == {"list": 1}, "no patience with what does not mend"
    task = {
        "berth.stateful.storage_class": {
            "name": "never",
            "state": "absent",
            "kubeconfig": admin,
            "validate_certs": False,
        }
    }
    playbook([task], env={}).ok()


@pytest.fixture
def no_crds(playbook: Any, control_plane: Any) -> Iterator[None]:
    playbook([{"berth.stateful.crds": {"state": "absent", "force": True}}]).ok()
    yield
    install_crds(control_plane.kubeconfig)


@pytest.mark.usefixtures("no_crds")
def test_crds_not_installed(playbook: Any, world: World, name: str) -> None:
    before = world()
    result = playbook([{"berth.stateful.local_disk_info": {}}]).failed()
    assert result["status"] == 404
    assert "the CRDs are not installed; run berth.stateful.crds first" in result["msg"]
    assert world() == before

    # In check mode an earlier task of the play would have installed them: that nothing can be said yet is no error.
    mount = {"name": "data", "mountPath": "/data"}
    pod = {"spec": {"containers": [{"name": "main", "image": "none", "volumeMounts": [mount]}]}}
    disk = {"name": "data", "size": "1Gi", "storage_class": "berth-local"}
    app = {"name": name, "replicas": 1, "disks": [disk], "template": pod}
    tasks = [{"berth.stateful.stateful_app": {**app, "driver": driver}} for driver in ("playbook", "controller")]
    planned = playbook([{"berth.stateful.crds": {}}, *tasks], "--check", "--diff").ok()
    for told in (task.result for task in planned.tasks[-2:]):
        assert (told["changed"], told["berths"]) == (True, [])
        assert "the cluster does not know LocalDisks yet; which nodes and disks" in told["warnings"][0]
    missing = playbook([{"berth.stateful.stateful_app": app}]).failed()
    assert "the CRDs are not installed; run berth.stateful.crds first" in missing["msg"]
    assert world() == before


BAD = [
    ({"kubeconfig": "/no/such/file"}, "the kubeconfig /no/such/file does not exist"),
    ({"kubeconfig": "/dev/null"}, "no usable cluster configuration"),
    ({"kubeconfig": {"a": 1}}, "no usable cluster configuration"),
    ({"host": "not a url", "api_key": "x"}, "host 'not a url' is not a URL"),
    (
        {"host": "https://localhost", "api_key": "x", "ca_cert": "/no/such/ca"},
        "ca_cert: the file /no/such/ca does not exist",
    ),
    (
        {"host": "https://localhost", "api_key": "x", "ca_cert": "/dev/null"},
        "a certificate or key of host https://localhost",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message for _options, message in BAD])
def test_configuration_that_cannot_work(options: dict[str, Any], message: str) -> None:
    from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth

    with pytest.raises(InputError) as caught:
        ApiClient(load_auth(options, {}), pytest.fail).list(STORAGE_CLASS)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_an_unknown_context(control_plane: Any) -> None:
    from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth

    with pytest.raises(InputError, match="no-such-context"):
        load_auth({"kubeconfig": str(control_plane.kubeconfig), "context": "no-such-context"}, {})


def test_basic_authentication_is_sent_and_refused(control_plane: Any, admin: dict[str, Any]) -> None:
    """A named user replaces the kubeconfig's certificate: the API server, which knows no passwords, refuses."""
    from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth

    options = {"kubeconfig": admin, "username": "admin", "password": "x"}
    with pytest.raises((UnauthorizedError, ForbiddenError)):
        ApiClient(load_auth(options, {}), pytest.fail).list(STORAGE_CLASS)


def test_acting_as_somebody_else(control_plane: Any, name: str) -> None:
    from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth

    options = {"kubeconfig": str(control_plane.kubeconfig), "impersonate_user": name, "impersonate_groups": ["a", "b"]}
    with pytest.raises(ForbiddenError, match=name):
        ApiClient(load_auth(options, {}), pytest.fail).list(STORAGE_CLASS)
    options["impersonate_groups"] = ["a", "system:masters"]
    ApiClient(load_auth(options, {}), pytest.fail).list(STORAGE_CLASS)


def test_an_api_server_that_restarts_in_the_middle(control_plane: Any, api: ApiClient, name: str) -> None:
    """Requests wait for it, each write happens once."""
    if not hasattr(control_plane, "restart_apiserver"):
        pytest.skip("BERTH_KUBECONFIG names an existing cluster, whose API server the test may not restart")
    api.list(STORAGE_CLASS)
    restart = threading.Thread(target=control_plane.restart_apiserver, kwargs={"kill": True})
    restart.start()
    made = []
    while restart.is_alive() or len(made) < 5:
        body = {"metadata": {"name": f"{name}-{len(made)}"}, "provisioner": "kubernetes.io/no-provisioner"}
        with contextlib.suppress(ConflictError):  # written, and killed before it could say so: the second try is told
            api.create(STORAGE_CLASS, body)
        made.append(body["metadata"]["name"])
        time.sleep(0.05)
    restart.join()
    live = {item["metadata"]["name"] for item in api.list(STORAGE_CLASS)}
    assert set(made) <= live
    for item in made:
        api.delete(STORAGE_CLASS, item)
