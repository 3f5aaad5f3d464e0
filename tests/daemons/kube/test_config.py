"""Who a client is: kubeconfigs, service accounts; right, wrong, rotated, expired; the API server says yes or no."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import InputError, UnauthorizedError, UnavailableError
from berth_core.model.resources import NAMESPACE
from berth_kube import config
from berth_kube.client import KubeClient
from tests.support.certificates import authority, certificate_of, inline

EXEC = "client.authentication.k8s.io/v1"

Run = Callable[[Any], Any]
Write = Callable[[dict[str, Any]], str]


def spoilt(admin: dict[str, Any], cluster: dict[str, Any] | None = None, user: Any = None) -> dict[str, Any]:
    """The kubeconfig with other entries in its cluster, or another user."""
    old, name = admin["clusters"][0], admin["users"][0]["name"]
    changed = {**admin, "clusters": [{**old, "cluster": {**old["cluster"], **(cluster or {})}}]}
    return changed if user is None else {**changed, "users": [{"name": name, "user": user}]}


async def ask(path: str, **options: Any) -> Any:
    async with KubeClient(config.load(path, **options)) as client:
        return await client.get(NAMESPACE, "default", timeout=20)


def test_certificates_as_data_touch_no_disk(
    run: Run, admin: dict[str, Any], kubeconfig: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in a kubeconfig goes to OpenSSL from memory: nothing to leave behind, and no room needed on a full disk."""
    monkeypatch.setattr("tempfile.mkstemp", lambda *_args, **_options: pytest.fail("a temporary file"))
    assert run(ask(kubeconfig(admin)))
    assert not [link for link in os.listdir("/proc/self/fd") if "memfd:pem" in _target(link)]


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def test_certificates_as_files_beside_the_kubeconfig(
    run: Run, admin: dict[str, Any], kubeconfig: Write, tmp_path: Path
) -> None:
    user = admin["users"][0]["user"]
    for name in ("client-certificate", "client-key"):
        (tmp_path / f"{name}.pem").write_bytes(base64.b64decode(user[f"{name}-data"]))
    (tmp_path / "ca.pem").write_bytes(base64.b64decode(admin["clusters"][0]["cluster"]["certificate-authority-data"]))
    files = {name: f"{name}.pem" for name in ("client-certificate", "client-key")}
    content = spoilt(admin, {"certificate-authority-data": None, "certificate-authority": "ca.pem"}, files)
    assert run(ask(kubeconfig(content)))


def test_a_rotated_certificate_is_taken_up(
    run: Run, admin: dict[str, Any], kubeconfig: Write, tmp_path: Path, ours: Any
) -> None:
    """The daemon runs on: its next connection shows the new one."""
    key, cert = certificate_of(ours, "berth:first", groups=["system:masters"])
    (tmp_path / "c.pem").write_bytes(cert)
    (tmp_path / "k.pem").write_bytes(key)
    path = kubeconfig(spoilt(admin, user={"client-certificate": "c.pem", "client-key": "k.pem"}))

    async def story() -> None:
        async with KubeClient(config.load(path)) as client:
            assert await who(client) == "berth:first"
            key, cert = certificate_of(ours, "berth:second", groups=["system:masters"])
            (tmp_path / "k.pem").write_bytes(key)
            (tmp_path / "c.pem").write_bytes(cert)
            assert await who(client) == "berth:first", "the open connection stays"
            client._sender._wire.forget_idle()
            assert await who(client) == "berth:second"

    run(story())


async def who(client: KubeClient) -> str:
    from berth_core.model.resources import Resource

    review = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
    body = {"apiVersion": review.api_version, "kind": review.kind}
    return str((await client.create(review, body))["status"]["userInfo"]["username"])


def test_the_pod_s_service_account_and_a_rotated_token(
    run: Run, admin: dict[str, Any], control_plane: Any, namespace: str, token: Callable[..., str], tmp_path: Path
) -> None:
    """As the kubelet does it: a folder of links, swapped at once."""
    host, port = config.endpoint(admin["clusters"][0]["cluster"]["server"], "test")[:2]
    authority_pem = base64.b64decode(admin["clusters"][0]["cluster"]["certificate-authority-data"])

    def put(generation: str, text: str) -> None:
        folder = tmp_path / generation
        folder.mkdir()
        for name, content in (("token", text.encode()), ("ca.crt", authority_pem), ("namespace", namespace.encode())):
            (folder / name).write_bytes(content)
        (tmp_path / "..new").symlink_to(generation)
        os.replace(tmp_path / "..new", tmp_path / "..data")

    first, second = token(namespace), token(namespace)
    put("one", first)
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).symlink_to(f"..data/{name}")

    async def story() -> None:
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
        identity = config.in_cluster(environ, str(tmp_path))
        assert identity.namespace == namespace
        async with KubeClient(identity) as client:
            wanted = f"system:serviceaccount:{namespace}:default"
            assert await who(client) == wanted
            put("two", "not.a.token")
            with pytest.raises(UnauthorizedError, match="the pod's service account: they are wrong or have expired"):
                await who(client)
            put("three", second)
            assert await who(client) == wanted

    run(story())


