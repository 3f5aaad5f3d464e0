"""Which options and variables make which identity; no API server is asked."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import (
    AUTH_ARGUMENT_SPEC,
    auth_options,
    kubeconfig_secrets,
    load_auth,
    with_absolute_paths,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InputError

KUBECONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "one",
    "clusters": [
        {"name": "c", "cluster": {"server": "https://c:6443"}},
        {"name": "d", "cluster": {"server": "https://d:6443"}},
    ],
    "contexts": [
        {"name": "one", "context": {"cluster": "c", "user": "u"}},
        {"name": "two", "context": {"cluster": "d", "user": "u"}},
    ],
    "users": [{"name": "u", "user": {"token": "kubeconfig-token"}}],
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    return path


def token(auth: Any) -> str:
    return auth.configuration.get_api_key_with_prefix("BearerToken") or auth.configuration.get_api_key_with_prefix(
        "authorization"
    )


def test_each_option_has_its_variable() -> None:
    environ = {
        f"K8S_AUTH_{option.upper()}": "x"
        for option, spec in AUTH_ARGUMENT_SPEC.items()
        if spec["type"] in ("str", "raw", "path")
    }
    options = auth_options({}, environ)
    assert {option for option, value in options.items() if value == "x"} == {name[9:].lower() for name in environ}


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("VERIFY_SSL", "no", "validate_certs", False),
        ("VERIFY_SSL", "true", "validate_certs", True),
        ("VALIDATE_CERTS", "0", "validate_certs", False),
        ("SSL_CA_CERT", "/ca", "ca_cert", "/ca"),
        ("CERT_FILE", "/crt", "client_cert", "/crt"),
        ("KEY_FILE", "/key", "client_key", "/key"),
        ("IMPERSONATE_GROUPS", "a, b,", "impersonate_groups", ["a", "b"]),
        ("PERSIST_CONFIG", "yes", "persist_config", True),
        ("PROXY_HEADERS_BASIC_AUTH", "u:p", "proxy_headers", {"basic_auth": "u:p"}),
    ],
)
def test_variables_as_kubernetes_core_names_them(variable: str, text: str, option: str, value: Any) -> None:
    assert auth_options({}, {f"K8S_AUTH_{variable}": text})[option] == value


def test_an_option_wins_over_its_variable_also_a_false_one() -> None:
    options = auth_options(
        {"validate_certs": False, "host": "https://a"}, {"K8S_AUTH_VERIFY_SSL": "yes", "K8S_AUTH_HOST": "https://b"}
    )
    assert (options["validate_certs"], options["host"]) == (False, "https://a")


def test_kubeconfig_and_context(kubeconfig: Path) -> None:
    assert load_auth({"kubeconfig": str(kubeconfig)}, {}).configuration.host == "https://c:6443"
    assert load_auth({"kubeconfig": str(kubeconfig), "context": "two"}, {}).configuration.host == "https://d:6443"
    assert load_auth({"kubeconfig": copy.deepcopy(KUBECONFIG)}, {}).configuration.host == "https://c:6443"
    assert load_auth({}, {"KUBECONFIG": str(kubeconfig)}).configuration.host == "https://c:6443"
    assert (
        load_auth({}, {"K8S_AUTH_KUBECONFIG": str(kubeconfig), "KUBECONFIG": "/no"}).configuration.host
        == "https://c:6443"
    )


def test_several_files_joined(kubeconfig: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert load_auth({"kubeconfig": f"{missing}:{kubeconfig}"}, {}).configuration.host == "https://c:6443"


@pytest.mark.parametrize("more", ["", ":/no/such/file"], ids=["one file", "joined by the library"])
def test_files_are_found_beside_the_kubeconfig(kubeconfig: Path, more: str) -> None:
    content = copy.deepcopy(KUBECONFIG)
    content["users"][0]["user"] = {"tokenFile": "secrets/token"}
    content["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    kubeconfig.write_text(yaml.safe_dump(content))
    (kubeconfig.parent / "secrets").mkdir()
    (kubeconfig.parent / "secrets" / "token").write_text("from-a-file")
    (kubeconfig.parent / "ca.crt").write_text("certificate")
    auth = load_auth({"kubeconfig": f"{kubeconfig}{more}"}, {})
    assert token(auth) == "Bearer from-a-file"
    assert auth.configuration.ssl_ca_cert == str(kubeconfig.parent / "ca.crt")


@pytest.mark.parametrize("more", ["", ":/no/such/file"], ids=["one file", "joined by the library"])
@pytest.mark.parametrize("text", ["", "just words", "a: [", "clusters: []\nusers: []\ncontexts: []\n"])
def test_what_is_no_kubeconfig_is_refused(kubeconfig: Path, text: str, more: str) -> None:
    kubeconfig.write_text(text)
    with pytest.raises(InputError, match=r"kubeconfig|cluster configuration"):
        load_auth({"kubeconfig": f"{kubeconfig}{more}"}, {})


def test_a_complete_host_needs_no_kubeconfig() -> None:
    auth = load_auth({"host": "https://h", "api_key": "t"}, {"KUBECONFIG": "/no/such/file"})
    assert (auth.configuration.host, token(auth), auth.source) == ("https://h", "Bearer t", "host https://h")


def test_a_named_identity_replaces_the_kubeconfig_s(kubeconfig: Path) -> None:
    assert token(load_auth({"kubeconfig": str(kubeconfig)}, {})) == "Bearer kubeconfig-token"
    assert token(load_auth({"kubeconfig": str(kubeconfig), "api_key": "mine"}, {})) == "Bearer mine"
    basic = load_auth({"kubeconfig": str(kubeconfig), "username": "u", "password": "p"}, {})
    assert (token(basic), basic.configuration.username) == (None, "u")


def test_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="no usable cluster configuration") as caught:
        load_auth({}, {})
    assert "K8S_AUTH_" in caught.value.message


def test_every_secret_of_a_mapping_is_known() -> None:
    user = {
        "token": "s1",
        "password": "s2",
        "client-key-data": "s3",
        "auth-provider": {"config": {"id-token": "s4", "client-secret": "s5"}},
    }
    assert kubeconfig_secrets({"users": [{"name": "u", "user": user}]}) == {"s1", "s2", "s3", "s4", "s5"}
    assert kubeconfig_secrets("/path") == set()


def test_relative_files_of_a_decrypted_kubeconfig() -> None:
    content = {
        "clusters": [{"cluster": {"certificate-authority": "ca.pem", "server": "x"}}],
        "users": [{"user": {"client-key": "/abs"}}],
    }
    assert with_absolute_paths(content, "/etc/k") == {
        "clusters": [{"cluster": {"certificate-authority": "/etc/k/ca.pem", "server": "x"}}],
        "users": [{"user": {"client-key": "/abs"}}],
    }


def test_proxy_headers() -> None:
    headers = load_auth(
        {"host": "https://h", "api_key": "t", "proxy_headers": {"proxy_basic_auth": "u:p", "user_agent": "me"}}, {}
    ).proxy_headers
    assert headers == {"proxy-authorization": "Basic " + base64.b64encode(b"u:p").decode(), "user-agent": "me"}