def test_a_pod_without_a_service_account(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(InputError, match="automountServiceAccountToken"):
        config.in_cluster(environ, str(tmp_path))


def plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    """An exec user: a script that counts its runs."""
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{body}\n")
    script.chmod(0o700)
    return {"exec": {"apiVersion": EXEC, "command": "./plugin", "interactiveMode": "Never"}}


def printed(status: dict[str, Any]) -> str:
    answer = {"apiVersion": EXEC, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


def test_a_plugin_s_token(
    run: Run, admin: dict[str, Any], kubeconfig: Write, tmp_path: Path, namespace: str, token: Callable[..., str]
) -> None:
    """Run once for many requests, again when its credential ends or is refused."""
    good = token(namespace)
    path = kubeconfig(spoilt(admin, user=plugin(tmp_path, printed({"token": good}))))

    async def story() -> None:
        async with KubeClient(config.load(path)) as client:
            names = await asyncio.gather(*(who(client) for _index in range(10)))
            assert set(names) == {f"system:serviceaccount:{namespace}:default"}
            assert len((tmp_path / "runs").read_text().split()) == 1
            plugin(tmp_path, printed({"token": "wrong", "expirationTimestamp": "2020-01-01T00:00:00Z"}))
            client._config.credentials.refused()
            with pytest.raises(UnauthorizedError):
                await who(client)
            plugin(tmp_path, printed({"token": good, "expirationTimestamp": "2999-01-01T00:00:00Z"}))
            assert await who(client) == names[0]

    run(story())


def test_a_plugin_s_certificate(run: Run, admin: dict[str, Any], kubeconfig: Write, tmp_path: Path, ours: Any) -> None:
    key, cert = certificate_of(ours, "berth:plugin", groups=["system:masters"])
    status = {"clientCertificateData": cert.decode(), "clientKeyData": key.decode()}

    async def story() -> None:
        path = kubeconfig(spoilt(admin, user=plugin(tmp_path, printed(status))))
        async with KubeClient(config.load(path)) as client:
            assert await who(client) == "berth:plugin"

    run(story())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo no login >&2; exit 3", "failed with status 3: no login"),
        ("echo hello", "printed no client.authentication.k8s.io/v1 ExecCredential"),
        (printed({}), "printed neither a token nor a certificate"),
    ],
)
def test_plugins_that_fail(
    run: Run, admin: dict[str, Any], kubeconfig: Write, tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(UnauthorizedError, match=message):
        run(ask(kubeconfig(spoilt(admin, user=plugin(tmp_path, body)))))


def test_a_plugin_that_is_missing(run: Run, admin: dict[str, Any], kubeconfig: Write) -> None:
    spec = {"apiVersion": EXEC, "command": "no-such-plugin", "installHint": "buy it"}
    with pytest.raises(InputError, match="no-such-plugin cannot be started: No such file or directory; buy it"):
        run(ask(kubeconfig(spoilt(admin, user={"exec": spec}))))


def test_a_stranger_s_authority(run: Run, admin: dict[str, Any], kubeconfig: Write) -> None:
    """The server is verified; only two words, one of them the caller's, turn that off."""
    path = kubeconfig(spoilt(admin, {"certificate-authority-data": inline(authority()[1])}))
    with pytest.raises(UnavailableError, match=r"its certificate does not verify: .*; give the authority") as caught:
        run(ask(path))
    assert caught.value.reason == "Certificate"
    path = kubeconfig(spoilt(admin, {"certificate-authority-data": None, "insecure-skip-tls-verify": True}))
    with pytest.raises(InputError, match="insecure-skip-tls-verify, which is refused unless it is explicitly allowed"):
        run(ask(path))
    assert run(ask(path, allow_insecure=True))


def test_the_name_in_the_certificate(run: Run, admin: dict[str, Any], kubeconfig: Write) -> None:
    with pytest.raises(UnavailableError, match=r"does not verify: .*example\.org"):
        run(ask(kubeconfig(spoilt(admin, {"tls-server-name": "example.org"}))))
    assert run(ask(kubeconfig(spoilt(admin, {"tls-server-name": "kubernetes.default.svc"}))))


def test_credentials_that_have_ended(run: Run, admin: dict[str, Any], kubeconfig: Write, ours: Any) -> None:
    key, cert = certificate_of(ours, "late", groups=["system:masters"], expired=True)
    user = {"client-certificate-data": inline(cert), "client-key-data": inline(key)}
    path = kubeconfig(spoilt(admin, user=user))
    with pytest.raises(UnauthorizedError, match=f"the kubeconfig {path}: they are wrong or have expired"):
        run(ask(path))
    with pytest.raises(UnauthorizedError, match="wrong or have expired") as caught:
        run(ask(kubeconfig(spoilt(admin, user={"token": "my-secret-token"}))))
    assert "my-secret-token" not in str(caught.value)


def test_nobody_there(run: Run, admin: dict[str, Any], kubeconfig: Write) -> None:
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1 .*ECONNREFUSED"):
        run(ask(kubeconfig(spoilt(admin, {"server": "https://127.0.0.1:1"}))))
    with pytest.raises(UnavailableError, match=r"its name does not resolve"):
        run(ask(kubeconfig(spoilt(admin, {"server": "https://no-such-host.invalid:6443"}))))


WRONG: list[tuple[dict[str, Any], Any, str]] = [
    ({"server": "nowhere"}, None, "the server 'nowhere' of .* is not an address"),
    ({"server": "https://h:99999"}, None, "is not an address"),
    ({"server": "http://127.0.0.1:1"}, None, "a server without TLS, which is refused"),
    ({"proxy-url": "http://p:1"}, None, "uses proxy-url, which is not supported"),
    ({"certificate-authority-data": "%%%"}, None, "certificate-authority-data of .* is not base64"),
    ({"certificate-authority-data": inline(b"no pem")}, None, "certificate authority of .* cannot be used"),
    ({}, {"username": "u", "password": "p"}, "uses username, which is not supported"),
    ({}, {"client-certificate-data": inline(b"x")}, "only one of client-certificate and client-key"),
    ({}, {"client-certificate": "/no/c", "client-key": "/no/k"}, "the file /no/c does not exist"),
    ({}, {"client-certificate-data": inline(b"x"), "client-key-data": inline(b"x")}, "certificate or key of .* cannot"),
    ({}, {"tokenFile": "no-such-token"}, "the token file .*no-such-token cannot be read"),
    ({}, {"exec": {"command": "x", "apiVersion": "v2"}}, "needs a command and an apiVersion"),
    (
        {},
        {"exec": {"command": "x", "apiVersion": EXEC, "interactiveMode": "Always"}},
        "terminal",
    ),
]


@pytest.mark.parametrize(("cluster", "user", "message"), WRONG, ids=[message for *_spoilt, message in WRONG])
def test_kubeconfigs_that_cannot_work(
    run: Run, kubeconfig: Write, cluster: dict[str, Any], user: Any, message: str
) -> None:
    good = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    with pytest.raises(InputError, match=message):
        run(ask(kubeconfig(spoilt(good, cluster, user))))


def test_files_that_are_no_kubeconfig(kubeconfig: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the kubeconfig /no/such cannot be read"):
        config.load("/no/such")
    with pytest.raises(InputError, match="has no current-context"):
        config.load(kubeconfig({}))
    with pytest.raises(InputError, match="has no context 'other'"):
        config.load(kubeconfig({"current-context": "x"}), "other")
    for text, message in (("a: [", "is not YAML"), ("- a", "is not a mapping")):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(InputError, match=message):
            config.load(str(tmp_path / "bad"))


def test_what_is_chosen_when_nothing_is_said(kubeconfig: Write, admin: dict[str, Any]) -> None:
    path = kubeconfig(admin)
    assert config.load(environ={"KUBECONFIG": path}).source == f"the kubeconfig {path}"
    assert config.load(path, environ={"KUBECONFIG": "/no"}).source == f"the kubeconfig {path}"
    with pytest.raises(InputError, match="the pod's service account has no"):
        config.load(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"})


def test_an_empty_token_file_is_named(run: Run, admin: dict[str, Any], kubeconfig: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert stat.S_ISREG((tmp_path / "token").stat().st_mode)
    with pytest.raises(InputError, match="token is empty"):
        run(ask(kubeconfig(spoilt(admin, user={"tokenFile": "token"}))))
